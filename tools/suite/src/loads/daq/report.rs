//! Influx and outflux, whether they balance, and which side waited.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Daq;
use crate::figure::{Figure, HasFigures};
use crate::latency::{self, Latencies};
use crate::size::{MB, Size};
use crate::step::{Step, WorkerResult};

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub file_bytes: u64,
    pub record_bytes: u64,
    pub ahead: u16,
    /// The influx that the flags ask for: MB/s.
    pub moderated_to: Option<f64>,
    /// Seconds that were counted.
    pub counted: f64,
    pub writers: Vec<WorkerResult>,
    pub readers: Vec<WorkerResult>,
    pub influx: f64,
    pub outflux: f64,
    pub balanced: bool,
    pub latencies: Latencies,
}

/// Influx and outflux are in balance if they differ by no more than this share of the larger.
const BALANCE: f64 = 0.05;

impl Report {
    pub fn new(args: &Daq, step: Option<Step>) -> Report {
        let (mut parts, latencies) =
            step.map_or_else(Default::default, |step| (step.parts, step.latencies));
        let readers = parts.split_off(parts.len().min(usize::from(args.writers)));
        let counted = args.seconds - args.warm_up();
        let (influx, outflux) = (rate(&parts, counted), rate(&readers, counted));
        Report {
            file_bytes: args.size.0,
            record_bytes: args.record.0,
            ahead: args.ahead,
            moderated_to: args.influx,
            counted,
            writers: parts,
            readers,
            influx,
            outflux,
            balanced: (influx - outflux).abs() <= BALANCE * influx.max(outflux),
            latencies,
        }
    }

    /// The share of the time counted in which the workers had to wait for the others.
    fn waited_percent(&self, parts: &[WorkerResult]) -> f64 {
        let waited: f64 = parts.iter().map(|part| part.waited).sum();
        100.0 * waited / (self.counted * parts.len() as f64)
    }
}

fn rate(parts: &[WorkerResult], seconds: f64) -> f64 {
    parts.iter().map(|part| part.bytes).sum::<u64>() as f64 / MB / seconds
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "daq";

    fn figures(&self) -> Vec<Figure> {
        let each = |parts: &[WorkerResult]| -> Vec<f64> {
            let bytes = parts.iter().map(|part| part.bytes as f64 / MB);
            bytes.map(|bytes| bytes / self.counted).collect()
        };
        vec![
            Figure::rate("Influx", "MB/s", self.influx, each(&self.writers)),
            Figure::rate("Outflux", "MB/s", self.outflux, each(&self.readers)),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "Files of {}, records of {}, at most {} waiting of each writer, ",
            Size(self.file_bytes),
            Size(self.record_bytes),
            self.ahead
        )?;
        match self.moderated_to {
            Some(rate) => writeln!(f, "writers moderated to {rate} MB/s together")?,
            None => writeln!(f, "writers not moderated but by what waits")?,
        }
        writeln!(f, "\n         Procs   Rate MB/s  slowest  fastest waited %")?;
        writeln!(f, "-------- ----- ----------- -------- -------- --------")?;
        for (name, parts, all) in [
            ("Influx", &self.writers, self.influx),
            ("Outflux", &self.readers, self.outflux),
        ] {
            let rates = parts
                .iter()
                .map(|part| rate(std::slice::from_ref(part), self.counted));
            let slowest = rates.clone().fold(f64::INFINITY, f64::min);
            let fastest = rates.fold(0.0, f64::max);
            let waited = self.waited_percent(parts);
            let procs = parts.len();
            writeln!(
                f,
                "{name:<8} {procs:>5} {all:>11.2} {slowest:>8.2} {fastest:>8.2} {waited:>8.1}"
            )?;
        }
        let verdict = if self.balanced {
            "in balance"
        } else {
            "not in balance: run longer, or moderate the writers"
        };
        writeln!(
            f,
            "\nInflux and outflux over {:.1} s are {verdict}.",
            self.counted
        )?;
        latency::table(f, 12, [("Records", self.latencies)])
    }
}
