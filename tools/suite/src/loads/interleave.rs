//! interleave: "processes read/write to non-overlapping sections of a single shared file" (003).

use std::fmt;

use clap::Args;
use serde::Serialize;

use super::streams::{Report, Row, Shape, Sweep, work};
use crate::error::SuiteResult;
use crate::figure::{Figure, HasFigures};
use crate::output::Destination;
use crate::procs::Procs;
use crate::workload::Workload;

/// Streams that write and read every Nth record of one file, for a range of record sizes and numbers of streams
#[derive(Args, Clone, Debug)]
pub struct Interleave {
    #[command(flatten)]
    pub sweep: Sweep,
}

/// The report of streams under this program's name.
#[derive(Serialize)]
pub struct Interleaved(Report);

impl HasFigures for Interleaved {
    const PROGRAM: &'static str = "interleave";

    fn figures(&self) -> Vec<Figure> {
        let rows = self.0.rows.iter();
        let name = |row: &Row| format!("Interleaved_{}", row.name().to_lowercase());
        rows.map(|row| row.figure(&name(row))).collect()
    }
}

impl fmt::Display for Interleaved {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Workload for Interleave {
    type Report = Interleaved;

    fn np(&self) -> Option<usize> {
        self.sweep.common.np
    }

    fn default_np(&self) -> usize {
        self.sweep.default_np()
    }

    fn check(&self) -> SuiteResult<()> {
        self.sweep.check()
    }

    fn destination(&self) -> Destination<'_> {
        self.sweep.common.destination()
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Interleaved>> {
        let report = work(&self.sweep, Shape::Interleaved, procs)?;
        Ok(Some(Interleaved(report)))
    }
}
