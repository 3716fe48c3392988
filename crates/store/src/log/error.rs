//! Errors of the log.

use super::position::LogPosition;
use gupfs_platform::DiskError;
use gupfs_proto::{OwnerEpoch, Seq};

/// The log refused a batch because no record can hold it. Nothing of the batch was staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a batch of {bytes} bytes exceeds the largest record, {most} bytes; the caller must keep its batches below that limit: this is a bug in gupfs"
)]
pub struct BatchTooLarge {
    pub bytes: usize,
    pub most: usize,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed. The log closed itself and stays closed until it is opened again, because the content of the
    /// disk is unknown until then.
    #[error("the disk of the log failed; the log is closed until the store is started again")]
    Disk(#[from] DiskError),

    /// A batch that was durable does not verify. The log serves nothing, because the batches after the damage cannot be
    /// trusted.
    #[error(
        "the log is damaged: batch {seq} does not verify (segment {segment}, offset {offset}), although the log was durable up to batch {durable}; \
         restore this store from its replica or a backup"
    )]
    Damage {
        segment: String,
        offset: u64,
        seq: Seq,
        durable: Seq,
    },

    /// The index needs older batches than the oldest segment has.
    #[error(
        "the log begins at batch {first}, but the index has batches only up to {applied}: the segments between them are missing"
    )]
    Gap { first: Seq, applied: Seq },

    #[error("the index has batches up to {applied}, but the log's directory has no log")]
    NoLog { applied: Seq },

    #[error("segment {segment} belongs to the log of another store")]
    OtherStore { segment: String },

    #[error(
        "segment {segment} of the log has format version {version}, which this gupfs does not know: start the newer gupfs"
    )]
    UnknownVersion { segment: String, version: u16 },

    #[error(
        "the owner epoch {given} is not after the log's epoch {found}: a newer owner has written this log since, or that of another shard group"
    )]
    StaleEpoch {
        given: OwnerEpoch,
        found: OwnerEpoch,
    },

    /// The disk has no space for the next segment. `Headroom` warned the owner before. After the administrator has
    /// freed space, the owner must be started again.
    #[error(
        "the log is full: the disk has no space for its next segment; free space and start the store again"
    )]
    DiskFull,

    #[error("the log has been stopped")]
    Stopped,

    /// The owner may acknowledge nothing more: a copy that counts neither took the records nor could be struck from those that count.
    #[error("the copies of the log do not follow: {0}")]
    Copies(String),

    /// The log has no such position: its records are others than those of the copy that was asked for it.
    #[error("the log has no record that ends at batch {} with checksum {:08x}", .0.last, .0.crc)]
    NoSuchPosition(LogPosition),

    /// A layer above the log failed (the index), so the log must not acknowledge anything more.
    #[error("the log was closed because of another failure: {0}")]
    Aborted(String),
}

/// The reason why a copy does not append records.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Log(#[from] LogError),

    /// They do not begin where the copy ends, and do not contain that place.
    #[error("the records do not continue the copy, which ends at batch {}", .has.last)]
    NotContinuous { has: LogPosition },

    #[error("owner {given} sends records, and the copy obeys owner {known}")]
    FormerOwner {
        given: OwnerEpoch,
        known: OwnerEpoch,
    },

    /// A record does not verify, or does not continue the one before it.
    #[error("the records are damaged after batch {}", .after.last)]
    Malformed { after: LogPosition },
}
