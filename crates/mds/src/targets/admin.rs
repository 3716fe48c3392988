//! The admin side of targets of this process: asked and told without messages.

use gupfs_proto::OwnerEpoch;
use gupfs_proto::cluster::{Holdings, OwnerMark, TargetIdentity};
use gupfs_store::object::Objects;
use std::pin::Pin;

pub type Told<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// What the metadata server asks and tells a target about itself. A failure is said in words.
pub trait Admin: Send + Sync + 'static {
    fn identity(&self) -> TargetIdentity;

    /// It writes itself and this owner down, and serves.
    fn adopt(&self, owner: OwnerMark) -> Told<'_, ()>;

    /// What owners after `since` have made.
    fn holdings(&self, since: OwnerEpoch) -> Told<'_, Holdings>;
}

impl Admin for Objects {
    fn identity(&self) -> TargetIdentity {
        Objects::identity(self)
    }

    fn adopt(&self, owner: OwnerMark) -> Told<'_, ()> {
        Box::pin(async move {
            let adopted = Objects::adopt(self, owner).await;
            adopted.map_err(|refusal| refusal.to_string())
        })
    }

    fn holdings(&self, since: OwnerEpoch) -> Told<'_, Holdings> {
        Box::pin(async move {
            let held = Objects::holdings(self, since).await;
            held.map_err(|refusal| refusal.to_string())
        })
    }
}
