//! Another server that may own the metadata instead of this one.

use futures_util::future::BoxFuture;

/// What a server asks whose disk has only its reserve left, before it refuses programs what makes the metadata grow.
pub trait Successor: Send + Sync + 'static {
    /// Has a server own the metadata whose disk has room; false if there is none. After true this server is stopped within moments.
    fn replace_full_owner(&self) -> BoxFuture<'_, bool>;
}
