//! Records of sessions: `S` sessions, `R` stored replies, `O` orphans, `M` write leases, `L` unconfirmed objects.

use super::{Record, RecordDecodeError, V1, decode_body, encode_body, impl_record_v1};
use bytes::Bytes;
use gupfs_proto::{InodeId, Seq, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// `S session`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The client's own name, for `gupfs status`.
    pub client: String,
    pub created: Timestamp,
    /// Increases with each connection of the session; 0 before the first.
    pub connection: u64,
    pub slots: u16,
    pub holds_leases: bool,
}

/// `R session slot`: the last change made in this slot (NFSv4.1 reply cache).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredReply {
    pub sequence: u64,
    /// Digest of the request: another request with the same sequence number is a client's mistake, not a retransmission.
    pub digest: u64,
    pub summary: ReplySummary,
    /// The batch that made the change.
    pub seq: Seq,
}

/// The contents of the reply, except those that the server reads from the records again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReplySummary {
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

/// `O ino session`: the inode has no name, and this session may still use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Orphan {
    pub since: Timestamp,
}

/// The session id in the `O` record that keeps an unlinked file until all sessions were asked whether they have it open.
pub const UNASKED_SESSIONS: SessionId = SessionId(0);

/// `M ino session`: this session has a write lease of the file and writes its objects; it is the authority for size, mtime and
/// presence, together with other sessions if the lease is concurrent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WriteLease {
    pub since: Timestamp,
    pub mode: WriteLeaseMode,
}

/// The modes EX and CW of a distributed lock manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WriteLeaseMode {
    /// No other session writes the file.
    Exclusive,
    /// Other sessions with such a lease may write the file, too.
    Concurrent,
}

/// `L ino`: it is not known which objects of the file survive a power loss; a background task confirms them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unconfirmed {
    pub since: Timestamp,
}

/// `Y ino`: the file has members of mirrored stripes that are stale; a background task brings them up to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StaleMembers {
    pub since: Timestamp,
}

impl_record_v1!(SessionRecord, Orphan, Unconfirmed, StaleMembers);

const WRITE_LEASE_VERSION: u8 = 2;

/// `M` when every lease was exclusive.
#[derive(Serialize, Deserialize)]
struct WriteLeaseV1 {
    since: Timestamp,
}

impl Record for WriteLease {
    fn encode(&self) -> Bytes {
        encode_body(WRITE_LEASE_VERSION, self)
    }

    fn decode(value: &Bytes) -> Result<WriteLease, RecordDecodeError> {
        if value.first() != Some(&V1) {
            return decode_body(WRITE_LEASE_VERSION, value);
        }
        let old: WriteLeaseV1 = decode_body(V1, value)?;
        Ok(WriteLease {
            since: old.since,
            mode: WriteLeaseMode::Exclusive,
        })
    }
}

const REPLY_VERSION: u8 = 2;

/// `R` before it had the number of its batch.
#[derive(Serialize, Deserialize)]
struct ReplyV1 {
    sequence: u64,
    digest: u64,
    summary: ReplySummary,
}

impl Record for StoredReply {
    fn encode(&self) -> Bytes {
        encode_body(REPLY_VERSION, self)
    }

    fn decode(value: &Bytes) -> Result<StoredReply, RecordDecodeError> {
        if value.first() != Some(&V1) {
            return decode_body(REPLY_VERSION, value);
        }
        let old: ReplyV1 = decode_body(V1, value)?;
        Ok(StoredReply {
            sequence: old.sequence,
            digest: old.digest,
            summary: old.summary,
            // Written before this program started: it is durable.
            seq: Seq(0),
        })
    }
}
