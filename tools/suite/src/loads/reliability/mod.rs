//! # reliability: checked data under load while a fault happens (4.2.3)
//!
//! Owns   writers that know what was acknowledged to them; the fault's command and the repair's; what was lost, and how long
//!        everything stood still.
//! Never  makes a fault by itself, or leaves one that it can repair; waits for ever; calls lost what was not acknowledged, or kept what it did not read back.
//! Enter  at [`Reliability`].

mod args;
mod audit;
mod fault;
mod report;
mod run;
mod watch;
mod writer;

pub use args::Reliability;
