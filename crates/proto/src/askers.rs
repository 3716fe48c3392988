//! Who may ask what: the one table of roles and questions. A server looks here before it answers what came over a connection;
//! roles are proved in the handshake.

use crate::capability::Warrant;
use crate::wire::Message;
use crate::{cluster, data, meta, recall};
use serde::{Deserialize, Serialize};

/// What a process is in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    Client,
    Mds,
    Oss,
    /// A command that looks and leaves.
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

/// A message that asks something.
pub trait Question: Message {
    /// The roles that may ask this.
    fn askers(&self) -> &'static [Role];
}

impl Question for meta::Request {
    fn askers(&self) -> &'static [Role] {
        &[Role::Client]
    }
}

impl Question for data::Request {
    fn askers(&self) -> &'static [Role] {
        match self.warrant {
            Warrant::Server { .. } => &[Role::Mds],
            Warrant::Client { .. } => &[Role::Client],
            // Refused where capabilities count, whoever asks.
            Warrant::None => &[Role::Client, Role::Mds],
        }
    }
}

impl Question for recall::Request {
    fn askers(&self) -> &'static [Role] {
        &[Role::Mds]
    }
}

impl Question for cluster::Request {
    fn askers(&self) -> &'static [Role] {
        match self {
            cluster::Request::Here { .. }
            | cluster::Request::Admit { .. }
            | cluster::Request::Report(_)
            | cluster::Request::Lives { .. } => &[Role::Oss],
            cluster::Request::Map | cluster::Request::Status => &Role::ALL,
        }
    }
}
