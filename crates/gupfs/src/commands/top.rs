//! `gupfs top`: what the servers do, and for whom.

mod screen;
mod source;
mod table;
mod users;

use super::server_address::server_address;
use crate::cluster::{TlsFlags, identity, read_key};
use crate::control::ControlTarget;
use crate::exit::{CliResult, Exit};
use clap::{Args, ValueEnum};
use gupfs_platform::Platform;
use source::Source;
use std::io::IsTerminal;
use std::path::PathBuf;
use table::LoadTable;
use users::UserNames;

/// Show what the servers do, and for which jobs, users and hosts
///
/// A job is what the scheduler calls one (Slurm, PBS), a service or container, or else a program of a user. Servers count calls, bytes and
/// time of each; calls that a mount answers from its memory are not among them. Without --once: on a terminal, every second; keys: j u h t c
/// (jobs, users, hosts, targets, calls), q.
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs top
  gupfs top /mnt/gupfs --by user
  gupfs top node1:7700 --key /etc/gupfs/cluster.key --once --json

Exit codes: 0 shown · 1 a server did not answer · 2 not a gupfs store or mount · 3 no process serves it")]
pub struct Top {
    /// The store's directory, its mount point, or the metadata server's HOST:PORT [default: the only gupfs mount of this machine]
    #[arg(value_name = "PATH|HOST:PORT")]
    path: Option<PathBuf>,
    /// What a line is
    #[arg(long, value_enum, default_value_t = GroupBy::Job)]
    by: GroupBy,
    /// Show the last three to six seconds once; without a terminal this is the default
    #[arg(long)]
    once: bool,
    /// As one JSON object, with --once
    #[arg(long)]
    json: bool,
    /// The key of this host or the cluster's, for a server's address [default: client.key or cluster.key in /etc/gupfs]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsFlags,
}

/// What a line of `gupfs top` is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum GroupBy {
    Job,
    User,
    Host,
    Ost,
    /// The kind of calls.
    Op,
}

impl GroupBy {
    fn name(self) -> &'static str {
        match self {
            GroupBy::Job => "job",
            GroupBy::User => "user",
            GroupBy::Host => "host",
            GroupBy::Ost => "ost",
            GroupBy::Op => "op",
        }
    }
}

impl Top {
    pub fn run(self) -> CliResult<Exit> {
        let source = match server_address(self.path.as_deref()) {
            Some(address) => {
                crate::logging::start_quiet();
                let (key, tls) = (read_key(self.key.as_deref())?, self.tls.read()?);
                Source::Server {
                    identity: Box::new(identity(&Platform::real(), key, tls)),
                    address,
                }
            }
            None => Source::Process(ControlTarget::find(self.path.as_deref())?),
        };
        if self.once || self.json || !std::io::stdout().is_terminal() {
            let table = LoadTable::new(&source.read()?, None, self.by, &mut UserNames::default());
            match self.json {
                true => println!("{}", table.json()),
                false => print!("{}", table.text()),
            }
            return Ok(Exit::Fine);
        }
        screen::run(&source, self.by)?;
        Ok(Exit::Fine)
    }
}
