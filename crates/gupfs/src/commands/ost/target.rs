//! What the commands about one target share: which target, and how the metadata server is asked.

use crate::commands::mds_requests::{MdsFlags, MdsRequests};
use crate::exit::{CliError, CliResult};
use clap::Args;
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};

#[derive(Args)]
pub struct TargetFlags {
    /// The number of the target, as `gupfs status` and `gupfs df` show it
    #[arg(value_name = "N", value_parser = parse_ost)]
    pub ost: OstId,
    #[command(flatten)]
    mds: MdsFlags,
}

/// What a command asks the metadata server with.
pub struct TargetRequests {
    mds: MdsRequests,
    pub ost: OstId,
}

impl TargetFlags {
    pub fn requests(&self) -> CliResult<TargetRequests> {
        Ok(TargetRequests {
            mds: self.mds.requests()?,
            ost: self.ost,
        })
    }
}

impl TargetRequests {
    pub async fn send(&self, request: ClusterRequest) -> CliResult<ClusterReplyBody> {
        self.mds.send(request).await
    }

    pub fn unexpected_reply(&self) -> CliError {
        self.mds.unexpected_reply(&format!("ost{}", self.ost))
    }
}

/// "3" or "ost3".
fn parse_ost(text: &str) -> Result<OstId, String> {
    let number = text.strip_prefix("ost").unwrap_or(text);
    let bad = |_| format!("'{text}' is no number of a target");
    number.parse().map(OstId).map_err(bad)
}
