//! Why the store does not serve.

use crate::index::IndexError;
use crate::log::{BatchTooLarge, LogError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum KvError {
    #[error(transparent)]
    Log(#[from] LogError),

    #[error(transparent)]
    Index(#[from] IndexError),

    #[error(transparent)]
    TooLarge(#[from] BatchTooLarge),

    /// The log's checksum is right, so this is a mistake of ours, not of the disk.
    #[error("batch {seq} in the log is not a batch of this format")]
    Malformed { seq: gupfs_proto::Seq },
}
