//! # tiotest: threads that all work at once on files of their own (A.3.2)
//!
//! Owns   its four tests by name; reading and writing by system calls or by memory that is mapped; largest and average latency.
//! Never  lets a thread start before all are ready.
//! Enter  at [`Tiotest`].

mod args;
mod mapped;
mod report;
mod run;

pub use args::Tiotest;
