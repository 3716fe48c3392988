//! One test for both ways in which processes reach each other: local ones, and those that mpirun starts.
//!
//! Without arguments it starts itself in both ways (MPI where the feature is built).

// Tests stand outside the simulated world and wait by the real clock.
#![allow(clippy::disallowed_methods)]

use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use gupfs_suite::error::{SuiteError, SuiteResult};
use gupfs_suite::figure::{Figure, HasFigures};
use gupfs_suite::output::Destination;
use gupfs_suite::procs::Procs;
use gupfs_suite::stop_flag::StopFlag;
use gupfs_suite::threads;
use gupfs_suite::workload::{self, Workload};

#[derive(clap::Parser)]
#[command(name = "procs")]
struct Contract {
    #[arg(long)]
    np: Option<usize>,
    #[arg(long, default_value = "")]
    part: String,
}

/// The parts measure nothing.
#[derive(serde::Serialize)]
enum NoReport {}

impl HasFigures for NoReport {
    const PROGRAM: &'static str = "procs";

    fn figures(&self) -> Vec<Figure> {
        match *self {}
    }
}

impl std::fmt::Display for NoReport {
    fn fmt(&self, _: &mut std::fmt::Formatter) -> std::fmt::Result {
        match *self {}
    }
}

impl Workload for Contract {
    type Report = NoReport;

    fn np(&self) -> Option<usize> {
        self.np
    }

    fn check(&self) -> SuiteResult<()> {
        Ok(())
    }

    fn destination(&self) -> Destination<'_> {
        Destination {
            base: None,
            json: None,
        }
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<NoReport>> {
        let done = match self.part.as_str() {
            "speak" => speak(procs),
            "disagree" => disagree(procs),
            "halt" => halt(procs),
            "die" => die(procs),
            other => Err(SuiteError::usage(format!("no part '{other}'"))),
        };
        done.map(|()| None)
    }
}

/// Each collective call gives everybody what it promises.
fn speak(procs: &mut Procs) -> SuiteResult<()> {
    let (rank, size) = (procs.rank(), procs.size());
    assert_eq!(size, 3);
    for round in 0..20 {
        procs.barrier()?;
        let told = procs.broadcast(&(rank * 10 + round))?;
        assert_eq!(told, round);
        let texts = procs.gather(&"x".repeat(rank * 100_000))?;
        match texts {
            Some(texts) => {
                assert_eq!(rank, 0);
                let lengths: Vec<usize> = texts.iter().map(String::len).collect();
                assert_eq!(lengths, [0, 100_000, 200_000]);
            }
            None => assert_ne!(rank, 0),
        }
        assert_eq!(procs.share(&rank)?, [0, 1, 2]);
    }
    let led = procs.on_rank_0(|| Ok("from 0".to_owned()))?;
    assert_eq!(led, "from 0");
    // Process 0's moment lies before anybody's start: both are read from the clock of this host.
    let moment = procs.start_together()?;
    let begun = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // In this order what is computed lies rather before the moment than behind it.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let since = moment.elapsed().as_nanos() as i64;
    let nanos = |time: rustix::time::Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
    let starts = procs.share(&(nanos(now) - since, nanos(begun)))?;
    assert!(
        starts.iter().all(|(_, begun)| starts[0].0 <= *begun),
        "{starts:?}"
    );
    // Nobody passes a barrier before all have come.
    let mark =
        std::env::temp_dir().join(format!("procs_{}", procs.broadcast(&std::process::id())?));
    if rank == 2 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::write(&mark, "").unwrap();
    }
    procs.barrier()?;
    assert!(mark.exists());
    procs.barrier()?;
    if rank == 0 {
        std::fs::remove_file(&mark).unwrap();
        println!("spoken");
    }
    Ok(())
}

/// One has a trouble: all end with it.
fn disagree(procs: &mut Procs) -> SuiteResult<()> {
    let mine = match procs.rank() {
        1 => Err(SuiteError::failed("the disk is on fire")),
        _ => Ok(()),
    };
    procs.agree(mine)?;
    println!("went on");
    Ok(())
}

/// One worker of one process meets trouble: all others stop their work soon, in the step and in what is done apart.
fn halt(procs: &mut Procs) -> SuiteResult<()> {
    let begun = Instant::now();
    let rank = procs.rank();
    let busy = |worker: usize, halt: &StopFlag| {
        // Far longer than the bounds below.
        while begun.elapsed() < Duration::from_secs(300) {
            if rank == 1 && worker == 1 && begun.elapsed() > Duration::from_millis(300) {
                return Err(SuiteError::failed(format!(
                    "worker {worker} is out of paper"
                )));
            }
            halt.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    let apart = threads::run_untimed(procs, |halt| busy(1, halt));
    let text = apart.expect_err("somebody met trouble").to_string();
    assert_eq!(text, "process 1: worker 1 is out of paper");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let error = threads::run_step(
        procs,
        &[0, 1, 2],
        |_| Ok(()),
        |worker, (), halt| busy(worker, halt),
    )
    .map(drop);
    assert!(begun.elapsed() < Duration::from_secs(60));
    error
}

/// One dies: the others end, and what it made is gone.
fn die(procs: &mut Procs) -> SuiteResult<()> {
    let made = std::env::temp_dir().join(format!(
        "procs_died_{}",
        procs.broadcast(&std::process::id())?
    ));
    procs.remove_on_failure(&made)?;
    if procs.rank() == 0 {
        std::fs::write(&made, "").unwrap();
        eprintln!("made={}", made.display());
    }
    procs.barrier()?;
    if procs.rank() == 2 {
        std::process::abort();
    }
    procs.barrier()?;
    println!("went on");
    Ok(())
}

fn ran(command: &mut Command, part: &str) -> Output {
    command.args(["--part", part]).output().unwrap()
}

fn check(way: &str, command: impl Fn() -> Command) {
    let spoken = ran(&mut command(), "speak");
    assert!(spoken.status.success(), "{way}: {spoken:?}");
    assert_eq!(spoken.stdout, b"spoken\n", "{way}");

    let disagreed = ran(&mut command(), "disagree");
    let said = String::from_utf8_lossy(&disagreed.stderr);
    assert_eq!(disagreed.status.code(), Some(1), "{way}: {said}");
    assert!(
        said.contains("process 1: the disk is on fire"),
        "{way}: {said}"
    );
    assert_eq!(disagreed.stdout, b"", "{way}");

    let begun = Instant::now();
    let halted = ran(&mut command(), "halt");
    let said = String::from_utf8_lossy(&halted.stderr);
    assert_eq!(halted.status.code(), Some(1), "{way}: {said}");
    assert!(
        said.contains("process 1: worker 1 is out of paper"),
        "{way}: {said}"
    );
    assert!(begun.elapsed() < Duration::from_secs(120), "{way}: {said}");

    let died = ran(&mut command(), "die");
    let said = String::from_utf8_lossy(&died.stderr);
    assert!(!died.status.success(), "{way}: {said}");
    assert_eq!(died.stdout, b"", "{way}");
    let made = said.lines().find_map(|line| line.strip_prefix("made="));
    let made = std::path::Path::new(made.expect("it was made"));
    assert!(!made.exists(), "{way}: {} is left: {said}", made.display());
    println!("{way}: ok");
}

fn main() -> ExitCode {
    let this = std::env::current_exe().unwrap();
    if std::env::args().any(|argument| argument == "--part") {
        return workload::main::<Contract>();
    }
    check("local", || {
        let mut command = Command::new(&this);
        command.args(["--np", "3"]);
        command
    });
    if cfg!(feature = "mpi") {
        check("mpi", || {
            let mut command = Command::new("mpirun");
            command.args(["--allow-run-as-root", "--oversubscribe", "-np", "3"]);
            command.arg(&this);
            command
        });
    }
    ExitCode::SUCCESS
}
