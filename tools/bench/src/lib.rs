//! # bench: workloads for any directory, and the cost of a FUSE request
//!
//! Owns   workloads, the programs that run them, tables of ratios taken in one run.
//! Never  links the file system that it measures.
//! Enter  at `request_cost::Door`, a command; the first slice's figures are the program of this crate.

// A measuring tool stands outside the simulated world: it reads the real clock.
#![allow(clippy::disallowed_methods)]

pub mod request_cost;
