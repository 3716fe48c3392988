//! Records of who asks: `S` sessions, `R` stored replies, `O` orphans, `M` writers, `L` what they left.

use super::{Record, Undecodable, V1, decode_body, encode_body, first_version};
use bytes::Bytes;
use gupfs_proto::{InodeId, Seq, Timestamp};
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
    /// The batch that made it.
    pub seq: Seq,
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

first_version!(Session, Orphan, Writer, Unconfirmed);

const REPLY_VERSION: u8 = 2;

/// `R` as it was before it knew its batch.
#[derive(Serialize, Deserialize)]
struct ReplyV1 {
    sequence: u64,
    digest: u64,
    essence: Essence,
}

impl Record for Reply {
    fn encode(&self) -> Bytes {
        encode_body(REPLY_VERSION, self)
    }

    fn decode(value: &Bytes) -> Result<Reply, Undecodable> {
        if value.first() != Some(&V1) {
            return decode_body(REPLY_VERSION, value);
        }
        let old: ReplyV1 = decode_body(V1, value)?;
        Ok(Reply {
            sequence: old.sequence,
            digest: old.digest,
            essence: old.essence,
            // Of a time before this program: it is durable.
            seq: Seq(0),
        })
    }
}
