//! # matrix: every test of iozone for every record size and file size (A.3.3; Notre Dame)
//!
//! Owns   iozone's tests by name and in its order; in which order a test visits the records; a table for each test.
//! Never  lets a test work on another file size or record size than its figure says.
//! Enter  at [`Matrix`].

mod args;
mod report;
mod run;
mod tests;

pub use args::Matrix;
