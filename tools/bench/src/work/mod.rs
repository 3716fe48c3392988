//! The workloads. Each measures, compares with another file system, and states the figure that gupfs should reach.

mod create;
mod many;
mod random;
mod stream;
mod unpack;

use crate::report::Report;
use crate::serve::Serving;
use crate::transport::Transport;
use crate::work_directory::WorkDirectory;
use anyhow::Result;
use std::path::Path;

/// The arguments of every workload.
pub struct Bench<'a> {
    pub gupfs: &'a Path,
    pub nullfs: &'a Path,
    pub place: &'a WorkDirectory,
    pub runs: usize,
    pub stream: u64,
    pub many: u64,
    /// Served by daemons over TCP instead of one process.
    pub cluster: bool,
    pub transports: Vec<Transport>,
}

impl Bench<'_> {
    /// A new store, mounted.
    pub fn serve(&self, name: &str, transport: Transport) -> Result<Serving> {
        let fresh = |what| {
            self.place
                .fresh(&format!("{name}-{what}-{}", transport.flag()))
        };
        let start = match self.cluster {
            true => Serving::cluster,
            false => Serving::gupfs,
        };
        start(self.gupfs, &fresh("store")?, &fresh("mount")?, transport)
    }

    /// The way that a workload is measured on that is not about ways.
    pub fn usual(&self) -> Transport {
        *self.transports.last().unwrap_or(&Transport::Device)
    }
}

type Run = fn(&Bench, &mut Report) -> Result<()>;

pub const ALL: [(&str, Run); 5] = [
    ("stream", stream::run),
    ("random", random::run),
    ("create", create::run),
    ("unpack", unpack::run),
    ("many", many::run),
];
