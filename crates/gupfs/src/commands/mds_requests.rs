//! How commands of an administrator ask the metadata server.

use crate::cluster::{TlsFlags, identity, read_cluster_key, send_request};
use crate::exit::{CliError, CliResult};
use clap::Args;
use gupfs_platform::Platform;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_rpc::{AuthKey, ProcessIdentity, Role};
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(Args)]
pub struct MdsFlags {
    /// The metadata server, or several, separated by commas [default: 127.0.0.1:7700]
    #[arg(long, value_name = "HOST[:PORT]")]
    mds: Option<String>,
    /// The cluster's key [default: /etc/gupfs/cluster.key, if it is there]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsFlags,
}

/// What a command asks the metadata server with.
pub struct MdsRequests {
    identity: ProcessIdentity,
    mds: String,
}

impl MdsFlags {
    pub fn requests(&self) -> CliResult<MdsRequests> {
        let identity = identity(
            &Platform::real(),
            read_cluster_key(self.key.as_deref())?.map(AuthKey::from),
            self.tls.read()?,
        );
        Ok(MdsRequests {
            identity,
            mds: self.mds.clone().unwrap_or_else(|| "127.0.0.1".into()),
        })
    }
}

impl MdsRequests {
    /// In the role of an object server, as `gupfs ost add`: no other role may change the targets.
    pub async fn send(&self, request: ClusterRequest) -> CliResult<ClusterReplyBody> {
        let sent = send_request(&self.identity, &self.mds, Role::Oss, request).await;
        sent.map(|(reply, _)| reply)
    }

    pub fn unexpected_reply(&self, about: &str) -> CliError {
        CliError::new(format!(
            "'{}' sent an unexpected reply about {about}",
            self.mds
        ))
    }
}

/// Replaces the last line of a terminal.
pub fn show_progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}
