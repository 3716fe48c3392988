//! Errors of the index.

use gupfs_platform::panics::CaughtPanic;

#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexError {
    /// The engine failed, or cannot read its data. Everything after the last `persist` may be wrong.
    #[error("the index failed: {0}")]
    Engine(String),

    /// The index's files differ from what was written. The index serves nothing any more.
    #[error("the index is damaged: {0}")]
    Damaged(String),

    #[error("the index belongs to another store")]
    OtherStore,

    #[error(
        "the index has format version {found}, and this gupfs knows versions up to {known}: start the newer gupfs"
    )]
    UnknownVersion { found: u32, known: u32 },
}

impl From<::fjall::Error> for IndexError {
    fn from(error: ::fjall::Error) -> IndexError {
        IndexError::Engine(error.to_string())
    }
}

/// The engine panics if a file is not what it wrote.
impl From<CaughtPanic> for IndexError {
    fn from(panic: CaughtPanic) -> IndexError {
        IndexError::Damaged(format!("its engine stopped: {panic}"))
    }
}
