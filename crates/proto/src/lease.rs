//! Leases on metadata: what a client may answer from its memory until the server revokes it.
//!
//! A session asks for leases once (`MetaOp::AcceptLeases`). From then on replies to it may be `MetaReplyBody::LeaseReply`: the outcome
//! of the operation, and leases on what the outcome says. Before the server makes a change visible to anybody, it revokes the leases
//! of other sessions on what changes (`CallbackRequest::RevokeLeases`) and waits until each has answered, or until its term is over.

use crate::attr::Attr;
use crate::ids::InodeId;
use crate::limits::{GRANTS_MAX, REVOKED_KEYS_MAX};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What a lease covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LeaseKey {
    /// An inode's attributes with its access lists, extended attributes, flags and the target of a symbolic link. Access times are
    /// excepted: a change of atime alone revokes nothing.
    Attributes(InodeId),
    /// One name in a directory: which inode it stands for, or that there is none. `hash` is the number by which the server locates the
    /// name in this directory; a listing's cookie is this number and a rank (`ReaddirCookie` in the crate `namespace`).
    Name { dir: InodeId, hash: u64 },
    /// All names of a directory, present and absent.
    Names(InodeId),
    /// A file's bytes, size and layout, for reading.
    Data(InodeId),
}

impl LeaseKey {
    /// The inode that the lease is about; the directory of a name.
    pub fn inode(self) -> InodeId {
        match self {
            LeaseKey::Attributes(ino) | LeaseKey::Names(ino) | LeaseKey::Data(ino) => ino,
            LeaseKey::Name { dir, .. } => dir,
        }
    }
}

/// The number of a grant. A server numbers the grants to a session in the order in which it makes them, from 1 in each of its
/// instances.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct GrantNumber(pub u64);

/// One lease, granted with a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaseGrant {
    pub key: LeaseKey,
    pub number: GrantNumber,
}

/// The outcome of an operation, with leases.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LeaseReply {
    /// The encoded `Result<MetaReplyBody, FsError>` (`wire::encode_outcome`): an absent name is an error, and can be leased.
    pub outcome: Bytes,
    /// Leases on what the outcome says; at most `GRANTS_MAX`.
    pub grants: Vec<LeaseGrant>,
    /// The attributes, after the change, of inodes that the operation changed and that the outcome does not contain: parents, the inode
    /// that lost a name. The requester keeps its leases on them.
    pub changed: Vec<Attr>,
}

/// Revokes leases of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeaseRevocation {
    /// Grants above this number are not revoked. Grants of these keys up to it are void, also those that arrive after this message.
    pub upto: GrantNumber,
    /// At most `REVOKED_KEYS_MAX`. `LeaseKey::Names` stands for the listing of the directory alone: its leased names are named one by one.
    pub keys: Vec<LeaseKey>,
}

impl LeaseReply {
    /// # Errors
    /// What exceeds its bound.
    pub fn check_bounds(&self) -> Result<(), String> {
        check("leases in one reply", self.grants.len(), GRANTS_MAX)?;
        check(
            "changed inodes in one reply",
            self.changed.len(),
            GRANTS_MAX,
        )
    }
}

impl LeaseRevocation {
    /// # Errors
    /// What exceeds its bound.
    pub fn check_bounds(&self) -> Result<(), String> {
        check("leases revoked at once", self.keys.len(), REVOKED_KEYS_MAX)
    }
}

fn check(item: &str, actual: usize, limit: usize) -> Result<(), String> {
    match actual <= limit {
        true => Ok(()),
        false => Err(format!("{item}: {actual} exceeds the limit of {limit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::CallbackRequest;
    use crate::meta::{MetaReply, MetaReplyBody};
    use crate::wire::{Message, decode_outcome, encode_outcome};
    use crate::{FsError, MapEpoch, OwnerEpoch, Seq, SessionId};

    fn revoke_leases(keys: u64) -> CallbackRequest {
        let keys = (0..keys).map(|ino| LeaseKey::Attributes(InodeId(ino)));
        CallbackRequest::RevokeLeases {
            session: SessionId(1),
            instance: OwnerEpoch(1),
            revocation: LeaseRevocation {
                upto: GrantNumber(7),
                keys: keys.collect(),
            },
        }
    }

    fn lease_reply(grants: u64, outcome: Bytes) -> MetaReply {
        let grants = (1..=grants).map(|number| LeaseGrant {
            key: LeaseKey::Name {
                dir: InodeId(1),
                hash: number,
            },
            number: GrantNumber(number),
        });
        let reply = LeaseReply {
            outcome,
            grants: grants.collect(),
            changed: Vec::new(),
        };
        MetaReply {
            seq: Seq(1),
            durable: Seq(1),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(MetaReplyBody::LeaseReply(reply)),
        }
    }

    #[test]
    fn messages_with_more_leases_than_their_bounds_are_rejected() {
        for (keys, is_accepted) in [(REVOKED_KEYS_MAX, true), (REVOKED_KEYS_MAX + 1, false)] {
            let sent = revoke_leases(keys as u64).encode();
            let decoded = CallbackRequest::decode(&sent.body, Bytes::new());
            assert_eq!(decoded.is_ok(), is_accepted, "{keys} keys");
        }
        for (grants, is_accepted) in [(GRANTS_MAX, true), (GRANTS_MAX + 1, false)] {
            let sent = lease_reply(grants as u64, Bytes::new()).encode();
            let decoded = MetaReply::decode(&sent.body, Bytes::new());
            assert_eq!(decoded.is_ok(), is_accepted, "{grants} grants");
        }
    }

    #[test]
    fn a_reply_with_leases_contains_a_reply_or_an_error_and_no_other_reply_with_leases() {
        for outcome in [Ok(MetaReplyBody::Done), Err(FsError::NotFound)] {
            let sent = lease_reply(1, encode_outcome(&outcome)).encode();
            let reply = MetaReply::decode(&sent.body, Bytes::new()).unwrap();
            let Ok(MetaReplyBody::LeaseReply(reply)) = reply.result else {
                panic!("{reply:?}")
            };
            assert_eq!(decode_outcome(&reply.outcome).unwrap(), outcome);
        }
        let inner = lease_reply(1, Bytes::new()).result;
        assert!(decode_outcome(&encode_outcome(&inner)).is_err());
        assert!(decode_outcome(b"").is_err());
    }
}
