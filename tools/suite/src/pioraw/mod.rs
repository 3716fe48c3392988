//! # pioraw: the bytes that all processes move in a given time, block size after block size (Appendix A.3.4)
//!
//! Owns   the time limit; writing and then reading a file of each process, again and again; volumes and bandwidths.
//! Never  has two processes at one file: nothing but moving data shall be measured.
//! Enter  at [`Pioraw`].

mod args;
mod report;
mod run;

pub use args::Pioraw;
