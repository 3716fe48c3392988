//! The report of metabench: batches of the test in which a directory grows, aggregate rates, each process, latencies.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::{Metabench, Participants};
use super::ops::Unpacked;
use crate::figure::{Figure, HasFigures};
use crate::latency::{self, Latencies};
use crate::size::MB;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub processes: usize,
    pub taking_part: usize,
    pub files: u64,
    pub files_each: u64,
    pub append_bytes: u64,
    pub tests: Vec<TestResult>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    /// Seconds from the barrier that let all go to the one that all reached.
    pub elapsed: f64,
    pub operations: u64,
    pub members: Vec<Member>,
    pub batches: Vec<Batch>,
    pub unpacked: Option<Unpacked>,
    pub latencies: Latencies,
}

/// A process that took part.
#[derive(Clone, Serialize, Deserialize)]
pub struct Member {
    pub rank: usize,
    pub operations: u64,
    pub seconds: f64,
}

/// Some of the files of the test in which one directory grows.
#[derive(Clone, Serialize, Deserialize)]
pub struct Batch {
    pub files: u64,
    pub seconds: f64,
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "metabench";

    fn figures(&self) -> Vec<Figure> {
        let rate = |test: &TestResult| {
            let members = test.members.iter();
            let each = members.map(|member| member.operations as f64 / member.seconds);
            Figure::rate(&test.name, "op/s", test.rate(), each)
        };
        self.tests.iter().map(rate).collect()
    }
}

impl TestResult {
    /// Operations a second of all processes, over the time until the last was ready.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed
    }
}

impl Report {
    pub(super) fn new(
        args: &Metabench,
        participants: Participants,
        processes: usize,
        each: u64,
    ) -> Report {
        Report {
            processes,
            taking_part: participants.size,
            files: args.files,
            files_each: each,
            append_bytes: args.bytes.0,
            tests: Vec::new(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "Num_proc Taking_part    Files Files/proc Append (B)")?;
        writeln!(f, "-------- ----------- -------- ---------- ----------")?;
        writeln!(
            f,
            "{:>8} {:>11} {:>8} {:>10} {:>10}",
            self.processes, self.taking_part, self.files, self.files_each, self.append_bytes
        )?;
        for test in self.tests.iter().filter(|test| !test.batches.is_empty()) {
            test.show_batches(f)?;
        }
        self.show_rates(f)?;
        self.show_processes(f)?;
        self.show_latencies(f)
    }
}

impl TestResult {
    fn show_batches(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "\n{} as the directory grows", self.name)?;
        writeln!(f, "   Files up to    Time (s)     Rate/s")?;
        let mut upto = 0;
        for batch in &self.batches {
            upto += batch.files;
            let rate = batch.files as f64 / batch.seconds;
            writeln!(f, "{upto:>14} {:>11.4} {rate:>10.0}", batch.seconds)?;
        }
        Ok(())
    }
}

impl Report {
    fn show_rates(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "\nTest Name  Procs Operations  E-Time (s)     Rate/s")?;
        writeln!(f, "---------- ----- ---------- ----------- ----------")?;
        for test in &self.tests {
            writeln!(
                f,
                "{:<10} {:>5} {:>10} {:>11.4} {:>10.0}",
                test.name,
                test.members.len(),
                test.operations,
                test.elapsed,
                test.rate()
            )?;
            if let Some(unpacked) = test.unpacked {
                writeln!(
                    f,
                    "           {} files and {} directories, {:.1} MB",
                    unpacked.files,
                    unpacked.directories,
                    unpacked.bytes as f64 / MB
                )?;
            }
        }
        Ok(())
    }

    fn show_processes(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "\nPROCESS DETAILS   Proc Operations    Time (s)     Rate/s"
        )?;
        for test in &self.tests {
            for member in &test.members {
                writeln!(
                    f,
                    "{:<17} {:>4} {:>10} {:>11.4} {:>10.0}",
                    test.name,
                    member.rank,
                    member.operations,
                    member.seconds,
                    member.operations as f64 / member.seconds
                )?;
            }
        }
        Ok(())
    }

    fn show_latencies(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let rows = self.tests.iter().map(|test| (&test.name, test.latencies));
        latency::table(f, 12, rows)
    }
}
