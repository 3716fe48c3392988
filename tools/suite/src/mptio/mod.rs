//! # mptio: the aggregate I/O of threads of processes on files or devices (Appendix A.1)
//!
//! Owns   the region of each thread; the five tests; the check of their data; the report and its summary.
//! Never  lets two processes' clocks be compared: each says how long it took, and process 0 how long all took.
//! Enter  at [`Mptio`]; the arithmetic alone is [`regions`].

mod args;
mod content;
mod device;
pub mod regions;
pub mod report;
mod run;
pub mod summary;
mod target;
mod tests;
mod thread;
mod verify;

pub use args::Mptio;
