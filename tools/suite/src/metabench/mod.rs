//! # metabench: metadata operations of processes in step (Appendix A.2)
//!
//! Owns   which processes take part; directories made by process 0; creation, stat, utime, append and untar tests; the report.
//! Never  lets the process that set up take part, unless it is alone or `-0` says so: it would meet its own cache.
//! Enter  at [`Metabench`]; what one test does in a process is under `ops/`.

mod args;
mod files;
mod ops;
pub mod report;
mod run;
mod setup;
mod tarball;
mod tests;

pub use args::Metabench;
