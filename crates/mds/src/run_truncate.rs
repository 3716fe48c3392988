//! Runs a pending truncate: the OSTs truncate the objects, then the file's record says that it is done.

use crate::core::Core;
use crate::join;
use crate::limits::OST_CALLS;
use crate::osts::unexpected_reply;
use crate::pending_truncates::PendingTruncate;
use crate::waits::{RequestOrigin, WaitReason};
use gupfs_namespace::BackgroundOp;
use gupfs_proto::data::{DataOp, DataReplyBody, ObjectStat};
use gupfs_proto::{FsError, ObjectId, OstId, WriteVerifier};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

impl Core {
    /// Returns when the truncate is done, by this call or another. Boxed because it drives the state machine, which may need a
    /// truncate.
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
            self.durable(origin, truncate.seq).await?;
            // The objects before the record: were the record durable and the objects not truncated, the removed bytes would show
            // again when the file grows. If an OST loses power in between, the loop truncates again.
            let blocks = loop {
                let (blocks, verifiers) = self.truncate_objects(&truncate).await?;
                let objects = truncate
                    .objects
                    .iter()
                    .map(|(ost, object, _)| (*ost, *object));
                let synced_under = self.sync_objects(objects).await?;
                if verifiers
                    .iter()
                    .all(|(ost, verifier)| synced_under.get(ost) == Some(verifier))
                {
                    break blocks;
                }
            };
            let id = truncate.id;
            let seq = self
                .background_op(&BackgroundOp::TruncateDone { id, blocks })
                .await?;
            *done = true;
            if self.keeps_sessions {
                // A start after a power loss would truncate again, and remove what a surviving client has written since.
                return self.durable(origin, seq).await;
            }
            self.committed(origin, seq).await
        })
    }

    /// Truncates every object, a few at a time; returns the blocks that all objects keep, and the write verifier of each OST at
    /// that time.
    async fn truncate_objects(
        &self,
        truncate: &PendingTruncate,
    ) -> Result<(u64, Vec<(OstId, WriteVerifier)>), FsError> {
        let calls = truncate
            .objects
            .iter()
            .map(|(ost, object, to)| self.truncate_object(*ost, *object, *to));
        let (mut blocks, mut verifiers) = (0, Vec::new());
        for (truncate, done) in truncate
            .objects
            .iter()
            .zip(join::all(calls.collect(), OST_CALLS).await)
        {
            let (stat, verifier) = done?;
            blocks += stat.blocks;
            verifiers.push((truncate.0, verifier));
        }
        Ok((blocks, verifiers))
    }

    async fn truncate_object(
        &self,
        ost: OstId,
        object: ObjectId,
        to: u64,
    ) -> Result<(ObjectStat, WriteVerifier), FsError> {
        match self
            .targets
            .call(ost, DataOp::Truncate { object, to })
            .await?
        {
            DataReplyBody::Written(stat, verifier) => Ok((stat, verifier)),
            other => Err(unexpected_reply(ost, &other)),
        }
    }

    /// Syncs the objects with one request per OST. What was done to them under the returned write verifiers survives a power
    /// loss.
    pub async fn sync_objects(
        &self,
        objects: impl Iterator<Item = (OstId, ObjectId)>,
    ) -> Result<BTreeMap<OstId, WriteVerifier>, FsError> {
        let mut by_ost: BTreeMap<OstId, Vec<ObjectId>> = BTreeMap::new();
        for (ost, object) in objects {
            by_ost.entry(ost).or_default().push(object);
        }
        let syncs = by_ost.into_iter().map(|(ost, objects)| async move {
            match self.targets.call(ost, DataOp::Sync { objects }).await? {
                DataReplyBody::DoneWithVerifier(verifier) => Ok((ost, verifier)),
                other => Err(unexpected_reply(ost, &other)),
            }
        });
        let synced = join::all(syncs.collect(), OST_CALLS).await;
        synced.into_iter().collect()
    }
}
