//! Rates, and the average and largest latency of each test.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Tiotest;
use crate::amount::{MB, Size};
use crate::figure::{Better, Figure, Measured};
use crate::latency;
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
    pub tests: Vec<Tested>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Tested {
    pub name: String,
    pub rate: f64,
    /// Seconds of an operation.
    pub average_latency: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl Tested {
    pub fn new(name: &str, step: Step) -> Tested {
        let seconds: f64 = step.parts.iter().map(|part| part.seconds).sum();
        Tested {
            name: name.into(),
            rate: step.rate(),
            average_latency: seconds / step.operations() as f64,
            step,
        }
    }
}

impl Report {
    pub fn new(asked: &Tiotest) -> Report {
        Report {
            threads: asked.threads,
            file_bytes: asked.size.0,
            block_bytes: asked.block.0,
            random: asked.random,
            mmap: asked.mmap,
            direct: asked.direct,
            sync: asked.sync,
            seed: asked.seed,
            tests: Vec::new(),
        }
    }
}

impl Measured for Report {
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
