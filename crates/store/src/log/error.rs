//! Why the log does not serve.

use gupfs_platform::DiskError;
use gupfs_proto::{OwnerEpoch, Seq};

/// A batch was refused because no record could hold it; nothing of it was staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a batch of {bytes} bytes exceeds what one record may hold, {most} bytes: whoever makes batches has a limit below; this is a bug"
)]
pub struct BatchTooLarge {
    pub bytes: usize,
    pub most: usize,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed; the log closed itself and stays closed: what is on it is unknown until it is opened again.
    #[error("the log failed and is closed")]
    Disk(#[from] DiskError),

    /// What was durable does not read back. Nothing is served: what follows cannot be trusted.
    #[error(
        "the log is damaged: batch {seq} does not verify (segment {segment}, offset {offset}), yet the log up to batch {durable} had been durable; \
         restore this store from its replica or a backup"
    )]
    Damage {
        segment: String,
        offset: u64,
        seq: Seq,
        durable: Seq,
    },

    /// Older segments than the index needs are gone.
    #[error(
        "the log begins at batch {first}, but the index knows batches only up to {applied}: segments between them are missing"
    )]
    Gap { first: Seq, applied: Seq },

    #[error("the index knows batches up to {applied}, but there is no log")]
    Missing { applied: Seq },

    #[error("the log in segment {segment} belongs to another store")]
    Foreign { segment: String },

    #[error(
        "the log in segment {segment} has format version {version}, which this program does not know: start the newer program"
    )]
    Version { segment: String, version: u16 },

    #[error(
        "this owner's epoch {given} is older than the log's {found}: another owner has served since"
    )]
    Deposed {
        given: OwnerEpoch,
        found: OwnerEpoch,
    },

    /// No space for the next segment. The owner saw it come (`Headroom`); after making space, start again.
    #[error("the log is full: the disk has no space for its next segment")]
    Full,

    #[error("the log has been stopped")]
    Stopped,

    /// Somebody above failed (the index), and nothing more may be promised.
    #[error("the log was closed because of another failure: {0}")]
    Abandoned(String),
}
