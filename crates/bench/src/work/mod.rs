//! The workloads. Each measures, compares and says what it should reach.

mod create;
mod many;
mod stream;
mod unpack;

use crate::place::Place;
use crate::report::Report;
use anyhow::Result;
use std::path::Path;

/// What every workload needs.
pub struct Bench<'a> {
    pub gupfs: &'a Path,
    pub nullfs: &'a Path,
    pub place: &'a Place,
    pub runs: usize,
    pub stream: u64,
    pub many: u64,
}

type Run = fn(&Bench, &mut Report) -> Result<()>;

pub const ALL: [(&str, Run); 4] = [
    ("stream", stream::run),
    ("create", create::run),
    ("unpack", unpack::run),
    ("many", many::run),
];
