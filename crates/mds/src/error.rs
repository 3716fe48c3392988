//! Why the metadata server does not start.

use gupfs_proto::Refusal;
use gupfs_store::kv::KvError;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// The store was written by a program that knew more, or is no metadata store.
    #[error("the metadata store cannot be served: {0}")]
    Format(String),
    /// The store belongs to another cluster than the one asked for.
    #[error("the metadata store belongs to cluster {found}, not to {wanted}")]
    Foreign { found: String, wanted: String },
    /// Targets have served a later state of it.
    #[error("{0}")]
    Restored(String),
    #[error("the metadata store failed")]
    Store(#[from] KvError),
    /// What was there before could not be settled.
    #[error("recovery stopped")]
    Recovery(#[source] Refusal),
}
