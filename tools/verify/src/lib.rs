//! # verify: tests whether mounts of a file system agree
//!
//! Owns   operations and histories, the models and the search that judges them, workers, the run, its report.
//! Never  links, names or knows a file system; asks one for anything but system calls.
//! Enter  at [`cli::Verify`], or at [`check::judge`] with a history of one's own. docs/verify.md says how it works.

// It stands outside every simulated world: it measures real directories with real processes and a real clock. `check` alone is
// pure, and used by simulations too.
#![allow(clippy::disallowed_methods)]

pub mod check;
pub mod cli;
mod coordinator;
mod frame;
pub mod history;
mod mix;
pub mod report;
mod rng;
pub mod subject;
mod work;
