//! Records of who asks: `S` sessions, `R` stored replies, `O` orphans, `M` writers, `L` what they left.

use super::first_version;
use gupfs_proto::{InodeId, Timestamp};
use serde::{Deserialize, Serialize};

/// `S session`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// What the client calls itself, for `status`.
    pub client: String,
    pub created: Timestamp,
    /// Rises with each connection of the session; 0 before the first.
    pub connection: u64,
    pub slots: u16,
    pub holds_leases: bool,
}

/// `R session slot`: the last change made in this lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    pub sequence: u64,
    /// Of the request: another request with the same number is a mistake, not a repetition.
    pub digest: u64,
    pub essence: Essence,
}

/// What the answer said, without what the records say anyway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Essence {
    Done,
    Attr(InodeId),
    Entry(InodeId),
    Opened {
        ino: InodeId,
        created: bool,
    },
    Removed {
        victim: Option<InodeId>,
        orphan: bool,
        moved: Option<InodeId>,
    },
}

/// `O ino session`: without a name, and this session may still use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Orphan {
    pub since: Timestamp,
}

/// `M ino session`: this session writes objects of the file; size, mtime and presence are its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Writer {
    pub since: Timestamp,
}

/// `L ino`: nobody's word says which objects of the file survive a power cut; a chore asks for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unconfirmed {
    pub since: Timestamp,
}

first_version!(Session, Reply, Orphan, Writer, Unconfirmed);
