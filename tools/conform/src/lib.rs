//! # conform: does a directory behave as POSIX and the Linux manual say?
//!
//! Owns   the checks, one family of system calls a file under `checks/`; how each is run, alone and in its own empty
//!        directory; the report.
//! Never  links, names or knows a file system under test; asks a C library for an opinion (every errno is the
//!        kernel's); leaves anything behind in the directory.
//! Enter  at [`run`], or by the program `conform DIR`.
//!
//! A check is a name that says what is promised, a sentence of the standard, and a function that runs in a thread
//! whose working directory and umask are its own (umask 0, directory mode 0777). Threads with changed credentials act
//! as other users ([`users`]), other processes are forked children ([`child`]). If the directory is served by a daemon,
//! that daemon must not live in the calling process: a mapping's page fault would wait for the process that it stops.

// The suite stands outside every simulated world: it measures a real directory with real threads and a real clock.
#![allow(clippy::disallowed_methods)]

mod acl;
mod check;
pub mod checks;
mod child;
pub mod errno;
mod exceptions;
mod filter;
mod fixtures;
mod kind;
mod outcome;
mod prelude;
mod report;
mod run;
mod sys;
mod test_directory;
mod users;

pub use check::Check;
pub use exceptions::{FileSystem, known_exceptions};
pub use filter::{Exception, Filter};
pub use outcome::{Failure, NotPassed, Outcome};
pub use report::{CheckReport, Report, Verdict};
pub use run::{CannotRun, run, run_checks};
pub use test_directory::TestDirectory;
