//! What the commands about one target share: which target, and how the metadata server is asked.

use crate::cluster::{MDS_PORT, TlsFlags, identity, read_cluster_key, send_request, with_port};
use crate::exit::{CliError, CliResult};
use clap::Args;
use gupfs_platform::Platform;
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_rpc::{AuthKey, ProcessIdentity, Role};
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(Args)]
pub struct TargetFlags {
    /// The number of the target, as `gupfs status` and `gupfs df` show it
    #[arg(value_name = "N", value_parser = parse_ost)]
    pub ost: OstId,
    /// The metadata server [default: 127.0.0.1:7700]
    #[arg(long, value_name = "HOST[:PORT]")]
    mds: Option<String>,
    /// The cluster's key [default: /etc/gupfs/cluster.key, if it is there]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsFlags,
}

/// What a command asks the metadata server with.
pub struct TargetRequests {
    identity: ProcessIdentity,
    mds: String,
    pub ost: OstId,
}

impl TargetFlags {
    pub fn requests(&self) -> CliResult<TargetRequests> {
        let identity = identity(
            &Platform::real(),
            read_cluster_key(self.key.as_deref())?.map(AuthKey::from),
            self.tls.read()?,
        );
        Ok(TargetRequests {
            identity,
            mds: with_port(self.mds.as_deref().unwrap_or("127.0.0.1"), MDS_PORT),
            ost: self.ost,
        })
    }
}

impl TargetRequests {
    /// In the role of an object server, as `gupfs ost add`: no other role may change the targets.
    pub async fn send(&self, request: ClusterRequest) -> CliResult<ClusterReplyBody> {
        let sent = send_request(&self.identity, &self.mds, Role::Oss, request).await;
        sent.map(|(reply, _)| reply)
    }

    pub fn unexpected_reply(&self) -> CliError {
        CliError::new(format!(
            "'{}' sent an unexpected reply about ost{}",
            self.mds, self.ost
        ))
    }
}

/// "3" or "ost3".
fn parse_ost(text: &str) -> Result<OstId, String> {
    let number = text.strip_prefix("ost").unwrap_or(text);
    let bad = |_| format!("'{text}' is no number of a target");
    number.parse().map(OstId).map_err(bad)
}

/// Replaces the last line of a terminal.
pub fn show_progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}
