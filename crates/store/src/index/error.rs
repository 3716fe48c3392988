//! Why the index does not serve.

#[derive(Clone, Debug, thiserror::Error)]
pub enum IndexError {
    /// The engine failed, or what it keeps does not read back. Everything behind `persist` may be wrong.
    #[error("the index failed: {0}")]
    Engine(String),

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
