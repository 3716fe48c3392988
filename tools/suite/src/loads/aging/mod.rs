//! # aging: speed as a file system fills and its free space fragments (4.2.1)
//!
//! Owns   filling with files of many sizes; removing and writing them anew; what a large file is written and read with then.
//! Never  uses more than its room; compares with anything but the same run's beginning.
//! Enter  at [`Aging`].

mod args;
mod report;
mod run;
mod worker_files;

pub use args::Aging;
