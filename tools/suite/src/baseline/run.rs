//! Measures layer by layer, then computes the verdict.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use gupfs_kit::agent::{self, Agent, TokenError};
use gupfs_kit::date;

use super::args::Baseline;
use super::coordinator::Coordinator;
use super::coordinator::disks::{Measured, TURNS};
use super::coordinator::network::Network;
use super::orders::receive_token;
use super::report::Report;
use super::verdict::{Ceilings, Judged};
use super::worker;
use super::workers::{WorkerCommands, Workers};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::output::Destination;
use crate::results::milestone::way_of;
use crate::results::series::{Series, show};
use crate::results::{self, Ceiling, Direction, Layer, Line, Results, spread};
use crate::runner::SelfCommand;

impl Baseline {
    /// Measures, or serves as an agent or a worker: the exit code. `self_command` starts this program again.
    ///
    /// # Errors
    ///
    /// The flags exclude each other, a worker was lost, or a measurement failed.
    pub fn run(self, self_command: &SelfCommand) -> SuiteResult<u8> {
        if self.worker {
            return match worker::serve() {
                Ok(()) => Ok(0),
                Err(error) => Err(SuiteError::failed(format!(
                    "nobody hears this worker: {error}"
                ))),
            };
        }
        let mut words = self_command.words.clone();
        words.extend(["baseline", "--worker"].map(OsString::from));
        let token = self.token.read().map_err(|error| match error {
            TokenError::Unreadable(..) => SuiteError::failed(error.to_string()),
            TokenError::Unsuitable(_) => SuiteError::usage(error.to_string()),
        })?;
        if let (Some(address), Some(token)) = (&self.serve, &token) {
            let agent = Agent {
                token: token.clone(),
                worker: words,
                receive_token,
            };
            let Err(error) = agent::listen(address, &agent);
            return Err(SuiteError::failed(format!(
                "cannot listen at {address}: {error}"
            )));
        }
        self.check_flags()?;
        let ways = WorkerCommands {
            worker: words,
            through: self.through.clone(),
            token,
        };
        run(&self, &ways).map(|()| 0)
    }
}

fn run(args: &Baseline, ways: &WorkerCommands) -> SuiteResult<()> {
    let older = args.judge.as_deref().map(Results::read).transpose()?;
    if let Some(out) = args.out.as_deref().filter(|out| out.exists()) {
        Results::read(out)?;
    }
    let accesses = args.accesses();
    let mut workers = Workers::start(&accesses, ways)?;
    let mut coordinator = Coordinator {
        workers: &mut workers,
        accesses: &accesses,
    };
    say_how_long(args);
    let disks = match args.disk.is_empty() {
        true => None,
        false => Some(coordinator.disks(args)?),
    };
    let network = match args.pairs().is_empty() {
        true => None,
        false => Some(coordinator.network(args)?),
    };
    let files = match args.fs.is_empty() {
        true => Vec::new(),
        false => coordinator.files(args)?,
    };
    drop(workers);
    let ceilings = ceilings(disks.as_ref(), network.as_ref());
    let rates_of_files = files.iter();
    let rates_of_files = rates_of_files.map(|files| (files.name.to_owned(), files.way, files.rate));
    let rates = rates_of_files.chain(older.iter().flat_map(|older| rates(older, args)));
    let judged: Vec<Judged> = rates
        .filter_map(|(workload, way, rate)| ceilings.judge(workload, way, rate))
        .collect();
    let report = Report {
        date: date::iso(),
        target: args.target.clone(),
        repeat: args.repeat,
        disk_bytes: args.disk_size.0,
        disk_record: args.disk_record.0,
        disk_seconds: args.disk_seconds,
        disks,
        network_seconds: args.seconds,
        network,
        hosts: args.fs.len(),
        workers: args.workers,
        file_bytes: args.size.0,
        file_record: args.record.0,
        files,
        ceilings,
        judged,
    };
    if let (Some(out), Some(target)) = (&args.out, &args.target) {
        add(out, target, &ceilings)?;
    }
    let destination = Destination {
        base: None,
        json: args.json.as_deref(),
    };
    destination.write(&report)
}

fn ceilings(disks: Option<&Measured>, network: Option<&Network>) -> Ceilings {
    let disk = |way| disks.and_then(|disks| disks.raw.rate(way));
    let network = |way| network.and_then(|network| network.rate(way));
    Ceilings {
        disk_write: disk(Direction::Write),
        disk_read: disk(Direction::Read),
        network_write: network(Direction::Write),
        network_read: network(Direction::Read),
    }
}

/// On standard error, since it takes a while.
fn say_how_long(args: &Baseline) {
    let repeat = args.repeat as usize;
    let disks = args.disk.len() + args.managed.len();
    let ways = if args.read_only { 1 } else { 2 };
    let turns = if args.managed.is_empty() {
        0
    } else {
        2 * TURNS
    };
    let of_disks =
        ((disks * args.disk_streams.len() * repeat + turns) * ways) as f64 * args.disk_seconds;
    let loads = args.pairs().len() * args.streams.len() * args.message.len() * 2 * repeat;
    let of_network = loads as f64 * args.seconds * 1.25;
    if of_disks > 0.0 {
        eprintln!("Disks: about {of_disks:.0} s, and filling them before.");
    }
    if of_network > 0.0 {
        eprintln!("Network: about {of_network:.0} s.");
    }
}

/// Medians of what is in MB/s and goes one way.
fn rates(older: &Results, args: &Baseline) -> Vec<(String, Direction, f64)> {
    let ours = |series: &&Series| {
        args.target
            .as_ref()
            .is_none_or(|target| series.target == *target)
    };
    let all = Series::all(&older.runs);
    let all = all
        .iter()
        .filter(ours)
        .filter(|series| series.unit == "MB/s");
    all.filter_map(|series| {
        let setting = show(&series.setting);
        let words = [&series.workload, &setting, &series.figure, &series.target];
        let words: Vec<_> = words
            .into_iter()
            .filter(|w| !w.is_empty())
            .cloned()
            .collect();
        let rate = spread::median(&series.values)?;
        Some((words.join(" "), way_of(&series.figure)?, rate))
    })
    .collect()
}

/// Behind what the file holds.
fn add(out: &Path, target: &str, ceilings: &Ceilings) -> SuiteResult<()> {
    let mut lines = String::new();
    for layer in Layer::ALL {
        for way in [Direction::Write, Direction::Read] {
            if let Some(rate) = ceilings.of(layer, way) {
                let line = Line::Ceiling(Ceiling {
                    target: target.into(),
                    layer,
                    way,
                    rate,
                    date: date::iso(),
                });
                lines.push_str(&line.show());
            }
        }
    }
    if lines.is_empty() {
        return Err(SuiteError::usage(
            "--out takes what disks and network can do, and neither was measured",
        ));
    }
    let mut file = match out.exists() {
        true => Results::read(out)?.go_on(out)?,
        false => {
            let file = File::options().create(true).append(true).open(out);
            file.doing("write to", out)?
        }
    };
    results::write(&mut file, out, &lines)
}
