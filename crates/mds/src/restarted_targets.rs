//! Targets that were opened again, and may have lost bytes that were not synced: their members of mirrored stripes are stale.

use crate::glimpse::LeaseCallbacks;
use crate::join;
use crate::limits::{OST_CALLS, REVOKE_TRIES, SCAN_STEP};
use crate::mirrors::MirrorKeeper;
use crate::origin::RequestOrigin;
use crate::store::MetadataStore;
use crate::write_leases::LeaseContext;
use gupfs_namespace::{KeyRange, LeaseCallback, ParsedKey, RecordKey, RecordKind};
use gupfs_proto::{FsError, InodeId, Layout, OstId, Presence};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The sessions with write leases of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseHolders {
    AreAsked,
    AreNotThere,
}

/// Leaves out the members on restarted targets.
pub struct RestartedTargets {
    store: Arc<MetadataStore>,
    keeper: Arc<MirrorKeeper>,
    lease_callbacks: Arc<LeaseCallbacks>,
}

impl RestartedTargets {
    pub fn new(
        store: Arc<MetadataStore>,
        keeper: Arc<MirrorKeeper>,
        lease_callbacks: Arc<LeaseCallbacks>,
    ) -> RestartedTargets {
        RestartedTargets {
            store,
            keeper,
            lease_callbacks,
        }
    }

    /// A target was opened again: it may have lost bytes that were not synced. When this returns, its members of files that sessions write, or
    /// whose objects are not confirmed, are stale, and no session has a layout in which they are not. Until then the target does not serve.
    ///
    /// # Errors
    /// Of the store. The target's server reports again.
    pub async fn leave_out_target(&self, ost: OstId) -> Result<(), FsError> {
        self.leave_out(ost, LeaseHolders::AreAsked).await
    }

    /// The same for a target of this process, at its start: no session is there yet, and none is asked.
    ///
    /// # Errors
    /// Of the store.
    pub async fn leave_out_local_target(&self, ost: OstId) -> Result<(), FsError> {
        self.leave_out(ost, LeaseHolders::AreNotThere).await
    }

    async fn leave_out(&self, ost: OstId, holders: LeaseHolders) -> Result<(), FsError> {
        let mut files = BTreeSet::new();
        for shard in self.store.all_shards() {
            for kind in [RecordKind::WriteLease, RecordKind::Unconfirmed] {
                let range = KeyRange::of_kind(shard, kind);
                let add = |key: &RecordKey, _: &_| {
                    if let Some(ParsedKey::WriteLease { ino, .. } | ParsedKey::Unconfirmed(ino)) =
                        key.parse()
                    {
                        files.insert(ino);
                    }
                    Ok(())
                };
                self.store.each_record(range, add).await?;
            }
        }
        let files: Vec<InodeId> = files.into_iter().collect();
        for some in files.chunks(SCAN_STEP) {
            let running = some
                .iter()
                .map(|ino| self.leave_out_of_file(*ino, ost, holders));
            let results = join::all(running.collect(), OST_CALLS).await;
            results.into_iter().collect::<Result<(), FsError>>()?;
        }
        Ok(())
    }

    async fn leave_out_of_file(
        &self,
        ino: InodeId,
        ost: OstId,
        holders: LeaseHolders,
    ) -> Result<(), FsError> {
        let is_member = |layout: &Layout| {
            let mut components = layout.components.iter();
            components.any(|component| component.is_mirrored() && component.targets.contains(&ost))
        };
        let Some(layout) = self.keeper.layout(ino).await? else {
            return Ok(());
        };
        if !is_member(&layout) {
            return Ok(());
        }
        // A session that writes the file knows the members from when it got its lease. The next one gets a layout without this target, which
        // does not serve now.
        if holders == LeaseHolders::AreAsked {
            self.revoke_write_leases(ino).await?;
        }
        let Some(layout) = self.keeper.layout(ino).await? else {
            return Ok(());
        };
        let stale = layout
            .objects(ino)
            .filter(|(component, index, on, _, presence)| {
                let component = &layout.components[*component];
                let mut others = component.full_members(component.stripe_of(*index));
                *on == ost
                    && component.is_mirrored()
                    && !matches!(presence, Presence::Stale | Presence::Never)
                    && others.any(|other| other != *index)
            });
        let objects: Vec<(u32, u32)> = stale
            .map(|(component, index, ..)| (component as u32, index as u32))
            .collect();
        self.keeper.mark_stale(ino, objects).await
    }

    /// Has sessions release their write leases of a file. One that does not, because it cannot reach a target, finds out by itself which members
    /// it misses; so does the server when the session has ended.
    async fn revoke_write_leases(&self, ino: InodeId) -> Result<(), FsError> {
        let origin = RequestOrigin::server("leave out a target");
        let mut context = LeaseContext::default();
        // The first round only enters the queue.
        for _ in 0..=REVOKE_TRIES {
            let range = KeyRange::write_leases(ino);
            if self.store.scan_now(&range, 1).await?.is_empty() {
                return Ok(());
            }
            let callback = LeaseCallback::Revoke;
            let callbacks = &self.lease_callbacks;
            let revoked = Box::pin(callbacks.call_holders(&mut context, origin, ino, callback));
            match revoked.await {
                Ok(()) => {}
                Err(error @ FsError::StoreFailed(_)) => return Err(error),
                Err(error) => {
                    tracing::warn!(%ino, %error, "a session keeps the write lease of a file with a member on a restarted target");
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
