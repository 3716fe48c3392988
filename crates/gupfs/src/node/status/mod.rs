//! The status of a process: its roles, their work, and what their calls wait for.

mod copies;
mod offline;
mod text;

pub use copies::show_copies;
pub use offline::Offline;
pub use text::{show_domains, show_rebalance, show_resync};

use super::Parts;
use gupfs_fuse::FuseTransport;
use gupfs_mds::MdsStatus;
use gupfs_mount::Mount;
use gupfs_oss::AuthorizerStatus;
use gupfs_proto::copy::CopiesReport;
use gupfs_rpc::{ClientConnectionStatus, RpcServerStatus};
use gupfs_store::object::{OstState, OstStatus};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The status as text and as JSON, so that the command can print it without knowing its fields.
#[derive(Serialize, Deserialize)]
pub struct StatusReply {
    pub text: String,
    pub status: serde_json::Value,
}

/// The status of one process.
#[derive(Serialize)]
struct Status {
    running: bool,
    version: &'static str,
    pid: u32,
    /// A store's directory, or a mount point.
    dir: String,
    cluster: String,
    uptime_seconds: u64,
    mount: Option<MountStatus>,
    mds: Option<MdsStatus>,
    /// The copies of the metadata, where it has several.
    copies: Option<CopiesReport>,
    /// Why this process, which has a copy of the metadata, cannot use etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd_error: Option<String>,
    osts: Vec<OstStatus>,
    /// The checks of capabilities by the object server, if the process accepts connections.
    #[serde(rename = "gate")]
    authorizer: Option<AuthorizerStatus>,
    client: Option<gupfs_client::ClientStatus>,
    /// Accepted connections.
    server: Option<RpcServerStatus>,
    /// Connections to servers.
    #[serde(rename = "lines")]
    client_connections: Vec<ClientConnectionStatus>,
}

#[derive(Serialize)]
struct MountStatus {
    at: PathBuf,
    connection: u32,
    /// "io_uring" or "/dev/fuse".
    over: &'static str,
    requests: u64,
    /// Requests that were not answered by their first poll.
    parked: u64,
    under_way: u64,
    /// Running handlers whose request got an error reply, because it passed its deadline or its program was killed.
    late: u64,
    bytes_read: u64,
    bytes_written: u64,
    /// Since the start: (operation, finished, failed).
    operations: Vec<(&'static str, u64, u64)>,
}

/// The receiver of a status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The owner of the process, over the control socket.
    Admin,
    /// Another host, with any key. It must not learn incarnations and open instances, which identify a target.
    Others,
}

pub async fn of(parts: &Parts, audience: Audience) -> StatusReply {
    let oss_connections = parts.oss_connections.iter();
    let oss_connections = oss_connections.flat_map(|connections| connections.status());
    let mds_connection = parts.mds_connection.iter();
    let mds_connection = mds_connection.map(|connection| connection.status());
    let mut status = Status {
        running: true,
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        dir: parts.name.clone(),
        cluster: parts.cluster.to_string(),
        uptime_seconds: parts.platform.clock.boot().since(parts.started).as_secs(),
        mount: parts.mount.get().map(|mount| mount_status(mount)),
        mds: match parts.mds.get() {
            Some(mds) => Some(mds.status().await),
            None => None,
        },
        copies: parts.copy.as_ref().and_then(|copy| {
            let ownership = parts.ownership.get();
            copy.report(ownership.map(|ownership| &**ownership))
        }),
        etcd_error: (parts.copy.as_ref())
            .and_then(|copy| copy.arbiter_error())
            .map(|error| error.to_string()),
        osts: match &parts.oss {
            Some(oss) => oss.status().await.targets,
            None => Vec::new(),
        },
        authorizer: (parts.oss.as_ref())
            .filter(|_| parts.server.get().is_some())
            .map(|oss| oss.authorizer().status()),
        client: parts.client.as_ref().map(|client| client.status()),
        server: parts.server.get().map(|server| server.status()),
        client_connections: mds_connection.chain(oss_connections).collect(),
    };
    status.note_former_targets();
    if audience == Audience::Others {
        status.hide_instance_ids();
    }
    StatusReply {
        text: status.text(),
        status: serde_json::to_value(&status).expect("a status is plain data"),
    }
}

fn mount_status(mount: &Mount) -> MountStatus {
    let (counts, stats) = (mount.session().counts(), mount.stats());
    MountStatus {
        at: mount.at().to_path_buf(),
        connection: mount.session().connection().0,
        over: match mount.session().transport() {
            FuseTransport::IoUring => "io_uring",
            FuseTransport::Auto | FuseTransport::Device => "/dev/fuse",
        },
        requests: counts.requests,
        parked: counts.parked,
        under_way: stats.under_way,
        late: counts.late as u64,
        bytes_read: stats.read_bytes,
        bytes_written: stats.written_bytes,
        operations: stats
            .ops
            .iter()
            .filter(|op| op.done > 0)
            .map(|op| (op.name, op.done, op.refused))
            .collect(),
    }
}

impl Status {
    /// The object server of this process may not know yet that one of its targets is not part of the cluster any more.
    fn note_former_targets(&mut self) {
        let known = self.mds.iter().flat_map(|mds| &mds.targets);
        for former in known.filter(|target| target.lost_since.is_some()) {
            let mut targets = self.osts.iter_mut();
            if let Some(target) = targets.find(|target| target.ost == former.ost) {
                target.state = OstState::Down(former.why_not.clone().unwrap_or_default());
            }
        }
    }

    fn hide_instance_ids(&mut self) {
        for target in self.mds.iter_mut().flat_map(|mds| &mut mds.targets) {
            target.incarnation = None;
            target.stamp = None;
        }
        for target in &mut self.osts {
            target.incarnation = None;
            target.stamp = None;
        }
    }
}
