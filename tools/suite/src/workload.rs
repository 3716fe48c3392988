//! # workload: programs that load a file system with several processes in step
//!
//! Owns   the trait of all of them; their main function; reporting, and cleaning up after a run that failed.
//! Never  knows what a program measures; writes the report of a run that failed.
//! Enter  at [`main`] with a program's type, at [`run`] with flags that were parsed.

use std::fmt;
use std::process::ExitCode;

use clap::Parser;

use crate::cleanup;
use crate::error::{SuiteError, SuiteResult};
use crate::figure::HasFigures;
use crate::output::Destination;
use crate::procs::{Launch, Procs, begin, launch_rank};

/// A program of the suite: its fields are its flags.
pub trait Workload {
    /// The figures of a run. Process 0 has all of them.
    type Report: HasFigures + fmt::Display;

    /// How many processes to start on this host, if the flags say so.
    fn np(&self) -> Option<usize>;

    /// How many to start on this host if neither the flags nor a starter such as mpirun say so.
    fn default_np(&self) -> usize {
        1
    }

    /// Whether the flags go together, as far as that can be said without looking at files and devices.
    ///
    /// # Errors
    ///
    /// Two flags exclude each other, or a value is out of range: the exit code is 2.
    fn check(&self) -> SuiteResult<()>;

    /// Where the report is written.
    fn destination(&self) -> Destination<'_>;

    /// The work, in each of the processes. Ends with the same outcome in all. None if the flags ask for no measurement.
    ///
    /// # Errors
    ///
    /// A system call failed, data were wrong, or another process met an error.
    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Self::Report>>;

    /// Whether the run succeeded, by what it measured. Called in each of the processes, once the report is written.
    ///
    /// # Errors
    ///
    /// The file system broke a promise that this program tests.
    fn verdict(&self, _report: &Self::Report) -> SuiteResult<()> {
        Ok(())
    }
}

/// The names of all workloads, as one types them and as plans name them.
pub const NAMES: [&str; 14] = [
    "mptio",
    "metabench",
    "pioraw",
    "mdmark",
    "streams",
    "interleave",
    "pileup",
    "daq",
    "apps",
    "matrix",
    "tiotest",
    "bonnie",
    "aging",
    "reliability",
];

/// A program's main function.
pub fn main<W: Workload + Parser>() -> ExitCode {
    match parse::<W>() {
        Ok(workload) => ExitCode::from(run(&workload)),
        Err(code) => code,
    }
}

/// This process's arguments.
///
/// # Errors
///
/// The arguments are wrong: the user was told, and this is the exit code.
pub fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        // Under mpirun all processes read the same flags; one answer is enough.
        if launch_rank() == 0 {
            let _ = error.print();
        }
        ExitCode::from(error.exit_code() as u8)
    })
}

/// Runs a program whose flags were parsed: the exit code. Processes of its own are started with this process's arguments.
pub fn run<W: Workload>(workload: &W) -> u8 {
    start(workload).unwrap_or_else(|error| {
        if launch_rank() == 0 {
            eprintln!("{}: {error}", W::Report::PROGRAM);
        }
        error.exit_code()
    })
}

/// Checks, starts the processes and runs: the exit code.
fn start<W: Workload>(workload: &W) -> SuiteResult<u8> {
    workload.check()?;
    match begin(workload.np(), workload.default_np())? {
        Launch::Ended(code) => Ok(code),
        Launch::Process(mut procs) => work(workload, &mut procs),
    }
}

/// All processes end in the same way: whatever a failed run made is removed before the last of them leaves.
fn work<W: Workload>(workload: &W, procs: &mut Procs) -> SuiteResult<u8> {
    let worked = measure(workload, procs);
    let code = match &worked {
        Ok(()) => 0,
        Err(error) => {
            if procs.is_rank_0() {
                eprintln!("{error}");
            }
            clean_up(error, procs);
            error.exit_code()
        }
    };
    procs.finish(code)?;
    Ok(code)
}

/// Runs, reports, and judges.
fn measure<W: Workload>(workload: &W, procs: &mut Procs) -> SuiteResult<()> {
    let Some(report) = workload.run(procs)? else {
        return Ok(());
    };
    procs.on_rank_0(|| workload.destination().write(&report))?;
    workload.verdict(&report)
}

/// Called in all processes, after the same error.
fn clean_up(error: &SuiteError, procs: &mut Procs) {
    for said in cleanup::repair() {
        eprintln!("{said}");
    }
    if error.is_hung() {
        for path in cleanup::take_paths() {
            if procs.is_rank_0() {
                eprintln!(
                    "{} is left there, since removing it may hang, too",
                    path.display()
                );
            }
        }
        return;
    }
    // One process repairs a fault before another needs the file system. If others cannot be reached, each cleans up alone.
    let _ = procs.barrier();
    for left in cleanup::remove() {
        eprintln!("{left}");
    }
}

/// How many processes: for `--np`.
///
/// # Errors
///
/// The text is no number from 1 to 1024.
pub fn parse_np(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(np @ 1..=1024) => Ok(np),
        _ => Err("write a number of processes, 1 to 1024".into()),
    }
}

/// A usage error. Every process reports it by itself, as all have the same arguments.
///
/// # Errors
///
/// Always: exit code 2, with this text.
pub fn usage_error<T>(text: impl Into<String>) -> SuiteResult<T> {
    Err(SuiteError::usage(text))
}

/// Whether something stands in a list more than once.
pub fn has_duplicates<T: PartialEq>(list: &[T]) -> bool {
    (1..list.len()).any(|end| list[..end].contains(&list[end]))
}
