//! The curve: the rate of each number of readers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Pileup;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::{MB, Size};
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub files: u16,
    pub file_bytes: u64,
    pub least_bytes: u64,
    pub most_bytes: u64,
    pub stay: Option<u64>,
    pub cold: bool,
    pub seed: u64,
    pub seconds: f64,
    pub rungs: Vec<RampStep>,
}

/// One number of readers.
#[derive(Clone, Serialize, Deserialize)]
pub struct RampStep {
    pub readers: usize,
    pub rate: f64,
    pub operations_rate: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl RampStep {
    pub fn new(readers: usize, step: Step) -> RampStep {
        RampStep {
            readers,
            rate: step.rate(),
            operations_rate: step.operations_rate(),
            step,
        }
    }
}

impl Report {
    pub fn new(args: &Pileup) -> Report {
        Report {
            files: args.files,
            file_bytes: args.size.0,
            least_bytes: args.least.0,
            most_bytes: args.most.0,
            stay: args.stay,
            cold: args.cold,
            seed: args.seed,
            seconds: args.seconds,
            rungs: Vec::new(),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "pileup";

    fn figures(&self) -> Vec<Figure> {
        let rungs = self.rungs.iter();
        rungs
            .map(|rung| {
                Figure::rate("Pileup", "MB/s", rung.rate, rung.step.rates())
                    .at("readers", rung.readers)
            })
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "{} files of {}, reads of {} to {}, {} s for each number of readers, seed {}{}",
            self.files,
            Size(self.file_bytes),
            Size(self.least_bytes),
            Size(self.most_bytes),
            self.seconds,
            self.seed,
            if self.cold { ", cold" } else { "" }
        )?;
        writeln!(
            f,
            "\nReaders  Read (MB)   Time (s)   Rate MB/s    Reads/s  slowest  fastest"
        )?;
        writeln!(
            f,
            "------- ---------- ---------- ----------- ---------- -------- --------"
        )?;
        for rung in &self.rungs {
            let step = &rung.step;
            let slowest = step.rates().fold(f64::INFINITY, f64::min);
            let fastest = step.rates().fold(0.0, f64::max);
            writeln!(
                f,
                "{:>7} {:>10.1} {:>10.2} {:>11.2} {:>10.1} {slowest:>8.2} {fastest:>8.2}",
                rung.readers,
                step.bytes() as f64 / MB,
                step.seconds(),
                rung.rate,
                rung.operations_rate,
            )?;
        }
        let rows = self
            .rungs
            .iter()
            .map(|rung| (format!("x{}", rung.readers), rung.step.latencies));
        latency::table(f, 12, rows)
    }
}
