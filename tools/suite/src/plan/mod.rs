//! # plan: workloads on targets side by side, as data
//!
//! Owns   plans and their check; which run follows which; starting programs, caches and memory between them; the result file.
//! Never  knows what a program measures: it reads the array `figures` of its report. Keeps a run that did not end well.
//! Enter  at [`Run`] for the command, [`Plan`] for the data.

mod cache;
mod child;
mod file;
mod fill;
mod machine;
mod order;
mod outfile;
mod program;
mod progress;
mod run;
mod session;
pub mod shipped;
mod terms;

pub use file::{Plan, Target, Workload};
pub use order::jobs;
pub use program::Itself;
pub use run::Run;
pub use shipped::Plans;
