//! Why a host cannot be a copy, or the owner.

use crate::register::RegisterError;
use gupfs_proto::{ClusterId, OwnerEpoch};
use gupfs_store::kv::KvError;

#[derive(Debug, thiserror::Error)]
pub enum CopiesError {
    #[error("the register of the arbiter cannot be used")]
    Register(#[from] RegisterError),
    #[error(
        "the register of the arbiter belongs to {found:?}, and this directory to {wanted:?}: name another prefix for each cluster"
    )]
    OtherCluster { found: ClusterId, wanted: ClusterId },
    #[error(
        "the register of the arbiter belongs to another metadata store of this cluster: the directory is not a copy of it"
    )]
    OtherStore,
    /// The arbiter's data was restored from a backup, or is another one's.
    #[error(
        "the arbiter names owner {register}, and this copy has records of owner {seen}: the arbiter lost changes. Stop all copies, remove the register, and start the copy first that was the owner"
    )]
    ArbiterOlder {
        register: OwnerEpoch,
        seen: OwnerEpoch,
    },
    #[error("the arbiter has no register for this cluster: start the first metadata server")]
    NoCluster,
    /// Its directory was copied.
    #[error(
        "another process is this copy, at {address}: the directory was copied. Stop one of them, and make a new copy from an empty directory"
    )]
    SameIdentity { address: String },
    #[error("this copy was removed from the copies of the metadata")]
    Removed,
    #[error("a cluster has at most {0} copies of its metadata; remove one first")]
    TooManyCopies(usize),
    #[error("the metadata cannot be opened")]
    Store(#[from] KvError),
    /// The copy was open, and its log or index failed: its disk fails or is full. A process that opens it again can be brought up to date.
    #[error("this copy of the metadata has failed")]
    Failed(#[source] KvError),
    #[error("{0}")]
    Files(String),
    /// An administrator asked for something that is not possible.
    #[error("{0}")]
    NotPossible(String),
    /// Another host owns the metadata now.
    #[error("{0}")]
    Deposed(String),
}
