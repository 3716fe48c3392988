//! # model: the rules of POSIX for each thing that two programs can disagree about
//!
//! Owns   for each: its states, and which answers are possible in which.
//! Never  knows more than one thing; searches.
//! Enter  at the type that implements `Spec`.

pub mod lengths;
pub mod locks;
pub mod log;
pub(super) mod name_effects;
pub mod name_state;
pub mod names;
pub mod register;
