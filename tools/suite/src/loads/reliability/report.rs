//! The records that were lost, and how long the file system acknowledged nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Reliability;
use super::audit::{Loss, LostRecord};
use super::fault::CommandRun;
use super::writer::Ledger;
use crate::figure::{Better, Figure, HasFigures};
use crate::latency::{self, Latencies};
use crate::size::Size;
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub workers: u16,
    pub file_bytes: u64,
    pub record_bytes: u64,
    pub sync_every: u64,
    pub seconds: f64,
    pub acts: Vec<CommandRun>,
    /// MB/s that were acknowledged.
    pub rate: f64,
    pub each: Vec<f64>,
    /// Seconds in which nothing was acknowledged to any worker: the longest such time.
    pub standstill: Standstill,
    /// The same of each worker by itself.
    pub standstills: Vec<Standstill>,
    pub errors: u64,
    pub first_error: Option<String>,
    /// Records that were acknowledged and read back.
    pub checked: u64,
    pub found: Vec<LostRecord>,
    pub latencies: Latencies,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standstill {
    /// Seconds from the start.
    pub from: f64,
    pub to: f64,
}

impl Standstill {
    pub fn seconds(self) -> f64 {
        self.to - self.from
    }

    /// The longest time from the start to the end in which none of the moments lies.
    fn longest(moments: impl IntoIterator<Item = f64>, end: f64) -> Standstill {
        let mut moments: Vec<f64> = moments.into_iter().collect();
        moments.sort_by(f64::total_cmp);
        moments.push(end);
        let mut longest = Standstill { from: 0.0, to: 0.0 };
        let mut from = 0.0;
        for to in moments {
            let still = Standstill { from, to };
            if still.seconds() > longest.seconds() {
                longest = still;
            }
            from = to;
        }
        longest
    }
}

/// How many findings are printed; all are in the JSON.
const SHOWN: usize = 20;

impl Report {
    pub fn new(
        args: &Reliability,
        step: Option<Step>,
        acts: Vec<CommandRun>,
        ledgers: &[Ledger],
        found: Vec<LostRecord>,
    ) -> Report {
        let end = ledgers
            .iter()
            .map(|ledger| ledger.seconds)
            .fold(0.0, f64::max);
        let all = ledgers
            .iter()
            .flat_map(|ledger| ledger.moments.iter().copied());
        let of_one =
            |ledger: &Ledger| Standstill::longest(ledger.moments.iter().copied(), ledger.seconds);
        let kept = ledgers.iter().flat_map(|ledger| &ledger.kept);
        Report {
            workers: args.workers,
            file_bytes: args.size.0,
            record_bytes: args.record.0,
            sync_every: args.sync_every,
            seconds: args.seconds,
            acts,
            rate: step.as_ref().map_or(0.0, Step::rate),
            each: step.iter().flat_map(Step::rates).collect(),
            standstill: Standstill::longest(all, end),
            standstills: ledgers.iter().map(of_one).collect(),
            errors: ledgers.iter().map(|ledger| ledger.errors).sum(),
            first_error: ledgers.iter().find_map(|ledger| ledger.first_error.clone()),
            checked: kept.filter(|pass| **pass > 0).count() as u64,
            found,
            latencies: step.map_or_else(Latencies::default, |step| step.latencies),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "reliability";

    fn figures(&self) -> Vec<Figure> {
        let less = |name: &str, unit: &str, value: f64, each: Vec<f64>| Figure {
            better: Better::Less,
            ..Figure::rate(name, unit, value, each)
        };
        let stills = self
            .standstills
            .iter()
            .map(|still| still.seconds())
            .collect();
        vec![
            Figure::rate(
                "Acknowledged_write",
                "MB/s",
                self.rate,
                self.each.iter().copied(),
            ),
            less("Standstill", "s", self.standstill.seconds(), stills),
            less("Lost", "records", self.found.len() as f64, Vec::new()),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "{} workers for {} s, a file of {} each, records of {}, fsync after {}",
            self.workers,
            self.seconds,
            Size(self.file_bytes),
            Size(self.record_bytes),
            self.sync_every
        )?;
        for act in &self.acts {
            writeln!(
                f,
                "{:>8.2} s to {:.2} s  {}: {}",
                act.began, act.ended, act.what, act.command
            )?;
        }
        self.show_standstills(f)?;
        match &self.first_error {
            Some(error) => writeln!(
                f,
                "Calls that failed: {}, the first of them: {error}",
                self.errors
            )?,
            None => writeln!(f, "No call failed")?,
        }
        self.show_lost(f)?;
        latency::table(f, 12, [("Acknowledged", self.latencies)])
    }
}

impl Report {
    fn show_standstills(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "\nAcknowledged: {:.2} MB/s", self.rate)?;
        let all = self.standstill;
        writeln!(
            f,
            "Everything stood still for {:.2} s, from {:.2} s to {:.2} s",
            all.seconds(),
            all.from,
            all.to
        )?;
        let longest = self
            .standstills
            .iter()
            .max_by(|a, b| a.seconds().total_cmp(&b.seconds()));
        if let Some(one) = longest {
            writeln!(
                f,
                "The worker that waited longest: {:.2} s, from {:.2} s to {:.2} s",
                one.seconds(),
                one.from,
                one.to
            )?;
        }
        Ok(())
    }

    fn show_lost(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.found.len() {
            0 => writeln!(
                f,
                "Nothing is lost: all {} records that were acknowledged are there",
                self.checked
            )?,
            lost => writeln!(
                f,
                "LOST: {lost} of {} records that were acknowledged",
                self.checked
            )?,
        }
        for finding in self.found.iter().take(SHOWN) {
            writeln!(
                f,
                "  {}, offset {}: pass {} was acknowledged, there is {}",
                finding.file, finding.offset, finding.kept, finding.found
            )?;
        }
        if self.found.len() > SHOWN {
            writeln!(f, "  … and {} more", self.found.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Loss::Older(pass) => write!(f, "what pass {pass} wrote"),
            Loss::Zeros => f.write_str("as if never written"),
            Loss::Nothing => f.write_str("nothing: the file ends before"),
            Loss::Wrong => f.write_str("what nobody wrote there in this run"),
            Loss::Error(error) => write!(f, "no reading it: {error}"),
        }
    }
}

#[test]
fn the_longest_standstill_may_be_at_either_end() {
    let longest = |moments: &[f64]| {
        let still = Standstill::longest(moments.iter().copied(), 10.0);
        (still.from, still.to)
    };
    assert_eq!(longest(&[1.0, 2.0, 7.0, 9.0]), (2.0, 7.0));
    assert_eq!(longest(&[9.0, 6.0]), (0.0, 6.0));
    assert_eq!(longest(&[1.0, 4.0]), (4.0, 10.0));
    assert_eq!(longest(&[]), (0.0, 10.0));
}
