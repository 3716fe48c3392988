//! What is said in a handshake.

use crate::client_key::{ClientName, KeyKind};
use crate::key::Proof;
use gupfs_proto::ClusterId;
pub use gupfs_proto::Role;
use gupfs_proto::wire::{Kind, SPOKEN};
use serde::{Deserialize, Serialize};

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
    /// Proved with the key, but for a peer that has none.
    pub role: Role,
    /// What it proved to have; on the side that connects, what both proved.
    pub key: KeyKind,
    pub name: String,
    pub cluster: ClusterId,
    /// What this connection's predecessor still has under way is waited for before this one may ask.
    pub fenced: bool,
    /// The version of each kind that both speak; kinds that only one knows are missing.
    pub versions: Vec<(u16, u8)>,
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

/// What a hello has behind it since LINK 2: the key that will be proved.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Shown {
    Nothing,
    Cluster,
    Client(ClientName),
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

/// Domains of what is made with the key, so that one can never stand for another, nor that of one version for another's.
pub(super) struct Domains {
    pub server: &'static [u8],
    pub client: &'static [u8],
    /// Keys of the codes of frames, by direction.
    pub to_server: &'static [u8],
    pub to_client: &'static [u8],
}

/// Of LINK 1, whose frames have no code.
pub(super) const FORMER: Domains = Domains {
    server: b"gupfs handshake 1: server",
    client: b"gupfs handshake 1: client",
    to_server: b"",
    to_client: b"",
};

pub(super) const NOW: Domains = Domains {
    server: b"gupfs handshake 2: server",
    client: b"gupfs handshake 2: client",
    to_server: b"gupfs frames 2: to the server",
    to_client: b"gupfs frames 2: to the client",
};

/// The version of LINK since which a role is proved and frames carry a code.
pub(super) const PROVES_ROLES: u8 = 2;

/// As both sides agreed; None if they speak no version of LINK.
pub(super) fn domains(versions: &[(u16, u8)]) -> Option<&'static Domains> {
    let link = versions.iter().find(|(kind, _)| *kind == Kind::LINK.0);
    link.map(|(_, version)| match *version >= PROVES_ROLES {
        true => &NOW,
        false => &FORMER,
    })
}

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
