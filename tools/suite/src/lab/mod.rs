//! # lab: hosts on one machine, with networks of their own and links that are as slow as wanted
//!
//! Owns   network namespaces, their links, a directory for each lab; what a plan starts in them; removing all of it.
//! Never  touches a network, mount or process that no lab made; stays behind without being found by `--clean`.
//! Enter  at [`Lab`].

mod args;
mod clean;
mod directory;
mod hosts;
mod job;
mod links;
mod plan;
mod run;

pub use args::Lab;
