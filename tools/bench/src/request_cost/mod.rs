//! `bench door`: the requests a second that the kernel passes to a FUSE server that does nothing, by kind of request.
//!
//! An empty file system is served by a process of its own: ours over `/dev/fuse` and over io_uring, and others' programs beside
//! it. One or four programs use it at a time. All sides take turns; a figure is the median of its turns, with least and most.

mod kind;
mod program;
mod server;
mod table;

pub use program::ProgramCommand;
pub use server::ServerCommand;

use anyhow::{Context, Result, bail};
use clap::Args;
use kind::RequestKind;
use server::{Candidate, RunningServer};
use std::path::PathBuf;
use std::time::Duration;
use table::{Table, TurnResult};

/// Trips a second through the kernel's FUSE, by kind of request and by transport
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs bench door
  gupfs bench door --only write --runs 9
  gupfs bench door --beside fuser=target/release/examples/fuser_null

Needs root, to mount. A program given with --beside is started as `PROGRAM MOUNTPOINT` and mounts an empty file system \
until it gets SIGTERM.

Exit codes: 0 measured · 1 could not · 2 wrong arguments")]
pub struct RequestCost {
    /// Turns of each side
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
    /// How long one turn takes, in milliseconds
    #[arg(long, default_value_t = 300, value_name = "MS")]
    millis: u64,
    /// Only kinds whose name contains this
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// Programs at a time
    #[arg(long, value_delimiter = ',', default_value = "1,4", value_name = "N,…")]
    programs: Vec<usize>,
    /// Another's empty file system to measure beside ours
    #[arg(long, value_name = "NAME=PROGRAM")]
    beside: Vec<String>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl RequestCost {
    /// Measures all kinds of requests and prints a table of each.
    ///
    /// # Errors
    ///
    /// A file system cannot be mounted, or a program of a turn failed.
    pub fn run(&self) -> Result<()> {
        let candidates = self.candidates()?;
        let work = tempfile::tempdir().context("cannot make a directory to mount in")?;
        let mut serving = Vec::new();
        for side in &candidates {
            let mount = work.path().join(format!("side-{}", serving.len()));
            std::fs::create_dir(&mount)?;
            serving.push(RunningServer::start(side, &mount)?);
        }
        let kinds = RequestKind::ALL
            .into_iter()
            .filter(|kind| kind.name().contains(&self.only));
        for kind in kinds {
            for (programs, pinned) in self.settings() {
                let table = self.measure(kind, programs, pinned, &candidates, &serving)?;
                table.print(self.json);
            }
        }
        serving.into_iter().try_for_each(RunningServer::stop)
    }

    fn candidates(&self) -> Result<Vec<Candidate>> {
        let mut candidates = Candidate::ours();
        for beside in &self.beside {
            let Some((name, program)) = beside.split_once('=') else {
                bail!("--beside {beside}: NAME=PROGRAM is expected");
            };
            candidates.push(Candidate::beside(name, PathBuf::from(program)));
        }
        Ok(candidates)
    }

    /// One program may stay on a CPU, too; several are spread by the scheduler, or one after the other over the CPUs.
    fn settings(&self) -> impl Iterator<Item = (usize, bool)> + '_ {
        self.programs
            .iter()
            .flat_map(|programs| [(*programs, false), (*programs, true)])
    }

    fn measure(
        &self,
        kind: RequestKind,
        programs: usize,
        pinned: bool,
        candidates: &[Candidate],
        serving: &[RunningServer],
    ) -> Result<Table> {
        let mut table = Table::new(kind, programs, pinned, candidates);
        let turn = Duration::from_millis(self.millis);
        for run in 0..self.runs {
            for (index, server) in serving.iter().enumerate() {
                let before = server.cpu_usage()?;
                let done = program::together(kind, server.mount(), programs, pinned, run, turn)
                    .with_context(|| format!("{} on {}", kind.name(), candidates[index].name))?;
                let cpu_usage = server.cpu_usage()? - before;
                table.add(index, TurnResult::new(done, cpu_usage));
            }
        }
        Ok(table)
    }
}
