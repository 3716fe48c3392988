//! Roles of peers, and which role may send which request: the one such table. A server consults it before it executes a request
//! that came over a connection. The handshake proves the peer's role.

use crate::capability::DataCredentials;
use crate::wire::Message;
use crate::{callback, cluster, copy, data, meta};
use serde::{Deserialize, Serialize};

/// The role of a process in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    Client,
    Mds,
    Oss,
    /// A command that reads the cluster's map or status and disconnects.
    Visitor,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Client, Role::Mds, Role::Oss, Role::Visitor];

    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Mds => "mds",
            Role::Oss => "oss",
            Role::Visitor => "visitor",
        }
    }
}

/// A message that is a request.
pub trait RequestMessage: Message {
    /// The roles that may send this request.
    fn allowed_roles(&self) -> &'static [Role];
}

impl RequestMessage for meta::MetaRequest {
    fn allowed_roles(&self) -> &'static [Role] {
        &[Role::Client]
    }
}

impl RequestMessage for data::DataRequest {
    fn allowed_roles(&self) -> &'static [Role] {
        match self.credentials {
            DataCredentials::Server { .. } => &[Role::Mds],
            DataCredentials::Client { .. } => match self.op {
                data::DataOp::RelayedWrite { .. } => &[Role::Oss],
                _ => &[Role::Client],
            },
            // A server that verifies capabilities rejects it from any role.
            DataCredentials::None => match self.op {
                data::DataOp::RelayedWrite { .. } => &[Role::Oss],
                _ => &[Role::Client, Role::Mds],
            },
        }
    }
}

impl RequestMessage for callback::CallbackRequest {
    fn allowed_roles(&self) -> &'static [Role] {
        &[Role::Mds]
    }
}

impl RequestMessage for copy::CopyRequest {
    fn allowed_roles(&self) -> &'static [Role] {
        &[Role::Mds]
    }
}

impl RequestMessage for cluster::ClusterRequest {
    fn allowed_roles(&self) -> &'static [Role] {
        match self {
            cluster::ClusterRequest::LegacyReport { .. }
            | cluster::ClusterRequest::RegisterTarget { .. }
            | cluster::ClusterRequest::Report(_)
            | cluster::ClusterRequest::ReportOfDomain { .. }
            | cluster::ClusterRequest::DeclareLost { .. }
            | cluster::ClusterRequest::AcceptTargetLoss { .. }
            | cluster::ClusterRequest::ManageDrain { .. }
            | cluster::ClusterRequest::DrainRoom { .. }
            | cluster::ClusterRequest::DrainNeeds { .. }
            | cluster::ClusterRequest::ChangeCopies { .. }
            | cluster::ClusterRequest::LostFiles { .. }
            | cluster::ClusterRequest::Drain { .. }
            | cluster::ClusterRequest::RemoveTarget { .. }
            | cluster::ClusterRequest::Scrub { .. }
            | cluster::ClusterRequest::Rebalance { .. }
            | cluster::ClusterRequest::TargetsStop { .. }
            | cluster::ClusterRequest::Resync { .. }
            | cluster::ClusterRequest::ReportJobs(_)
            | cluster::ClusterRequest::Verifiers { .. } => &[Role::Oss],
            cluster::ClusterRequest::Copies
            | cluster::ClusterRequest::Map
            | cluster::ClusterRequest::Status
            | cluster::ClusterRequest::JobUse { .. }
            | cluster::ClusterRequest::Domains => &Role::ALL,
        }
    }
}
