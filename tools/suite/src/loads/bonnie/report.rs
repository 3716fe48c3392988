//! "The elapsed time per operation as well as the CPU overhead."

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Bonnie;
use super::tests::Test;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::Size;
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub file_bytes: u64,
    pub chunk_bytes: u64,
    pub seekers: u16,
    pub seeks_each: u64,
    pub sync: bool,
    pub seed: u64,
    pub tests: Vec<TestResult>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    /// MB/s, or seeks a second.
    pub rate: f64,
    pub unit: String,
    /// Of one processor, of all processes together.
    pub cpu_percent: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl TestResult {
    pub fn new(test: Test, cpu_seconds: f64, step: Step) -> TestResult {
        let (rate, unit) = match test {
            Test::Seeks => (step.operations_rate(), "op/s"),
            _ => (step.rate(), "MB/s"),
        };
        TestResult {
            name: test.name().into(),
            rate,
            unit: unit.into(),
            cpu_percent: 100.0 * cpu_seconds / step.elapsed,
            step,
        }
    }
}

impl Report {
    pub fn new(args: &Bonnie) -> Report {
        Report {
            file_bytes: args.size.0,
            chunk_bytes: args.chunk.0,
            seekers: args.seekers,
            seeks_each: args.seeks,
            sync: args.sync,
            seed: args.seed,
            tests: Vec::new(),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "bonnie";

    fn figures(&self) -> Vec<Figure> {
        let rate = |test: &TestResult| {
            let parts = test.step.parts.iter();
            let each = parts.map(|part| match &*test.unit {
                "op/s" => part.operations_rate(),
                _ => part.rate(),
            });
            Figure::rate(&test.name, &test.unit, test.rate, each)
        };
        self.tests.iter().map(rate).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "A file of {}, chunks of {}, {} seekers, {} seeks each, seed {}{}",
            Size(self.file_bytes),
            Size(self.chunk_bytes),
            self.seekers,
            self.seeks_each,
            self.seed,
            if self.sync { ", fsync" } else { "" }
        )?;
        writeln!(f, "\nTest Name    Procs   Time (s)        Rate        %CPU")?;
        writeln!(f, "------------ ----- ---------- ----------- ---- ------")?;
        for test in &self.tests {
            writeln!(
                f,
                "{:<12} {:>5} {:>10.4} {:>11.2} {} {:>6.1}",
                test.name,
                test.step.parts.len(),
                test.step.seconds(),
                test.rate,
                test.unit,
                test.cpu_percent
            )?;
        }
        let rows = self
            .tests
            .iter()
            .map(|test| (&test.name, test.step.latencies));
        latency::table(f, 12, rows)
    }
}
