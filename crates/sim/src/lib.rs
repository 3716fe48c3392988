//! # sim
