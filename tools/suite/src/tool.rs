//! What every program of the suite does before and after its work.

use std::process::ExitCode;

use clap::Parser;

use crate::leftovers;
use crate::procs::{Begun, Procs, begin, started_as};
use crate::trouble::{Outcome, Trouble};

/// A program of the suite.
pub trait Tool {
    /// How many processes to start here, if that was asked for.
    fn np(&self) -> Option<usize>;

    /// How many to start here if nothing was said, and no starter such as mpirun decides.
    fn np_otherwise(&self) -> usize {
        1
    }

    /// Whether what was asked for is possible, as far as that can be said without looking at the world.
    fn check(&self) -> Outcome<()>;

    /// The work, in each of the processes. Ends with the same outcome in all.
    fn run(self, procs: &mut Procs) -> Outcome<()>;
}

/// A program's main function.
pub fn main<T: Tool + Parser>() -> ExitCode {
    match parse::<T>() {
        Ok(tool) => ExitCode::from(run(tool, T::command().get_name())),
        Err(code) => code,
    }
}

/// What this process's arguments ask for, or the exit code after the user was told what is wrong with them.
pub fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        // Under mpirun all processes read the same flags; one answer is enough.
        if started_as() == 0 {
            let _ = error.print();
        }
        ExitCode::from(error.exit_code() as u8)
    })
}

/// A program of this name whose arguments were read: the exit code. Processes of its own are started with this process's arguments.
pub fn run<T: Tool>(tool: T, name: &str) -> u8 {
    start(tool).unwrap_or_else(|trouble| {
        if started_as() == 0 {
            eprintln!("{name}: {trouble}");
        }
        trouble.exit_code()
    })
}

/// Checks, starts the processes and runs: the exit code.
pub fn start<T: Tool>(tool: T) -> Outcome<u8> {
    tool.check()?;
    match begin(tool.np(), tool.np_otherwise())? {
        Begun::Ended(code) => Ok(code),
        Begun::Process(mut procs) => work(tool, &mut procs),
    }
}

/// All processes end in the same way: whatever a failed run made is removed before the last of them leaves.
fn work<T: Tool>(tool: T, procs: &mut Procs) -> Outcome<u8> {
    let worked = tool.run(procs);
    let code = match &worked {
        Ok(()) => 0,
        Err(trouble) => {
            if procs.leads() {
                eprintln!("{trouble}");
            }
            clean_up(trouble, procs);
            trouble.exit_code()
        }
    };
    procs.finish(code)?;
    Ok(code)
}

/// In all processes, after the same trouble.
fn clean_up(trouble: &Trouble, procs: &mut Procs) {
    for said in leftovers::undo() {
        eprintln!("{said}");
    }
    if trouble.is_hung() {
        for path in leftovers::leave() {
            if procs.leads() {
                eprintln!(
                    "{} is left there, since removing it may hang, too",
                    path.display()
                );
            }
        }
        return;
    }
    // What one broke is repaired before another needs it. If they cannot be reached, each does what it can.
    let _ = procs.barrier();
    for left in leftovers::remove() {
        eprintln!("{left}");
    }
}

/// How many processes: for `--np`.
pub fn parse_np(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(np @ 1..=1024) => Ok(np),
        _ => Err("write a number of processes, 1 to 1024".into()),
    }
}

/// What was asked for is not possible; every process says so by itself, as all were asked the same.
pub fn refuse<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Trouble::asked(text))
}

/// Whether something stands in a list more than once.
pub fn twice<T: PartialEq>(list: &[T]) -> bool {
    (1..list.len()).any(|end| list[..end].contains(&list[end]))
}
