//! # shard_driver: applies operations to the state machine and stages their batches
//!
//! Owns   the one place where records change: apply under the shard's lock, fetch missing records, apply again, stage.
//! Never  waits for an OST, or for a session but to have leases on metadata revoked: an operation that needs more is `OperationDriver`'s
//!        (drive.rs).
//! Enter  at `ShardDriver::background_op` for the server's own operations, at `ShardDriver::attempt`.

mod applied;
mod attempt;
mod closed_keys;
mod interests;
mod lease_grants;
mod requester;
mod scans;
mod stage;
mod view;

#[cfg(test)]
mod tests;

pub use applied::{AppliedOp, Attempt, ReplyLeases};
pub use closed_keys::ClosedLeaseKeys;
pub use requester::{ReplayContext, Requester};
pub use scans::ScanCache;

use crate::limits::ROUNDS_MAX;
use crate::metadata_leases::LeaseService;
use crate::origin::RequestOrigin;
use crate::pending_work::{
    ConfirmProgress, PendingTruncates, PurgeQueue, RemovedFiles, ResyncProgress,
};
use crate::reserve::MetadataReserve;
use crate::session_registry::SessionRegistry;
use crate::shard::Shard;
use crate::store::MetadataStore;
use crate::write_leases::{LeaseContext, WriteLeases};
use bytes::Bytes;
use gupfs_namespace::leases::LeaseConflicts;
use gupfs_namespace::rights::OpenRights;
use gupfs_namespace::{BackgroundOp, Operation, Prerequisite, RecordKey};
use gupfs_proto::{Caller, FsError, OwnerEpoch, Seq, SessionId, VirtualShard, VirtualShards};
use gupfs_store::kv::Kv;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use view::StoreView;

/// A record that an operation depends on: the operation is not done if the record has changed.
pub type ExpectedRecord = (RecordKey, Bytes);

pub struct ShardDriver {
    kv: Arc<Kv>,
    store: Arc<MetadataStore>,
    shard: Arc<Mutex<Shard>>,
    registry: Arc<SessionRegistry>,
    leases: Arc<WriteLeases>,
    pending_truncates: Arc<PendingTruncates>,
    purge_queue: Arc<PurgeQueue>,
    removed_files: Arc<RemovedFiles>,
    confirm: Arc<ConfirmProgress>,
    resync: Arc<ResyncProgress>,
    reserve: Arc<MetadataReserve>,
    lease_service: Arc<LeaseService>,
    shards: VirtualShards,
    owner_epoch: OwnerEpoch,
    /// New sessions get numbers above these.
    sessions_skipped: u64,
    /// Sessions outlive the server.
    keeps_sessions: bool,
    /// The credentials of the background tasks.
    root: Caller,
}

/// What `ShardDriver` uses of the server.
pub struct ShardDriverParts {
    pub kv: Arc<Kv>,
    pub store: Arc<MetadataStore>,
    pub shard: Arc<Mutex<Shard>>,
    pub registry: Arc<SessionRegistry>,
    pub leases: Arc<WriteLeases>,
    pub pending_truncates: Arc<PendingTruncates>,
    pub purge_queue: Arc<PurgeQueue>,
    pub removed_files: Arc<RemovedFiles>,
    pub confirm: Arc<ConfirmProgress>,
    pub resync: Arc<ResyncProgress>,
    pub reserve: Arc<MetadataReserve>,
    pub lease_service: Arc<LeaseService>,
    pub shards: VirtualShards,
    pub owner_epoch: OwnerEpoch,
    pub sessions_skipped: u64,
    pub keeps_sessions: bool,
    pub root: Caller,
}

impl ShardDriver {
    pub fn new(parts: ShardDriverParts) -> ShardDriver {
        ShardDriver {
            kv: parts.kv,
            store: parts.store,
            shard: parts.shard,
            registry: parts.registry,
            leases: parts.leases,
            pending_truncates: parts.pending_truncates,
            purge_queue: parts.purge_queue,
            removed_files: parts.removed_files,
            confirm: parts.confirm,
            resync: parts.resync,
            reserve: parts.reserve,
            lease_service: parts.lease_service,
            shards: parts.shards,
            owner_epoch: parts.owner_epoch,
            sessions_skipped: parts.sessions_skipped,
            keeps_sessions: parts.keeps_sessions,
            root: parts.root,
        }
    }

    /// Applies an operation of the server itself and stages its batch, or its batches if it has more to do than one batch holds.
    /// Such an operation needs records and nothing else.
    ///
    /// # Errors
    /// The reason why it could not be applied; the operation's own error is in `AppliedOp::result`.
    pub async fn apply(
        &self,
        requester: Requester<'_>,
        op: Operation<'_>,
    ) -> Result<AppliedOp, FsError> {
        match self.apply_expecting(requester, op, None).await? {
            Some(applied) => Ok(applied),
            None => unreachable!("no record was expected"),
        }
    }

    /// Applies a background operation, but returns None and does nothing if the expected record differs at that moment.
    pub async fn apply_if_unchanged(
        &self,
        op: &BackgroundOp,
        expected: Option<&ExpectedRecord>,
    ) -> Result<Option<AppliedOp>, FsError> {
        let requester = self.server_requester();
        self.apply_expecting(requester, Operation::Background(op), expected)
            .await
    }

    /// One step of a background task, staged and not committed.
    pub async fn background_op(&self, op: &BackgroundOp) -> Result<Seq, FsError> {
        self.background_op_for(None, op).await
    }

    /// As `background_op`, for a request of this session that has no reply yet.
    pub async fn background_op_for(
        &self,
        session: Option<SessionId>,
        op: &BackgroundOp,
    ) -> Result<Seq, FsError> {
        let requester = Requester {
            on_behalf_of: session,
            ..self.server_requester()
        };
        let applied = self.apply(requester, Operation::Background(op)).await?;
        applied.result.map(|_| applied.seq)
    }

    /// The server itself as a requester.
    pub fn server_requester(&self) -> Requester<'_> {
        Requester {
            origin: RequestOrigin::server("background task"),
            is_server: true,
            on_behalf_of: None,
            slot_seq: None,
            caller: &self.root,
            opens: OpenRights::NONE,
            replay: None,
        }
    }

    async fn apply_expecting(
        &self,
        requester: Requester<'_>,
        op: Operation<'_>,
        expected: Option<&ExpectedRecord>,
    ) -> Result<Option<AppliedOp>, FsError> {
        let no_leases = LeaseContext::default();
        let mut closed = self.closed_lease_keys();
        let mut scanned = self.begin_scans();
        let mut rounds = 0;
        while rounds < ROUNDS_MAX {
            rounds += 1;
            match self.attempt(requester, op, expected, &scanned, &no_leases, &mut closed)? {
                Attempt::Done(applied) if applied.has_more_batches => {
                    // It has made progress, and its scans are not the newest state any more.
                    (rounds, scanned) = (0, self.begin_scans());
                    self.store.wait_index_caught_up(requester.origin).await?;
                }
                Attempt::Done(applied) => return Ok(Some(applied)),
                Attempt::RecordChanged => return Ok(None),
                Attempt::Need(Prerequisite::Keys(keys), _) => {
                    self.store.fetch_all(requester.origin, keys).await?
                }
                Attempt::Need(Prerequisite::Scan { range, limit }, _) => {
                    scanned.read(requester.origin, range, limit).await?
                }
                Attempt::Revoke(conflicts) => {
                    self.revoke_leases(requester.origin, conflicts).await?
                }
                Attempt::Need(other, _) => {
                    unreachable!("an operation of the server needs {other:?}")
                }
            }
        }
        Err(FsError::Overloaded)
    }

    /// The keys that one operation has closed to grants: none so far.
    pub fn closed_lease_keys(&self) -> ClosedLeaseKeys<'_> {
        ClosedLeaseKeys::new(&self.shard)
    }

    /// Has sessions give up the leases that an attempt found in its way.
    pub async fn revoke_leases(
        &self,
        origin: RequestOrigin,
        conflicts: LeaseConflicts,
    ) -> Result<(), FsError> {
        // Boxed because it is rare, and its future is larger than its callers.
        Box::pin(self.lease_service.revoke(origin, conflicts)).await
    }

    /// The scans of one operation: none so far.
    pub fn begin_scans(&self) -> ScanCache<'_> {
        ScanCache::new(&self.store, &self.shard)
    }

    /// How many blocks of inode numbers this shard was given.
    pub fn blocks_given(&self, shard: VirtualShard) -> u64 {
        self.shard.lock().blocks_given(shard)
    }

    /// The inode numbers of this block may be used: their reservation is durable.
    pub fn give_block(&self, shard: VirtualShard, counters: Range<u64>) {
        self.shard.lock().give_block(shard, counters);
    }
}
