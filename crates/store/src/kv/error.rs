//! Errors of the store.

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

    /// The record's checksum is correct, so this is a bug in gupfs and no disk error.
    #[error(
        "batch {seq} in the log verifies, but is not a batch of this format: this is a bug in gupfs"
    )]
    Malformed { seq: gupfs_proto::Seq },
}
