//! What is said in a handshake.

use crate::key::Proof;
use gupfs_proto::ClusterId;
use gupfs_proto::wire::{Kind, SPOKEN};
use serde::{Deserialize, Serialize};

/// What somebody is in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    Client,
    Mds,
    Oss,
    /// A command that looks and leaves.
    Visitor,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Mds => "mds",
            Role::Oss => "oss",
            Role::Visitor => "visitor",
        }
    }
}

/// Who connects: the same for all connections of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Myself {
    /// Made at random at each start.
    pub who: u128,
    pub role: Role,
    /// For people: host and what it serves or mounts.
    pub name: String,
}

/// The other side, as the handshake showed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Met {
    pub who: u128,
    pub role: Role,
    pub name: String,
    pub cluster: ClusterId,
    /// What this connection's predecessor still has under way is waited for before this one may ask.
    pub fenced: bool,
    /// The version of each kind that both speak; kinds that only one knows are missing.
    pub versions: Vec<(u16, u8)>,
}

impl Met {
    pub fn version(&self, kind: Kind) -> Option<u8> {
        let found = self.versions.iter().find(|(known, _)| *known == kind.0);
        found.map(|(_, version)| *version)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    pub who: u128,
    /// Rises with each connection of this process to this server.
    pub number: u64,
    pub role: Role,
    pub name: String,
    /// The cluster that is meant; None takes any.
    pub cluster: Option<ClusterId>,
    pub has_key: bool,
    pub fenced: bool,
    pub nonce: [u8; 32],
    /// (kind, oldest version, newest version)
    pub speaks: Vec<(u16, u8, u8)>,
}

#[derive(Serialize, Deserialize)]
pub(super) enum Challenge {
    Known {
        terms: Terms,
        /// Over the hello and the terms; None if the server has no key.
        proof: Option<Proof>,
    },
    Refused(Refused),
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Terms {
    pub who: u128,
    pub role: Role,
    pub name: String,
    pub cluster: ClusterId,
    pub nonce: [u8; 32],
    pub versions: Vec<(u16, u8)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub proof: Option<Proof>,
}

#[derive(Serialize, Deserialize)]
pub(super) enum Verdict {
    Welcome,
    Refused(Refused),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Refused {
    pub why: String,
    /// Asking again will not help.
    pub for_good: bool,
}

/// Domains of the two proofs, so that one can never stand for the other.
pub(super) const SERVER_PROOF: &[u8] = b"gupfs handshake 1: server";
pub(super) const CLIENT_PROOF: &[u8] = b"gupfs handshake 1: client";

pub(super) fn spoken() -> Vec<(u16, u8, u8)> {
    let kinds = SPOKEN.iter();
    kinds
        .map(|(kind, oldest, newest)| (kind.0, *oldest, *newest))
        .collect()
}

/// What a process offers when it connects: it makes messages of the newest version alone.
pub(crate) fn offered() -> Vec<(u16, u8, u8)> {
    let kinds = SPOKEN.iter();
    kinds
        .map(|(kind, _, newest)| (kind.0, *newest, *newest))
        .collect()
}

/// The newest version of each kind that both speak.
pub(super) fn agree(theirs: &[(u16, u8, u8)], ours: &[(u16, u8, u8)]) -> Vec<(u16, u8)> {
    let mut agreed = Vec::new();
    for (kind, oldest, newest) in ours {
        let same = theirs.iter().find(|(known, ..)| known == kind);
        if let Some((_, from, to)) = same {
            let version = (*newest).min(*to);
            if version >= (*oldest).max(*from) {
                agreed.push((*kind, version));
            }
        }
    }
    agreed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_both_is_spoken_and_none_is_guessed() {
        let ours = [(1, 1, 3), (2, 2, 2), (3, 1, 1)];
        let theirs = [(1, 2, 9), (2, 3, 4), (4, 1, 1)];
        assert_eq!(agree(&theirs, &ours), [(1, 3)]);
    }
}
