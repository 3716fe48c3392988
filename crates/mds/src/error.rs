//! Reasons for which the metadata server does not start.

use gupfs_proto::FsError;
use gupfs_store::kv::KvError;

#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// A newer program wrote the store, or the store is no metadata store.
    #[error("the metadata store cannot be served: {0}")]
    Format(String),
    /// The store belongs to another cluster than the one that the configuration names.
    #[error("the metadata store belongs to cluster {found}, not to {wanted}")]
    Foreign { found: String, wanted: String },
    /// A target has served a later state of this store.
    #[error("{0}")]
    StoreOutdated(String),
    #[error("the metadata store failed")]
    Store(#[from] KvError),
    /// Recovery could not finish the work that earlier starts left.
    #[error("recovery stopped")]
    Recovery(#[source] FsError),
}
