//! The flags of baseline.

use std::path::PathBuf;

use clap::Args;
use gupfs_kit::agent::TokenFile;

use super::site::{Access, Host, HostPath};
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::usage_error;

/// What disks, networks and a file system above them do, layer by layer, and what share of the hardware arrives
#[derive(Args, Clone, Debug)]
pub struct Baseline {
    /// A disk: a device (what is on it is destroyed) or a directory, [HOST:]PATH or tcp://HOST:PORT/PATH; several times
    #[arg(long, value_name = "PLACE")]
    pub disk: Vec<HostPath>,
    /// The same disks through a volume manager: compared with --disk; several times
    #[arg(long, value_name = "PLACE", requires = "disk")]
    pub managed: Vec<HostPath>,
    /// Devices are read and not written: what is on them stays, and there is no figure for writing
    #[arg(long)]
    pub read_only: bool,
    /// Also write to devices that are mounted or held, which destroys what is on them
    #[arg(long)]
    pub i_know: bool,
    /// Bytes of each disk that are worked on
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_positive)]
    pub disk_size: Size,
    /// Bytes of each read or write of a disk
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_positive)]
    pub disk_record: Size,
    /// Streams at once on each disk
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub disk_streams: Vec<u16>,
    /// Seconds of each measurement of disks
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub disk_seconds: f64,
    /// A host from which clients will work: here, NAME or tcp://HOST:PORT (an agent), with =ADDRESS in the storage network; several times
    #[arg(long, value_name = "HOST")]
    pub client: Vec<Host>,
    /// A host that will serve; streams flow between every client and every server; several times
    #[arg(long, value_name = "HOST")]
    pub server: Vec<Host>,
    /// A host that is both; several times
    #[arg(long, value_name = "HOST")]
    pub host: Vec<Host>,
    /// Bytes of each message
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', default_value = "2K,4K,9000,16K,32K,1M", value_parser = parse_positive)]
    pub message: Vec<Size>,
    /// TCP streams at once between two hosts
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: Vec<u16>,
    /// Seconds of each measurement of the network
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub seconds: f64,
    /// The file system: its directory on each host from which it shall be used, a PLACE; several times
    #[arg(long, value_name = "PLACE")]
    pub fs: Vec<HostPath>,
    /// Processes on each of these hosts
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// Bytes of each process
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "32M", value_parser = parse_positive)]
    pub size: Size,
    /// Bytes of each read or write in files
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "512K", value_parser = parse_positive)]
    pub record: Size,
    /// Times that each rate is measured, in turns; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Judge what this result file of `bench run` has in MB/s, too
    #[arg(long, value_name = "FILE")]
    pub judge: Option<PathBuf>,
    /// The target's name, as plans and reports call the file system
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Add what disks and network can do to this result file, for the target
    #[arg(long, value_name = "FILE", requires = "target")]
    pub out: Option<PathBuf>,
    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How a worker on a host NAME is started
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh {host} gupfs bench baseline --worker"
    )]
    pub through: String,
    /// Start workers for whoever connects to this address and knows the token
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    pub serve: Option<String>,
    #[command(flatten)]
    pub token: TokenFile,
    /// Take orders from standard input
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// Each stream of a network has memory of this size on either side.
const MESSAGE_MAX: u64 = 64 << 20;

impl Baseline {
    pub fn clients(&self) -> Vec<&Host> {
        self.client.iter().chain(&self.host).collect()
    }

    pub fn servers(&self) -> Vec<&Host> {
        self.server.iter().chain(&self.host).collect()
    }

    /// Pairs of a client and a server, as numbers of both lists; nobody is paired with itself.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let (clients, servers) = (self.clients(), self.servers());
        let pair = |client: usize| {
            let differ = |server: &usize| clients[client].access != servers[*server].access;
            let servers: Vec<_> = (0..servers.len()).filter(differ).collect();
            servers.into_iter().map(move |server| (client, server))
        };
        (0..clients.len()).flat_map(pair).collect()
    }

    /// Everyone who needs a worker: once, but for hosts that use the file system in several directories.
    pub fn accesses(&self) -> Vec<Access> {
        let places = self.disk.iter().chain(&self.managed);
        let hosts = self.clients().into_iter().chain(self.servers());
        let mut all: Vec<Access> = Vec::new();
        for access in places.map(|p| &p.access).chain(hosts.map(|h| &h.access)) {
            if !all.contains(access) {
                all.push(access.clone());
            }
        }
        for place in &self.fs {
            let wanted = self.fs.iter().filter(|other| other.access == place.access);
            let there = all.iter().filter(|other| **other == place.access);
            if there.count() < wanted.count() {
                all.push(place.access.clone());
            }
        }
        all
    }

    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if self.accesses().is_empty() {
            return usage_error(
                "give what shall be measured: --disk, --client and --server (or --host), --fs",
            );
        }
        let agents = |access: &Access| matches!(access, Access::Agent(_));
        if self.token.token_file.is_none() && self.accesses().iter().any(agents) {
            return usage_error("agents ask for a token: give --token-file");
        }
        let hosts = self.clients().len() + self.servers().len();
        if hosts > 0 && self.pairs().is_empty() {
            return usage_error(
                "the network needs a --client and a --server, or two of --host, that are not the same",
            );
        }
        for (_, server) in self.pairs() {
            if self.servers()[server].address().is_none() {
                return usage_error(
                    "nobody can connect to a server named 'here': say here=ADDRESS",
                );
            }
        }
        for seconds in [self.seconds, self.disk_seconds] {
            if !(seconds > 0.0 && seconds <= 1e5) {
                return usage_error(
                    "--seconds and --disk-seconds take a number of seconds above 0",
                );
            }
        }
        if let Some(message) = self.message.iter().find(|size| size.0 > MESSAGE_MAX) {
            return usage_error(format!("--message {message} is more than 64M"));
        }
        for (flag, record, size) in [
            ("--disk-record", self.disk_record, self.disk_size),
            ("-b", self.record, self.size),
        ] {
            if record.0 > CALL_MAX.min(size.0) {
                return usage_error(format!(
                    "{flag} {record} is more than there is to move ({size}), or than one call moves (1G)"
                ));
            }
        }
        if !self.disk_record.0.is_multiple_of(512) {
            return usage_error(format!(
                "disks move whole sectors: --disk-record {} must be a multiple of 512",
                self.disk_record
            ));
        }
        let most = self.disk_streams.iter().max().copied().unwrap_or(1);
        if self.disk_size.0 / self.disk_record.0 < u64::from(most) {
            return usage_error(format!(
                "--disk-size {} has not a record for each of {most} streams",
                self.disk_size
            ));
        }
        if self.judge.is_some() && self.disk.is_empty() && hosts == 0 {
            return usage_error(
                "--judge needs something to judge by: --disk, --client and --server",
            );
        }
        Ok(())
    }
}
