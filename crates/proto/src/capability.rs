//! What an object server believes a client's right by, without asking anybody (docs/decisions/2026-11-22-capabilities.md).
//!
//! The metadata server gives a *capability* with the answer that tells where a file's bytes are: for this session, this
//! file, these rights, with one tag for each OST of its layout. With each renewal of the session goes a *pass*: this session
//! lives until then. A request to an OST carries both; a capability needs no renewal as long as there is a pass. Tags are
//! HMACs with keys that the metadata server shares with the one OST (capabilities) or with all of them (passes).
//!
//! The capability that an open is answered with has one tag more, which the metadata server verifies itself: the proof that
//! this session opened the file (`OpenProof`, docs/decisions/2026-11-24-one-table-of-rights.md).

use crate::ids::{InodeId, OstId, OwnerEpoch, SessionId};
use crate::meta::Access;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

bitflags::bitflags! {
    /// What may be done with a file's objects.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
    pub struct Rights: u8 {
        const READ = 1;
        /// Of a capability: given to the session that holds the file alone. Of an open proof: the file was opened for writing.
        const WRITE = 2;
    }
}

impl Rights {
    /// What an open with this access gives. A session that may write a file may read it: the bytes of a small file move
    /// through its client when the file grows. A program is read to be executed.
    pub fn of_open(access: Access) -> Rights {
        match access {
            access if access.contains(Access::WRITE) => Rights::all(),
            access if access.intersects(Access::READ | Access::EXECUTE) => Rights::READ,
            _ => Rights::empty(),
        }
    }

    /// Whether they suffice to use an open file so.
    pub fn allow(self, access: Access) -> bool {
        match access.contains(Access::WRITE) {
            true => self.contains(Rights::WRITE),
            false => self.contains(Rights::READ),
        }
    }
}

/// The first half of an HMAC-SHA256: nobody makes one without the key, and it stays small in each request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tag(pub [u8; 16]);

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag")
    }
}

/// A session's right to one file, on all OSTs of its layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capability {
    /// Whose keys made the tags.
    pub epoch: OwnerEpoch,
    pub rights: Rights,
    /// One for each OST, in ascending order.
    pub tags: Vec<(OstId, Tag)>,
}

impl Capability {
    /// In the place of an OST: the tag that proves to the metadata server that the file was opened. No OST has this number.
    pub const OPEN: OstId = OstId(u16::MAX);

    /// The proof of the open that this answers, which asked for `access`; None if the server gave none.
    pub fn open_proof(&self, ino: InodeId, access: Access) -> Option<OpenProof> {
        let found = self.tags.iter().find(|(of, _)| *of == Capability::OPEN);
        found.map(|(_, tag)| OpenProof {
            ino,
            rights: Rights::of_open(access),
            tag: *tag,
        })
    }

    /// Whether it gives a right on any OST.
    pub fn is_for_osts(&self) -> bool {
        self.tags.iter().any(|(of, _)| *of != Capability::OPEN)
    }

    /// What is shown to one of the OSTs; None if the file had nothing there.
    pub fn at(&self, ost: OstId) -> Option<Grant> {
        let found = self.tags.iter().find(|(of, _)| *of == ost);
        found.map(|(_, tag)| Grant {
            epoch: self.epoch,
            rights: self.rights,
            tag: *tag,
        })
    }
}

/// The metadata server's own statement, shown to it again: this session opened this inode with these rights. It counts as
/// long as the session lives, over restarts of the server and whatever becomes of the inode's mode and owner: as a file
/// descriptor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenProof {
    pub ino: InodeId,
    pub rights: Rights,
    pub tag: Tag,
}

/// A capability, as one OST needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    pub epoch: OwnerEpoch,
    pub rights: Rights,
    pub tag: Tag,
}

/// The session lives until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pass {
    pub epoch: OwnerEpoch,
    /// Milliseconds of that owner's boot clock.
    pub until: u64,
    pub tag: Tag,
}

/// What a request to an OST shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Warrant {
    /// Nothing: within one process nobody asks for it.
    None,
    /// The metadata server's own.
    Server { epoch: OwnerEpoch, tag: Tag },
    /// A client's: his pass, and his right to the file that is asked about, if it is about one.
    Client { pass: Pass, grant: Option<Grant> },
}

/// What is wrong with what a request shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Fault {
    #[error("none was shown where one is needed")]
    Missing,
    #[error("it is forged, or another's, or for another file")]
    Forged,
    #[error("it has expired")]
    Expired,
    #[error("its session was ended")]
    Fenced,
    #[error("it does not give the right to do this")]
    Rights,
}

/// What a tag says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statement {
    File {
        epoch: OwnerEpoch,
        ost: OstId,
        session: SessionId,
        ino: InodeId,
        rights: Rights,
    },
    Pass {
        epoch: OwnerEpoch,
        session: SessionId,
        until: u64,
    },
    /// The metadata server of this epoch asks this OST.
    Server { epoch: OwnerEpoch, ost: OstId },
    /// The session opened this inode with these rights.
    Open {
        session: SessionId,
        ino: InodeId,
        rights: Rights,
    },
}

/// Bytes of a statement: with the pads of SHA-256 they fit into one block.
const STATEMENT: usize = 32;

impl Statement {
    /// ```text
    /// 0       1          2..4   4..12   12..20    20..28        28..32
    /// what    rights     ost    epoch   session   ino, until    0
    /// ```
    fn bytes(&self) -> [u8; STATEMENT] {
        let (what, rights, ost, epoch, session, last) = match *self {
            Statement::File {
                epoch,
                ost,
                session,
                ino,
                rights,
            } => (b'f', rights.bits(), ost, epoch, session, ino.0),
            Statement::Pass {
                epoch,
                session,
                until,
            } => (b'p', 0, OstId(0), epoch, session, until),
            Statement::Server { epoch, ost } => (b's', 0, ost, epoch, SessionId(0), 0),
            Statement::Open {
                session,
                ino,
                rights,
            } => {
                let (ost, epoch) = (OstId(0), OwnerEpoch(0));
                (b'o', rights.bits(), ost, epoch, session, ino.0)
            }
        };
        let mut bytes = [0; STATEMENT];
        bytes[0] = what;
        bytes[1] = rights;
        bytes[2..4].copy_from_slice(&ost.0.to_le_bytes());
        bytes[4..12].copy_from_slice(&epoch.0.to_le_bytes());
        bytes[12..20].copy_from_slice(&session.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&last.to_le_bytes());
        bytes
    }
}

/// Makes and verifies tags. Never shown.
#[derive(Clone)]
pub struct SealKey(Hmac<Sha256>);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

impl SealKey {
    pub fn new(key: &[u8; 32]) -> SealKey {
        SealKey(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    pub fn seal(&self, statement: &Statement) -> Tag {
        let mut mac = self.0.clone();
        mac.update(&statement.bytes());
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let mut tag = [0; 16];
        tag.copy_from_slice(&whole[..16]);
        Tag(tag)
    }

    /// Compares without telling by its time how much was right.
    pub fn verifies(&self, statement: &Statement, tag: &Tag) -> bool {
        let mut mac = self.0.clone();
        mac.update(&statement.bytes());
        mac.verify_truncated_left(&tag.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Statement {
        Statement::File {
            epoch: OwnerEpoch(3),
            ost: OstId(2),
            session: SessionId(7),
            ino: InodeId(9),
            rights: Rights::READ,
        }
    }

    #[test]
    fn a_tag_holds_for_its_key_and_every_part_of_what_it_says() {
        let key = SealKey::new(&[7; 32]);
        let tag = key.seal(&file());
        assert!(key.verifies(&file(), &tag));
        assert!(!SealKey::new(&[8; 32]).verifies(&file(), &tag));
        let (e, o, s, i) = (OwnerEpoch(3), OstId(2), SessionId(7), InodeId(9));
        let (read, write) = (Rights::READ, Rights::WRITE);
        let other = |epoch, ost, session, ino, rights| Statement::File {
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
            Statement::Server { epoch: e, ost: o },
            Statement::Open {
                session: s,
                ino: i,
                rights: read,
            },
            Statement::Pass {
                epoch: e,
                session: s,
                until: 9,
            },
        ] {
            assert!(!key.verifies(&other, &tag), "{other:?}");
        }
        assert_eq!(format!("{key:?} {tag:?}"), "SealKey Tag");
    }

    #[test]
    fn an_open_gives_the_rights_of_its_access() {
        let of = Rights::of_open;
        let (read, all) = (Rights::READ, Rights::all());
        assert_eq!(of(Access::empty()), Rights::empty());
        assert_eq!(of(Access::APPEND), Rights::empty());
        assert_eq!((of(Access::READ), of(Access::EXECUTE)), (read, read));
        assert_eq!(of(Access::WRITE | Access::APPEND), all);
        for (rights, reads, writes) in [
            (Rights::empty(), false, false),
            (read, true, false),
            (all, true, true),
        ] {
            assert_eq!(rights.allow(Access::READ), reads);
            assert_eq!(rights.allow(Access::EXECUTE), reads);
            assert_eq!(rights.allow(Access::WRITE), writes);
        }
        // Another server gives none: nothing is proved.
        let mut capability = Capability {
            epoch: OwnerEpoch(1),
            rights: Rights::READ,
            tags: vec![(OstId(0), Tag([1; 16]))],
        };
        assert_eq!(capability.open_proof(InodeId(9), Access::WRITE), None);
        capability.tags.push((Capability::OPEN, Tag([2; 16])));
        let proof = capability.open_proof(InodeId(9), Access::WRITE).unwrap();
        assert_eq!((proof.rights, proof.tag), (all, Tag([2; 16])));
    }
}
