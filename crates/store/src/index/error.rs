//! Why the index does not serve.

use gupfs_platform::panics::CaughtPanic;

#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexError {
    /// The engine failed, or what it keeps does not read back. Everything behind `persist` may be wrong.
    #[error("the index failed: {0}")]
    Engine(String),

    /// Its files are not what was written. Nothing of it is served any more.
    #[error("the index is damaged: {0}")]
    Damaged(String),

    #[error("the index belongs to another store")]
    Foreign,

    #[error(
        "the index has format version {found}; this program knows up to {known}: start the newer program"
    )]
    Version { found: u32, known: u32 },
}

impl From<::fjall::Error> for IndexError {
    fn from(error: ::fjall::Error) -> IndexError {
        IndexError::Engine(error.to_string())
    }
}

/// The engine panics where a file is not what it wrote.
impl From<CaughtPanic> for IndexError {
    fn from(panic: CaughtPanic) -> IndexError {
        IndexError::Damaged(format!("its engine stopped: {panic}"))
    }
}
