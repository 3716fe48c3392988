//! Runs a pending truncate: the OSTs truncate the objects, then the file's record says that it is done.

use crate::join;
use crate::limits::OST_CALLS;
use crate::mirrors::{FailedMembers, MirrorKeeper};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{PendingTruncate, PendingTruncates};
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use crate::waits::{WaitList, WaitReason};
use gupfs_namespace::{
    BackgroundOp, KeyRange, ParsedKey, Purge, PurgeAction, PurgeId, Record, RecordKind,
};
use gupfs_proto::{FsError, ObjectId, OstId, WriteVerifier};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

pub struct TruncateRunner {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    targets: Arc<Targets>,
    mirrors: Arc<MirrorKeeper>,
    waits: Arc<WaitList>,
    pending: Arc<PendingTruncates>,
    /// Sessions outlive the server.
    keeps_sessions: bool,
}

impl TruncateRunner {
    pub fn new(
        store: Arc<MetadataStore>,
        driver: Arc<ShardDriver>,
        targets: Arc<Targets>,
        mirrors: Arc<MirrorKeeper>,
        waits: Arc<WaitList>,
        pending: Arc<PendingTruncates>,
        keeps_sessions: bool,
    ) -> TruncateRunner {
        TruncateRunner {
            store,
            driver,
            targets,
            mirrors,
            waits,
            pending,
            keeps_sessions,
        }
    }

    /// Waits until this truncate is done. If it is not listed, it was done just now.
    pub async fn await_truncate(&self, origin: RequestOrigin, id: PurgeId) -> Result<(), FsError> {
        match self.pending.get(id) {
            Some(truncate) => self.run_truncate(origin, truncate).await,
            None => Ok(()),
        }
    }

    /// Returns when the truncate is done, by this call or another. Boxed because it is rare,
    /// and its future is large.
    ///
    /// # Errors
    /// The error of an OST. The truncate stays pending: the next operation that needs it, and the background task, try again.
    pub fn run_truncate(
        &self,
        origin: RequestOrigin,
        truncate: Arc<PendingTruncate>,
    ) -> Pin<Box<dyn Future<Output = Result<(), FsError>> + Send + '_>> {
        Box::pin(async move {
            let lock = self.waits.wait(
                origin,
                WaitReason::Truncate(truncate.id.ino),
                truncate.done.lock(),
            );
            let mut done = lock.await?;
            if *done {
                return Ok(());
            }
            // Promise first: were the bytes gone and the promise not durable, a power loss would leave a file of its
            // old size that has lost its end.
            self.store.durable(origin, truncate.seq).await?;
            // The objects before the record: were the record durable and the objects not truncated, the removed bytes would show
            // again when the file grows. If an OST loses power in between, the loop truncates again.
            let mut failed = FailedMembers::default();
            let blocks = loop {
                let objects = self.reachable_objects(&truncate, &failed).await?;
                let truncated = tokio::select! {
                    biased;
                    truncated = self.truncate_and_sync(&objects) => truncated,
                    // Its member is left out. What has been sent to it arrives before the fence of the resync, which waits for changes that are
                    // being executed, or never: both ends close a connection that is silent.
                    () = self.member_goes_down(&objects) => continue,
                };
                match truncated {
                    Ok(Some(blocks)) => break blocks,
                    Ok(None) => {}
                    // The target has gone down meanwhile or was declared lost, or it answers and cannot write; or the block at the object's new
                    // end is damaged. Another member is not.
                    Err(error) if failed.note(&error) => {
                        let others = self.reachable_objects(&truncate, &failed).await?;
                        if others.len() >= objects.len() {
                            return Err(error);
                        }
                    }
                    Err(error) => return Err(error),
                }
            };
            let id = truncate.id;
            let seq = self
                .driver
                .background_op_for(truncate.session, &BackgroundOp::TruncateDone { id, blocks })
                .await?;
            *done = true;
            if self.keeps_sessions {
                // A start after a power loss would truncate again, and remove what a surviving client has written since.
                return self.store.durable(origin, seq).await;
            }
            self.store.committed(origin, seq).await
        })
    }

    /// Lists every promised truncate and runs it; returns how many are done, and how many an OST or a session delays.
    pub async fn resume_truncates(&self) -> Result<(u64, u64), FsError> {
        self.list_truncates().await?;
        let (mut resumed, mut left) = (0, 0);
        for truncate in self.pending.all() {
            let objects = truncate.objects.iter().map(|(_, object, _)| *object);
            // A session cannot reconnect before the server has started.
            if (self.mirrors.has_sessions_to_tell(truncate.id.ino, objects)).await? {
                left += 1;
                continue;
            }
            match self
                .run_truncate(RequestOrigin::server("truncate"), truncate)
                .await
            {
                Ok(()) => resumed += 1,
                Err(error @ FsError::StoreFailed(_)) => return Err(error),
                Err(_) => left += 1,
            }
        }
        Ok((resumed, left))
    }

    /// Lists every promised truncate, and leaves it to the operations that need it and to the background task; returns how many there are.
    pub async fn list_truncates(&self) -> Result<u64, FsError> {
        let seq = self.store.last_seq();
        for shard in self.store.all_shards() {
            let range = KeyRange::of_kind(shard, RecordKind::Purge);
            self.store
                .each_record(range, |key, value| {
                    let Some(ParsedKey::Purge(id)) = key.parse() else {
                        return Err(damaged_record(key, "no key of a purge"));
                    };
                    let purge = Purge::decode(value).map_err(|error| damaged_record(key, error))?;
                    if matches!(purge.action, PurgeAction::Truncate { .. }) {
                        self.pending.add(id, seq, None, purge.objects(id));
                    }
                    Ok(())
                })
                .await?;
        }
        Ok(self.pending.len() as u64)
    }

    /// The objects to truncate, without those on lost targets, and without members of mirrored stripes whose targets are down or that have
    /// `failed`: these are stale.
    async fn reachable_objects(
        &self,
        truncate: &PendingTruncate,
        failed: &FailedMembers,
    ) -> Result<Vec<(OstId, ObjectId, u64)>, FsError> {
        let is_lost = |(ost, ..): &&(OstId, ObjectId, u64)| self.targets.is_lost(*ost);
        let objects = truncate.objects.iter().filter(|it| !is_lost(it));
        // Of a file without a second copy none can be left out, and its record need not be read.
        if (truncate.objects.iter()).all(|(_, object, _)| object.copy() == 0) {
            return Ok(objects.copied().collect());
        }
        let all = truncate.objects.iter().map(|(_, object, _)| *object);
        let ino = truncate.id.ino;
        let left_out = self.mirrors.leave_out_unreachable(ino, all, failed).await?;
        let is_reachable = |(_, object, _): &&(OstId, ObjectId, u64)| !left_out.contains(object);
        Ok(objects.filter(is_reachable).copied().collect())
    }

    /// Returns when a target of a member of a mirrored stripe is not up any more; never for a file without redundancy.
    async fn member_goes_down(&self, objects: &[(OstId, ObjectId, u64)]) {
        if objects.iter().all(|(_, object, _)| object.copy() == 0) {
            return std::future::pending().await;
        }
        let up = objects.iter().map(|(ost, ..)| *ost);
        let up = up.filter(|ost| self.targets.is_up(*ost)).collect();
        self.targets.wait_until_one_is_down(up).await
    }

    /// Truncates and syncs these objects; returns the blocks that all stripes keep. None if an OST was restarted in between.
    async fn truncate_and_sync(
        &self,
        objects: &[(OstId, ObjectId, u64)],
    ) -> Result<Option<u64>, FsError> {
        let (blocks, verifiers) = self.truncate_objects(objects).await?;
        let objects = objects.iter().map(|(ost, object, _)| (*ost, *object));
        let synced_under = self.targets.sync_objects(objects).await?;
        let mut verifiers = verifiers.iter();
        let is_synced = verifiers.all(|(ost, verifier)| synced_under.get(ost) == Some(verifier));
        Ok(is_synced.then_some(blocks))
    }

    /// Truncates these objects, a few at a time; returns the blocks that all stripes keep, and the write verifier of each OST at that time.
    async fn truncate_objects(
        &self,
        objects: &[(OstId, ObjectId, u64)],
    ) -> Result<(u64, Vec<(OstId, WriteVerifier)>), FsError> {
        let calls = objects
            .iter()
            .map(|(ost, object, to)| self.targets.truncate_object(*ost, *object, *to));
        let (mut blocks, mut verifiers) = (BTreeMap::new(), Vec::new());
        for ((ost, object, _), done) in
            (objects.iter()).zip(join::all(calls.collect(), OST_CALLS).await)
        {
            let (stat, verifier) = done?;
            // Members of one stripe count once.
            blocks.insert(object.first_copy(), stat.blocks);
            verifiers.push((*ost, verifier));
        }
        Ok((blocks.values().sum(), verifiers))
    }
}
