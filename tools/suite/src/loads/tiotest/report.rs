//! Rates, and the average and largest latency of each test.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Tiotest;
use crate::figure::{Better, Figure, HasFigures};
use crate::latency;
use crate::size::{MB, Size};
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub threads: u16,
    pub file_bytes: u64,
    pub block_bytes: u64,
    pub random: u64,
    pub mmap: bool,
    pub direct: bool,
    pub sync: bool,
    pub seed: u64,
    pub tests: Vec<TestResult>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    pub rate: f64,
    /// Seconds of an operation.
    pub average_latency: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl TestResult {
    pub fn new(name: &str, step: Step) -> TestResult {
        let seconds: f64 = step.parts.iter().map(|part| part.seconds).sum();
        TestResult {
            name: name.into(),
            rate: step.rate(),
            average_latency: seconds / step.operations() as f64,
            step,
        }
    }
}

impl Report {
    pub fn new(args: &Tiotest) -> Report {
        Report {
            threads: args.threads,
            file_bytes: args.size.0,
            block_bytes: args.block.0,
            random: args.random,
            mmap: args.mmap,
            direct: args.direct,
            sync: args.sync,
            seed: args.seed,
            tests: Vec::new(),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "tiotest";

    fn figures(&self) -> Vec<Figure> {
        let rates = self
            .tests
            .iter()
            .map(|test| Figure::rate(&test.name, "MB/s", test.rate, test.step.rates()));
        let longest = self.tests.iter().map(|test| {
            let name = format!("{}_longest", test.name);
            Figure {
                better: Better::Less,
                ..Figure::rate(&name, "ms", 1e3 * test.step.latencies.max, [])
            }
        });
        rates.chain(longest).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} threads, a file of {} each, blocks of {}, seed {}",
            self.threads,
            Size(self.file_bytes),
            Size(self.block_bytes),
            self.seed
        )?;
        for (is, name) in [
            (self.mmap, "mmap"),
            (self.direct, "O_DIRECT"),
            (self.sync, "fsync"),
        ] {
            if is {
                write!(f, ", {name}")?;
            }
        }
        writeln!(
            f,
            "\n\nTest Name     Size (MB)   Time (s)   Rate MB/s   avg (us)   max (us)"
        )?;
        writeln!(
            f,
            "------------ ---------- ---------- ----------- ---------- ----------"
        )?;
        for test in &self.tests {
            writeln!(
                f,
                "{:<12} {:>10.1} {:>10.4} {:>11.2} {:>10.1} {:>10.1}",
                test.name,
                test.step.bytes() as f64 / MB,
                test.step.seconds(),
                test.rate,
                test.average_latency * 1e6,
                test.step.latencies.max * 1e6,
            )?;
        }
        let rows = self
            .tests
            .iter()
            .map(|test| (&test.name, test.step.latencies));
        latency::table(f, 12, rows)
    }
}
