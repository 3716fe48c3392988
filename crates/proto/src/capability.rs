//! Capabilities: the credentials by which an object server verifies a client's rights without a request to another server
//! (docs/decisions/2026-11-22-capabilities.md).
//!
//! The metadata server issues a *capability* with each reply that contains a file's layout: for this session, this file, these
//! rights, with one MAC for each OST of the layout. Each renewal of the session returns a *session capability*: this session is
//! valid until then. A request to an OST carries both; a capability needs no renewal as long as the session capability is valid.
//! MACs are HMACs with keys that the metadata server shares with the one OST (capabilities) or with all OSTs (session
//! capabilities).
//!
//! The capability in the reply to an open has one more MAC, which the metadata server verifies itself: the *open capability*
//! proves that this session opened the file (`OpenCapability`, docs/decisions/2026-11-24-access-rules.md).

use crate::access::AccessMode;
use crate::ids::{InodeId, OstId, OwnerEpoch, SessionId};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

pub use crate::access::Rights;
pub use crate::error::CapabilityFault;

/// A message authentication code: the first half of an HMAC-SHA256. It cannot be made without the key; half of it keeps requests
/// small.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapabilityMac(pub [u8; 16]);

impl fmt::Debug for CapabilityMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapabilityMac")
    }
}

/// A session's right to one file, on all OSTs of its layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capability {
    /// The owner whose keys made the MACs.
    pub epoch: OwnerEpoch,
    pub rights: Rights,
    /// One MAC for each OST, in ascending order.
    pub macs: Vec<(OstId, CapabilityMac)>,
}

impl Capability {
    /// The pseudo OST number of the MAC that proves to the metadata server that the session opened the file. No OST has this
    /// number.
    pub const MDS_PSEUDO_OST: OstId = OstId(u16::MAX);

    /// The open capability of the open with `access` whose reply contains this capability; None if the server issued none.
    pub fn open_capability(&self, ino: InodeId, access: AccessMode) -> Option<OpenCapability> {
        let found = self
            .macs
            .iter()
            .find(|(ost, _)| *ost == Capability::MDS_PSEUDO_OST);
        found.map(|(_, mac)| OpenCapability {
            ino,
            rights: Rights::for_open(access),
            mac: *mac,
        })
    }

    /// Whether it gives a right at any OST.
    pub fn is_for_osts(&self) -> bool {
        self.macs
            .iter()
            .any(|(ost, _)| *ost != Capability::MDS_PSEUDO_OST)
    }

    /// The part of the capability for one OST; None if the file's layout did not include it.
    pub fn for_ost(&self, ost: OstId) -> Option<ObjectCapability> {
        let found = self.macs.iter().find(|(of, _)| *of == ost);
        found.map(|(_, mac)| ObjectCapability {
            epoch: self.epoch,
            rights: self.rights,
            mac: *mac,
        })
    }
}

/// The metadata server's statement that this session opened this inode with these rights; the client sends it back to the
/// metadata server. It is valid as long as the session, also after a restart of the server and after changes of the inode's mode
/// and owner, as a file descriptor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenCapability {
    pub ino: InodeId,
    pub rights: Rights,
    pub mac: CapabilityMac,
}

/// The part of a capability that one OST verifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectCapability {
    pub epoch: OwnerEpoch,
    pub rights: Rights,
    pub mac: CapabilityMac,
}

/// States that the session is valid until `until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionCapability {
    pub epoch: OwnerEpoch,
    /// Milliseconds of the boot clock of the owner with `epoch`.
    pub until: u64,
    pub mac: CapabilityMac,
}

impl SessionCapability {
    pub fn time(&self) -> CredentialTime {
        CredentialTime {
            epoch: self.epoch,
            until: self.until,
        }
    }
}

/// When a session capability was issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CredentialTime {
    pub epoch: OwnerEpoch,
    /// As of `SessionCapability`.
    pub until: u64,
}

impl CredentialTime {
    /// Whether it was issued after the other one. Nothing is known of owners of different shard groups: false.
    pub fn is_after(&self, other: &CredentialTime) -> bool {
        let is_later = self.epoch == other.epoch && self.until > other.until;
        is_later || self.epoch.is_after(other.epoch)
    }
}

/// Credentials of a request to an OST.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DataCredentials {
    /// None. Requests within one process need none.
    None,
    /// Credentials of the metadata server.
    Server {
        epoch: OwnerEpoch,
        mac: CapabilityMac,
    },
    /// Credentials of a client: its session capability, and its capability for the file that the request concerns, if it concerns
    /// one.
    Client {
        session_capability: SessionCapability,
        object_capability: Option<ObjectCapability>,
    },
}

/// The statement that a MAC authenticates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapabilityStatement {
    File {
        epoch: OwnerEpoch,
        ost: OstId,
        session: SessionId,
        ino: InodeId,
        rights: Rights,
    },
    Session {
        epoch: OwnerEpoch,
        session: SessionId,
        until: u64,
    },
    /// The metadata server of this epoch sends a request to this OST.
    Server { epoch: OwnerEpoch, ost: OstId },
    /// The session opened this inode with these rights.
    Open {
        session: SessionId,
        ino: InodeId,
        rights: Rights,
    },
}

/// Length of an encoded statement: with the padding of SHA-256 it fits into one block.
const STATEMENT_BYTES: usize = 32;

impl CapabilityStatement {
    /// ```text
    /// 0       1          2..4   4..12   12..20    20..28        28..32
    /// type    rights     ost    epoch   session   ino, until    0
    /// ```
    fn encode(&self) -> [u8; STATEMENT_BYTES] {
        let (kind, rights, ost, epoch, session, last) = match *self {
            CapabilityStatement::File {
                epoch,
                ost,
                session,
                ino,
                rights,
            } => (b'f', rights.bits(), ost, epoch, session, ino.0),
            CapabilityStatement::Session {
                epoch,
                session,
                until,
            } => (b'p', 0, OstId(0), epoch, session, until),
            CapabilityStatement::Server { epoch, ost } => (b's', 0, ost, epoch, SessionId(0), 0),
            CapabilityStatement::Open {
                session,
                ino,
                rights,
            } => {
                let (ost, epoch) = (OstId(0), OwnerEpoch(0));
                (b'o', rights.bits(), ost, epoch, session, ino.0)
            }
        };
        let mut bytes = [0; STATEMENT_BYTES];
        bytes[0] = kind;
        bytes[1] = rights;
        bytes[2..4].copy_from_slice(&ost.0.to_le_bytes());
        bytes[4..12].copy_from_slice(&epoch.0.to_le_bytes());
        bytes[12..20].copy_from_slice(&session.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&last.to_le_bytes());
        bytes
    }
}

/// Computes and verifies MACs. Debug output does not contain the key.
#[derive(Clone)]
pub struct CapabilityKey(Hmac<Sha256>);

impl fmt::Debug for CapabilityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapabilityKey")
    }
}

impl CapabilityKey {
    pub fn new(key: &[u8; 32]) -> CapabilityKey {
        CapabilityKey(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    pub fn compute_mac(&self, statement: &CapabilityStatement) -> CapabilityMac {
        let mut mac = self.0.clone();
        mac.update(&statement.encode());
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        CapabilityMac(half)
    }

    /// Compares in constant time.
    pub fn verifies(&self, statement: &CapabilityStatement, expected: &CapabilityMac) -> bool {
        let mut mac = self.0.clone();
        mac.update(&statement.encode());
        mac.verify_truncated_left(&expected.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_statement() -> CapabilityStatement {
        CapabilityStatement::File {
            epoch: OwnerEpoch(3),
            ost: OstId(2),
            session: SessionId(7),
            ino: InodeId(9),
            rights: Rights::READ,
        }
    }

    #[test]
    fn a_mac_is_valid_only_for_its_key_and_its_statement() {
        let key = CapabilityKey::new(&[7; 32]);
        let mac = key.compute_mac(&file_statement());
        assert!(key.verifies(&file_statement(), &mac));
        assert!(!CapabilityKey::new(&[8; 32]).verifies(&file_statement(), &mac));
        let (e, o, s, i) = (OwnerEpoch(3), OstId(2), SessionId(7), InodeId(9));
        let (read, write) = (Rights::READ, Rights::WRITE);
        let other = |epoch, ost, session, ino, rights| CapabilityStatement::File {
            epoch,
            ost,
            session,
            ino,
            rights,
        };
        for other in [
            other(OwnerEpoch(4), o, s, i, read),
            other(e, OstId(1), s, i, read),
            other(e, o, SessionId(8), i, read),
            other(e, o, s, InodeId(10), read),
            other(e, o, s, i, write),
            CapabilityStatement::Server { epoch: e, ost: o },
            CapabilityStatement::Open {
                session: s,
                ino: i,
                rights: read,
            },
            CapabilityStatement::Session {
                epoch: e,
                session: s,
                until: 9,
            },
        ] {
            assert!(!key.verifies(&other, &mac), "{other:?}");
        }
        assert_eq!(format!("{key:?} {mac:?}"), "CapabilityKey CapabilityMac");
    }

    #[test]
    fn an_open_gives_the_rights_of_its_access_mode() {
        let of = Rights::for_open;
        let (read, all) = (Rights::READ, Rights::all());
        assert_eq!(of(AccessMode::empty()), Rights::empty());
        assert_eq!(of(AccessMode::APPEND), Rights::empty());
        assert_eq!(
            (of(AccessMode::READ), of(AccessMode::EXECUTE)),
            (read, read)
        );
        assert_eq!(of(AccessMode::WRITE | AccessMode::APPEND), all);
        for (rights, reads, writes) in [
            (Rights::empty(), false, false),
            (read, true, false),
            (all, true, true),
        ] {
            assert_eq!(rights.allows(AccessMode::READ), reads);
            assert_eq!(rights.allows(AccessMode::EXECUTE), reads);
            assert_eq!(rights.allows(AccessMode::WRITE), writes);
        }
        // A server of an older version issues no open capability.
        let mut capability = Capability {
            epoch: OwnerEpoch(1),
            rights: Rights::READ,
            macs: vec![(OstId(0), CapabilityMac([1; 16]))],
        };
        assert_eq!(
            capability.open_capability(InodeId(9), AccessMode::WRITE),
            None
        );
        capability
            .macs
            .push((Capability::MDS_PSEUDO_OST, CapabilityMac([2; 16])));
        let open = capability
            .open_capability(InodeId(9), AccessMode::WRITE)
            .unwrap();
        assert_eq!((open.rights, open.mac), (all, CapabilityMac([2; 16])));
    }
}
