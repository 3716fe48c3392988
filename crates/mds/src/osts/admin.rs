//! The admin interface of local targets: the metadata server calls it without messages.

use gupfs_proto::OwnerEpoch;
use gupfs_proto::cluster::{ObjectInventory, OwnerMark, TargetIdentity};
use gupfs_store::object::Objects;
use std::pin::Pin;

pub type AdminFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// What the metadata server calls to learn about a target and to adopt it. Errors are texts.
pub trait TargetAdmin: Send + Sync + 'static {
    fn identity(&self) -> TargetIdentity;

    /// The target writes its open instance and this owner down, and serves.
    fn adopt(&self, owner: OwnerMark) -> AdminFuture<'_, ()>;

    /// The objects that owners after `since` have made.
    fn holdings(&self, since: OwnerEpoch) -> AdminFuture<'_, ObjectInventory>;
}

impl TargetAdmin for Objects {
    fn identity(&self) -> TargetIdentity {
        Objects::identity(self)
    }

    fn adopt(&self, owner: OwnerMark) -> AdminFuture<'_, ()> {
        Box::pin(async move {
            let adopted = Objects::adopt(self, owner).await;
            adopted.map_err(|error| error.to_string())
        })
    }

    fn holdings(&self, since: OwnerEpoch) -> AdminFuture<'_, ObjectInventory> {
        Box::pin(async move {
            let holdings = Objects::inventory(self, since).await;
            holdings.map_err(|error| error.to_string())
        })
    }
}
