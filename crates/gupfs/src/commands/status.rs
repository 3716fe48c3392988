//! `gupfs status`: shows the servers and mounts of a process, their work, and what they wait for.

use super::server_address::server_address;
use crate::cluster::{TlsFlags, identity, read_key, send_request};
use crate::control::{ControlRequest, ControlTarget};
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use crate::node::{Offline, StatusReply};
use clap::Args;
use gupfs_platform::Platform;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_rpc::Role;
use std::path::PathBuf;
use std::time::Duration;

/// Terminal control: cursor home, clear the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Show the state of servers and mounts: operations, waiting calls, damage
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs status
  gupfs status /srv/gupfs --json
  gupfs status /mnt/gupfs --watch
  gupfs status node1:7700 --key /etc/gupfs/cluster.key

Exit codes: 0 it runs · 1 the serving process did not answer · 2 not a gupfs store or mount · 3 no process serves it; its OST \
directories are shown")]
pub struct Status {
    /// The store's directory, its mount point, or a server's HOST:PORT [default: the only gupfs mount of this machine]
    #[arg(value_name = "PATH|HOST:PORT")]
    path: Option<PathBuf>,
    /// The key of this host or the cluster's, for a server's address [default: client.key or cluster.key in /etc/gupfs]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsFlags,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    /// Refresh every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

impl Status {
    pub fn run(self) -> CliResult<Exit> {
        if let Some(address) = server_address(self.path.as_deref()) {
            return self.of_server(&address);
        }
        let target = ControlTarget::find(self.path.as_deref())?;
        loop {
            let reply: Result<StatusReply, CliError> = target.request(&ControlRequest::Status);
            let reply = match reply {
                Err(error) if error.exit == Exit::NotRunning => return self.offline(&target),
                other => other?,
            };
            let text = match self.json {
                true => format!("{}\n", reply.status),
                false => reply.text,
            };
            if !self.watch {
                print!("{text}");
                return Ok(Exit::Fine);
            }
            let clear = if self.json { "" } else { CLEAR };
            print!("{clear}{text}");
            std::thread::sleep(REFRESH_INTERVAL);
        }
    }

    fn of_server(&self, address: &str) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let identity = identity(
            &Platform::real(),
            read_key(self.key.as_deref())?,
            self.tls.read()?,
        );
        loop {
            let (reply, _) = block_on(send_request(
                &identity,
                address,
                Role::Visitor,
                ClusterRequest::Status,
            ))?;
            let ClusterReplyBody::Status { text, json } = reply else {
                return Err(CliError::new(format!(
                    "'{address}' sent an unexpected reply to the status request"
                )));
            };
            let shown = if self.json { format!("{json}\n") } else { text };
            if !self.watch {
                print!("{shown}");
                return Ok(Exit::Fine);
            }
            let clear = if self.json { "" } else { CLEAR };
            print!("{clear}{shown}");
            std::thread::sleep(REFRESH_INTERVAL);
        }
    }

    fn offline(&self, target: &ControlTarget) -> CliResult<Exit> {
        let Some(store_dir) = target.store_dir() else {
            let reply: CliResult<StatusReply> = target.request(&ControlRequest::Status);
            return reply.map(|_| Exit::Fine);
        };
        let offline = Offline::of(store_dir, &store_dir.read_marker()?);
        match self.json {
            true => println!("{}", serde_json::json!(offline)),
            false => print!("{}", offline.text()),
        }
        Ok(Exit::NotRunning)
    }
}
