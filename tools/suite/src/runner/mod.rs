//! # runner: runs a plan
//!
//! Owns   the command that runs a plan; starting programs, caches and memory between them; the result file as runs end.
//! Never  knows what a program measures: it reads the array `figures` of its report. Keeps a run that did not end well.
//! Enter  at [`Run`] for the command, [`SelfCommand`] for how this executable is started again.

mod cache;
mod child;
mod command;
mod machine;
mod program;
mod program_output;
mod progress;
mod remaining_jobs;
mod result_file;
mod session;

pub use command::Run;
pub use program::SelfCommand;
