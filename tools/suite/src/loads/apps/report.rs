//! The rate of each phase of each pattern.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Apps;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::MB;
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub workers: u16,
    pub bytes_each: u64,
    pub sync: bool,
    pub seed: u64,
    pub tests: Vec<TestResult>,
}

/// One phase.
#[derive(Clone, Serialize, Deserialize)]
pub struct TestResult {
    pub pattern: String,
    pub phase: String,
    pub round: usize,
    pub rate: f64,
    pub operations_rate: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl TestResult {
    pub fn new(pattern: &str, phase: &str, round: usize, step: Step) -> TestResult {
        TestResult {
            pattern: pattern.into(),
            phase: phase.into(),
            round,
            rate: step.rate(),
            operations_rate: step.operations_rate(),
            step,
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.phase, self.round)
    }
}

impl Report {
    pub fn new(args: &Apps) -> Report {
        Report {
            workers: args.workers,
            bytes_each: args.each.0,
            sync: args.sync,
            seed: args.seed,
            tests: Vec::new(),
        }
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "apps";

    fn figures(&self) -> Vec<Figure> {
        let tests = self.tests.iter();
        tests
            .map(|test| Figure::rate(&test.name(), "MB/s", test.rate, test.step.rates()))
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "{} workers, about {:.1} MB each, seed {}{}",
            self.workers,
            self.bytes_each as f64 / MB,
            self.seed,
            if self.sync { ", fsync" } else { "" }
        )?;
        writeln!(
            f,
            "\nPattern     Phase               Size (MB)   Time (s)   Rate MB/s       Op/s  slowest  fastest"
        )?;
        writeln!(
            f,
            "----------- ------------------ ---------- ---------- ----------- ---------- -------- --------"
        )?;
        for test in &self.tests {
            let step = &test.step;
            let slowest = step.rates().fold(f64::INFINITY, f64::min);
            let fastest = step.rates().fold(0.0, f64::max);
            writeln!(
                f,
                "{:<11} {:<18} {:>10.1} {:>10.4} {:>11.2} {:>10.0} {slowest:>8.2} {fastest:>8.2}",
                test.pattern,
                test.name(),
                step.bytes() as f64 / MB,
                step.seconds(),
                test.rate,
                test.operations_rate,
            )?;
        }
        let rows = self
            .tests
            .iter()
            .map(|test| (test.name(), test.step.latencies));
        latency::table(f, 18, rows)
    }
}
