//! "Aggregate I/O volume and aggregate bandwidth" for each block size.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Pioraw;
use crate::figure::{Figure, HasFigures};
use crate::latency;
use crate::size::{MB, Size};
use crate::step::Step;

#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub processes: usize,
    pub file_bytes: u64,
    pub seconds: f64,
    pub direct: bool,
    pub turns: Vec<BlockSizeResult>,
}

/// One block size.
#[derive(Clone, Serialize, Deserialize)]
pub struct BlockSizeResult {
    pub block_bytes: u64,
    pub write: Step,
    pub read: Step,
}

impl BlockSizeResult {
    pub fn new(block: Size, write: Step, read: Step) -> BlockSizeResult {
        BlockSizeResult {
            block_bytes: block.0,
            write,
            read,
        }
    }

    fn steps(&self) -> [(&'static str, &Step); 2] {
        [("Write", &self.write), ("Read", &self.read)]
    }
}

impl Report {
    pub fn new(args: &Pioraw, processes: usize) -> Report {
        Report {
            processes,
            file_bytes: args.size.0,
            seconds: args.seconds,
            direct: args.direct,
            turns: Vec::new(),
        }
    }

    /// Each step with its name.
    fn steps(&self) -> impl Iterator<Item = (String, &Step)> {
        self.turns.iter().flat_map(|turn| {
            let block = Size(turn.block_bytes);
            let named = move |(name, step)| (format!("{name} {block}"), step);
            turn.steps().map(named)
        })
    }
}

impl HasFigures for Report {
    const PROGRAM: &'static str = "pioraw";

    fn figures(&self) -> Vec<Figure> {
        let steps = self.turns.iter().flat_map(|turn| {
            let named = turn.steps();
            named.map(|(name, step)| (turn.block_bytes, name, step))
        });
        let figure = |(block, name, step): (u64, &str, &Step)| {
            Figure::rate(name, "MB/s", step.rate(), step.rates()).at("block", Size(block))
        };
        steps.map(figure).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "{} processes, a file of {} each, {} s for each test{}",
            self.processes,
            Size(self.file_bytes),
            self.seconds,
            if self.direct { ", O_DIRECT" } else { "" }
        )?;
        writeln!(
            f,
            "\nBlock      Written (MB)  Write MB/s    Read (MB)   Read MB/s"
        )?;
        writeln!(
            f,
            "---------- ------------ ----------- ------------ -----------"
        )?;
        for turn in &self.turns {
            write!(f, "{:<10}", Size(turn.block_bytes).to_string())?;
            for (_, step) in turn.steps() {
                write!(
                    f,
                    " {:>12.1} {:>11.2}",
                    step.bytes() as f64 / MB,
                    step.rate()
                )?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nPROCESS DETAILS    slowest     fastest (MB/s)")?;
        for (name, step) in self.steps() {
            let slowest = step.rates().fold(f64::INFINITY, f64::min);
            let fastest = step.rates().fold(0.0, f64::max);
            writeln!(f, "{name:<14} {slowest:>11.2} {fastest:>11.2}")?;
        }
        let rows = self.steps().map(|(name, step)| (name, step.latencies));
        latency::table(f, 14, rows)
    }
}
