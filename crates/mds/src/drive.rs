//! Drives a client's operation through the state machine: apply, provide what it needs, apply again.

use crate::glimpse::LeaseCallbacks;
use crate::inode_numbers::InodeNumbers;
use crate::limits::ROUNDS_MAX;
use crate::origin::RequestOrigin;
use crate::shard_driver::{AppliedOp, Attempt, Requester, ShardDriver};
use crate::store::MetadataStore;
use crate::truncates::TruncateRunner;
use crate::write_leases::LeaseContext;
use gupfs_namespace::{Operation, Prerequisite};
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{FsError, InodeId, Seq, SessionId};
use std::sync::Arc;

pub struct OperationDriver {
    store: Arc<MetadataStore>,
    driver: Arc<ShardDriver>,
    numbers: Arc<InodeNumbers>,
    truncates: Arc<TruncateRunner>,
    lease_callbacks: Arc<LeaseCallbacks>,
}

impl OperationDriver {
    pub fn new(
        store: Arc<MetadataStore>,
        driver: Arc<ShardDriver>,
        numbers: Arc<InodeNumbers>,
        truncates: Arc<TruncateRunner>,
        lease_callbacks: Arc<LeaseCallbacks>,
    ) -> OperationDriver {
        OperationDriver {
            store,
            driver,
            numbers,
            truncates,
            lease_callbacks,
        }
    }

    /// See `ShardDriver::lease_truncated`.
    pub fn lease_truncated(&self, session: SessionId, applied: &mut AppliedOp) -> Option<Seq> {
        self.driver.lease_truncated(session, applied)
    }

    /// See `ShardDriver::record_lock`.
    ///
    /// # Errors
    /// `SessionEnded`, or the error of the store.
    pub async fn record_lock(&self, origin: RequestOrigin, ino: InodeId) -> Result<(), FsError> {
        self.driver.record_lock(origin, ino).await
    }

    /// Applies an operation and stages its batch, or its batches if it has more to do than one batch holds.
    ///
    /// # Errors
    /// The reason why it could not be applied; the operation's own error is in `AppliedOp::result`.
    pub async fn drive(
        &self,
        requester: &Requester<'_>,
        op: &MetaOp,
    ) -> Result<AppliedOp, FsError> {
        tracing::trace!(target: "walk", file = file!(), "drive");
        let mut closed = self.driver.closed_lease_keys();
        let mut scanned = self.driver.begin_scans();
        let mut lease_context = LeaseContext::default();
        let mut rounds = 0;
        while rounds < ROUNDS_MAX {
            rounds += 1;
            let need = match self.driver.attempt(
                *requester,
                Operation::Client(op),
                None,
                &scanned,
                &lease_context,
                &mut closed,
            )? {
                Attempt::Done(applied) if applied.has_more_batches => {
                    // It has made progress, and its scans are not the newest state any more.
                    (rounds, scanned) = (0, self.driver.begin_scans());
                    self.store.wait_index_caught_up(requester.origin).await?;
                    continue;
                }
                Attempt::Done(mut applied) => {
                    applied.used_callbacks = lease_context.has_sent_callbacks();
                    return Ok(applied);
                }
                Attempt::Revoke(conflicts) => {
                    let origin = requester.origin;
                    self.driver.revoke_leases(origin, conflicts).await?;
                    continue;
                }
                Attempt::RecordChanged => unreachable!("no record was expected"),
                Attempt::Need(need, given) => (need, given),
            };
            // What the operation now waits for may take long, and meanwhile the keys may be leased. (It never waits for a session while others
            // wait for the keys: closed keys delay no change.)
            if !matches!(need.0, Prerequisite::Keys(_) | Prerequisite::Scan { .. }) {
                closed.reopen();
            }
            match need {
                (Prerequisite::Keys(keys), _) => {
                    self.store.fetch_all(requester.origin, keys).await?
                }
                (Prerequisite::Scan { range, limit }, _) => {
                    scanned.read(requester.origin, range, limit).await?;
                }
                (Prerequisite::InodeNumbers(shard), given) => {
                    self.numbers
                        .reserve_block(requester.origin, shard, given)
                        .await?
                }
                (Prerequisite::Truncate(id), _) => {
                    self.truncates.await_truncate(requester.origin, id).await?
                }
                // A replay runs in its order and waits for no other session.
                (Prerequisite::Callback { .. } | Prerequisite::LeaseQueue(_), _)
                    if requester.replay.is_some() =>
                {
                    return Err(FsError::Busy);
                }
                (Prerequisite::Callback { ino, callback }, _) => {
                    // Boxed because it is rare, and its future is larger than the rest of this function.
                    let origin = requester.origin;
                    let callbacks = &self.lease_callbacks;
                    Box::pin(callbacks.call_holders(&mut lease_context, origin, ino, callback))
                        .await?;
                }
                (Prerequisite::LeaseQueue(ino), _) => {
                    self.lease_callbacks
                        .enter_lease_queue(&mut lease_context, requester.origin, ino)
                        .await?
                }
            }
        }
        // Every round brings records that were missing; only a store that evicts records faster than the operation asks gets
        // here.
        Err(FsError::Overloaded)
    }
}
