//! The rates of each level, beside those of the empty file system.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Aging;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::results::spread::{self, Ratio, Verdict};
use crate::size::{MB, Size};
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub room_bytes: u64,
    pub churn: f64,
    pub least_bytes: u64,
    pub most_bytes: u64,
    pub workers: u16,
    pub file_bytes: u64,
    pub record_bytes: u64,
    pub seed: u64,
    pub levels: Vec<Level>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Level {
    /// Of the room.
    pub percent: u8,
    /// From the level before, with small and large files.
    pub fill: Option<Step>,
    pub churn: Option<Step>,
    /// Of the large files: each run.
    pub writes: Vec<Step>,
    pub reads: Vec<Step>,
}

impl Level {
    pub fn new(percent: u8) -> Level {
        Level {
            percent,
            fill: None,
            churn: None,
            writes: Vec::new(),
            reads: Vec::new(),
        }
    }

    /// The names of its figures and their values, in MB/s.
    fn rates(&self) -> [(&'static str, Option<f64>); 4] {
        let rate = |step: &Option<Step>| step.as_ref().map(Step::rate);
        [
            ("Fill", rate(&self.fill)),
            ("Churn", rate(&self.churn)),
            ("Write", median(&self.writes)),
            ("Read", median(&self.reads)),
        ]
    }
}

fn median(steps: &[Step]) -> Option<f64> {
    spread::median(&rates(steps))
}

impl Report {
    pub fn new(args: &Aging, room: u64) -> Report {
        Report {
            room_bytes: room,
            churn: args.churn,
            least_bytes: args.least.0,
            most_bytes: args.most.0,
            workers: args.workers,
            file_bytes: args.size.0,
            record_bytes: args.record.0,
            seed: args.seed,
            levels: Vec::new(),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "aging";

    fn figures(&self) -> Vec<Figure> {
        let figures = self.levels.iter().flat_map(|level| {
            let rates = level.rates().into_iter();
            rates.filter_map(|(name, rate)| {
                Some(Figure::rate(name, "MB/s", rate?, []).at("filled", level.percent))
            })
        });
        figures.collect()
    }
}

/// All rates of some runs.
fn rates(steps: &[Step]) -> Vec<f64> {
    steps.iter().map(Step::rate).collect()
}

/// Beside the same of the empty file system: percent, and a mark if that may be chance.
fn beside(now: &[Step], empty: &[Step]) -> String {
    let Some(ratio) = Ratio::of(&rates(now), &rates(empty)) else {
        return "-".into();
    };
    let mark = match ratio.verdict() {
        Verdict::Noise => "~",
        _ => "",
    };
    format!("{mark}{:.1}%", 100.0 * ratio.value)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "A room of {:.0} MB, {} workers, files of {} to {}, churned {} times at each level; then files of {} in records of {}, \
             seed {}",
            self.room_bytes as f64 / MB,
            self.workers,
            Size(self.least_bytes),
            Size(self.most_bytes),
            self.churn,
            Size(self.file_bytes),
            Size(self.record_bytes),
            self.seed
        )?;
        writeln!(
            f,
            "\nMB/s         Fill      Churn      Write  to empty       Read  to empty"
        )?;
        writeln!(
            f,
            "----- ---------- ---------- ---------- --------- ---------- ---------"
        )?;
        for level in &self.levels {
            let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.2}"));
            let [fill, churn, write, read] = level.rates().map(|(_, value)| rate(value));
            let empty = &self.levels[0];
            writeln!(
                f,
                "{:>4}% {fill:>10} {churn:>10} {write:>10} {:>9} {read:>10} {:>9}",
                level.percent,
                beside(&level.writes, &empty.writes),
                beside(&level.reads, &empty.reads)
            )?;
        }
        writeln!(
            f,
            "~: may be noise (the interval that holds 95 % of such ratios holds 1)"
        )?;
        let rows = self.levels.iter().flat_map(|level| {
            let steps = [
                ("Fill", level.fill.as_ref()),
                ("Churn", level.churn.as_ref()),
                ("Write", level.writes.last()),
                ("Read", level.reads.last()),
            ];
            let steps = steps.into_iter();
            let done = steps.filter_map(|(name, step)| Some((name, step?.latencies)));
            done.map(|(name, latencies)| (format!("{name} {}%", level.percent), latencies))
        });
        latency::table(f, 12, rows)
    }
}
