//! Layer by layer, then the verdict.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use gupfs_kit::agent::{self, Agent, TokenError};
use gupfs_kit::date;

use super::args::Baseline;
use super::lead::Lead;
use super::lead::disks::TURNS;
use super::orders::receive_token;
use super::report::Report;
use super::verdict::{Ceilings, Judged};
use super::worker;
use super::workers::{Ways, Workers};
use crate::output::Destination;
use crate::results::milestone::way_of;
use crate::results::series::{Series, show};
use crate::results::{self, Ceiling, Layer, Line, Results, Way, spread};
use crate::runner::Itself;
use crate::trouble::{Doing, Outcome, Trouble};

impl Baseline {
    /// Measures, or serves as an agent or a worker: the exit code. `itself` starts this program again.
    ///
    /// # Errors
    ///
    /// The flags exclude each other, a worker was lost, or a measurement failed.
    pub fn run(self, itself: &Itself) -> Outcome<u8> {
        if self.worker {
            return match worker::serve() {
                Ok(()) => Ok(0),
                Err(error) => Err(Trouble::met(format!("nobody hears this worker: {error}"))),
            };
        }
        let mut words = itself.words.clone();
        words.extend(["baseline", "--worker"].map(OsString::from));
        let token = self.token.read().map_err(|error| match error {
            TokenError::Unreadable(..) => Trouble::met(error.to_string()),
            TokenError::Unsuitable(_) => Trouble::asked(error.to_string()),
        })?;
        if let (Some(address), Some(token)) = (&self.serve, &token) {
            let agent = Agent {
                token: token.clone(),
                worker: words,
                receive_token,
            };
            let Err(error) = agent::listen(address, &agent);
            return Err(Trouble::met(format!("cannot listen at {address}: {error}")));
        }
        self.check_flags()?;
        let ways = Ways {
            worker: words,
            through: self.through.clone(),
            token,
        };
        run(&self, &ways).map(|()| 0)
    }
}

fn run(asked: &Baseline, ways: &Ways) -> Outcome<()> {
    let older = asked.judge.as_deref().map(Results::read).transpose()?;
    if let Some(out) = asked.out.as_deref().filter(|out| out.exists()) {
        Results::read(out)?;
    }
    let accesses = asked.accesses();
    let mut workers = Workers::start(&accesses, ways)?;
    let mut lead = Lead {
        workers: &mut workers,
        accesses: &accesses,
    };
    say_how_long(asked);
    let disks = match asked.disk.is_empty() {
        true => None,
        false => Some(lead.disks(asked)?),
    };
    let network = match asked.pairs().is_empty() {
        true => None,
        false => Some(lead.network(asked)?),
    };
    let files = match asked.fs.is_empty() {
        true => Vec::new(),
        false => lead.files(asked)?,
    };
    drop(workers);
    let disk = |way| disks.as_ref().and_then(|disks| disks.raw.rate(way));
    let net = |way| network.as_ref().and_then(|network| network.rate(way));
    let ceilings = Ceilings {
        disk_write: disk(Way::Write),
        disk_read: disk(Way::Read),
        network_write: net(Way::Write),
        network_read: net(Way::Read),
    };
    let judged = files.iter();
    let judged = judged.map(|files| (files.name.to_owned(), files.way, files.rate));
    let judged = judged.chain(older.iter().flat_map(|older| rates(older, asked)));
    let judged: Vec<Judged> = judged
        .filter_map(|(workload, way, rate)| ceilings.judge(workload, way, rate))
        .collect();
    let report = Report {
        date: date::iso(),
        target: asked.target.clone(),
        repeat: asked.repeat,
        disk_bytes: asked.disk_size.0,
        disk_record: asked.disk_record.0,
        disk_seconds: asked.disk_seconds,
        disks,
        network_seconds: asked.seconds,
        network,
        hosts: asked.fs.len(),
        workers: asked.workers,
        file_bytes: asked.size.0,
        file_record: asked.record.0,
        files,
        ceilings,
        judged,
    };
    if let (Some(out), Some(target)) = (&asked.out, &asked.target) {
        add(out, target, &ceilings)?;
    }
    let destination = Destination {
        base: None,
        json: asked.json.as_deref(),
    };
    destination.write(&report)
}

/// On standard error, since it takes a while.
fn say_how_long(asked: &Baseline) {
    let repeat = asked.repeat as usize;
    let disks = asked.disk.len() + asked.managed.len();
    let ways = if asked.read_only { 1 } else { 2 };
    let turns = if asked.managed.is_empty() {
        0
    } else {
        2 * TURNS
    };
    let of_disks =
        ((disks * asked.disk_streams.len() * repeat + turns) * ways) as f64 * asked.disk_seconds;
    let loads = asked.pairs().len() * asked.streams.len() * asked.message.len() * 2 * repeat;
    let of_network = loads as f64 * asked.seconds * 1.25;
    if of_disks > 0.0 {
        eprintln!("Disks: about {of_disks:.0} s, and filling them before.");
    }
    if of_network > 0.0 {
        eprintln!("Network: about {of_network:.0} s.");
    }
}

/// Medians of what is in MB/s and goes one way.
fn rates(older: &Results, asked: &Baseline) -> Vec<(String, Way, f64)> {
    let ours = |series: &&Series| {
        asked
            .target
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
fn add(out: &Path, target: &str, ceilings: &Ceilings) -> Outcome<()> {
    let mut lines = String::new();
    for layer in Layer::ALL {
        for way in [Way::Write, Way::Read] {
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
        return Err(Trouble::asked(
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
