//! # bonnie: six tests of one file, and their CPU time (A.3.1)
//!
//! Owns   writing and reading byte by byte and in chunks, rewriting, and seeking by several processes at once.
//! Never  lets more than one process work on the file, but in the last test.
//! Enter  at [`Bonnie`].

mod args;
mod report;
mod run;
mod tests;

pub use args::Bonnie;
