//! Tables as in B-5: a line for each number of streams, a column for each record size and run.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Sweep;
use super::layout::Shape;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::{MB, Size};
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub layout: String,
    pub streams: Vec<usize>,
    pub record_bytes: Vec<u64>,
    pub runs: u8,
    pub direct: bool,
    pub sync: bool,
    pub cold: bool,
    pub rows: Vec<Row>,
}

/// One step.
#[derive(Clone, Serialize, Deserialize)]
pub struct Row {
    pub test: String,
    pub run: u8,
    pub streams: usize,
    pub record_bytes: u64,
    pub rate: f64,
    #[serde(flatten)]
    pub step: Step,
}

impl Row {
    pub fn new(test: &str, run: u8, streams: usize, record: Size, step: Step) -> Row {
        Row {
            test: test.into(),
            run,
            streams,
            record_bytes: record.0,
            rate: step.rate(),
            step,
        }
    }

    /// The test, and which time.
    pub fn name(&self) -> String {
        format!("{}_{}", self.test, ordinal(self.run))
    }

    fn title(&self) -> String {
        let record = Size(self.record_bytes);
        format!("{} {record} x{}", self.name(), self.streams)
    }

    /// With a name that says what a layout makes of a test.
    pub fn figure(&self, name: &str) -> Figure {
        Figure::rate(name, "MB/s", self.rate, self.step.rates())
            .at("np", self.streams)
            .at("record", Size(self.record_bytes))
    }
}

fn ordinal(run: u8) -> String {
    let ending = ["st", "nd", "rd"]
        .get(usize::from(run) - 1)
        .unwrap_or(&"th");
    format!("{run}{ending}")
}

impl Report {
    pub fn new(args: &Sweep, shape: Shape) -> Report {
        Report {
            layout: format!("{shape:?}").to_lowercase(),
            streams: args.streams.iter().map(|n| usize::from(*n)).collect(),
            record_bytes: args.record.iter().map(|record| record.0).collect(),
            runs: args.runs,
            direct: args.direct,
            sync: args.sync,
            cold: args.cold,
            rows: Vec::new(),
        }
    }

    fn row(&self, test: &str, streams: usize, record: u64, run: u8) -> Option<&Row> {
        let key = (test, streams, record, run);
        let mut rows = self.rows.iter();
        rows.find(|row| (&*row.test, row.streams, row.record_bytes, row.run) == key)
    }

    fn columns(&self) -> impl Iterator<Item = (u64, u8)> {
        let records = self.record_bytes.iter();
        records.flat_map(|record| (1..=self.runs).map(|run| (*record, run)))
    }

    fn show_table(&self, test: &str, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "\n{test} (MB/s)\nStreams")?;
        for (record, run) in self.columns() {
            write!(f, " {:>12}", format!("{} {}", Size(record), ordinal(run)))?;
        }
        write!(f, "\n-------")?;
        for _ in self.columns() {
            write!(f, " ------------")?;
        }
        writeln!(f)?;
        for streams in &self.streams {
            write!(f, "{streams:>7}")?;
            for (record, run) in self.columns() {
                match self.row(test, *streams, record, run) {
                    Some(row) => write!(f, " {:>12.2}", row.rate)?,
                    None => write!(f, " {:>12}", "-")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Report {
    fn show_steps(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "\nStep                      Size (MB)   Time (s)   E-Rate  slowest  fastest"
        )?;
        writeln!(
            f,
            "------------------------ ---------- ---------- -------- -------- --------"
        )?;
        for row in &self.rows {
            let step = &row.step;
            let slowest = step.rates().fold(f64::INFINITY, f64::min);
            let fastest = step.rates().fold(0.0, f64::max);
            writeln!(
                f,
                "{:<24} {:>10.1} {:>10.4} {:>8.2} {slowest:>8.2} {fastest:>8.2}",
                row.title(),
                step.bytes() as f64 / MB,
                step.seconds(),
                step.elapsed_rate(),
            )?;
        }
        Ok(())
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "streams";

    fn figures(&self) -> Vec<Figure> {
        let rows = self.rows.iter();
        rows.map(|row| row.figure(&row.name())).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Layout {}", self.layout)?;
        for (is, name) in [
            (self.direct, "O_DIRECT"),
            (self.sync, "fsync"),
            (self.cold, "cold"),
        ] {
            if is {
                write!(f, ", {name}")?;
            }
        }
        writeln!(f)?;
        for test in ["Write", "Read"] {
            if self.rows.iter().any(|row| row.test == test) {
                self.show_table(test, f)?;
            }
        }
        self.show_steps(f)?;
        let rows = self
            .rows
            .iter()
            .map(|row| (row.title(), row.step.latencies));
        latency::table(f, 24, rows)
    }
}
