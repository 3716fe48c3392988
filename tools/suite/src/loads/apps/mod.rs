//! # apps: the I/O patterns of applications, without the applications (4.2.4)
//!
//! Owns   one file a pattern, each a list of phases; carrying them out; rates of each phase.
//! Never  moves data between processes: what a library might rearrange goes to the file system as it is.
//! Enter  at [`Apps`]; a pattern is an [`pattern::App`].

mod args;
mod btio;
mod checkpoint;
mod flash;
mod nwchem;
mod pattern;
mod report;
mod run;
mod training;

pub use args::Apps;
