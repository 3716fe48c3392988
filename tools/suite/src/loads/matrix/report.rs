//! A table for each test: file sizes down, record sizes across, as iozone's spreadsheets have them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Matrix;
use super::tests::Test;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::Size;
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub workers: u16,
    pub size_bytes: Vec<u64>,
    pub record_bytes: Vec<u64>,
    pub direct: bool,
    pub sync: bool,
    pub seed: u64,
    pub tests: Vec<TestResult>,
}

/// One test with one pair of sizes.
#[derive(Clone, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    pub size_bytes: u64,
    pub record_bytes: u64,
    pub rate: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl TestResult {
    pub fn new(test: Test, size: Size, record: Size, step: Step) -> TestResult {
        TestResult {
            name: test.name().into(),
            size_bytes: size.0,
            record_bytes: record.0,
            rate: step.rate(),
            step,
        }
    }

    fn title(&self) -> String {
        let (size, record) = (Size(self.size_bytes), Size(self.record_bytes));
        format!("{} {size}/{record}", self.name)
    }
}

impl Report {
    pub fn new(args: &Matrix) -> Report {
        Report {
            workers: args.workers,
            size_bytes: args.size.iter().map(|size| size.0).collect(),
            record_bytes: args.record.iter().map(|record| record.0).collect(),
            direct: args.direct,
            sync: args.sync,
            seed: args.seed,
            tests: Vec::new(),
        }
    }

    fn show_table(&self, name: &str, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "\n{name} (MB/s)\n    Size")?;
        for record in &self.record_bytes {
            write!(f, " {:>10}", Size(*record).to_string())?;
        }
        write!(f, "\n--------")?;
        for _ in &self.record_bytes {
            write!(f, " ----------")?;
        }
        writeln!(f)?;
        for size in &self.size_bytes {
            write!(f, "{:>8}", Size(*size).to_string())?;
            for record in &self.record_bytes {
                let key = (name, *size, *record);
                let mut tests = self.tests.iter();
                match tests.find(|test| (&*test.name, test.size_bytes, test.record_bytes) == key) {
                    Some(test) => write!(f, " {:>10.2}", test.rate)?,
                    None => write!(f, " {:>10}", "-")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "matrix";

    fn figures(&self) -> Vec<Figure> {
        let tests = self.tests.iter();
        tests
            .map(|test| {
                Figure::rate(&test.name, "MB/s", test.rate, test.step.rates())
                    .at("size", Size(test.size_bytes))
                    .at("record", Size(test.record_bytes))
            })
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} workers, a file each, seed {}",
            self.workers, self.seed
        )?;
        for (is, name) in [(self.direct, "O_DIRECT"), (self.sync, "fsync")] {
            if is {
                write!(f, ", {name}")?;
            }
        }
        writeln!(f)?;
        let mut shown = Vec::new();
        for test in &self.tests {
            if !shown.contains(&&test.name) {
                shown.push(&test.name);
                self.show_table(&test.name, f)?;
            }
        }
        let rows = self
            .tests
            .iter()
            .map(|test| (test.title(), test.step.latencies));
        latency::table(f, 24, rows)
    }
}
