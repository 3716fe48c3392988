//! Glimpses and revokes: before an operation uses a file that another session writes, that session reports attributes or releases
//! its lease.

use crate::callback::{CallbackOutcome, CallbackTable};
use crate::limits::{REVOKE_RETRY, REVOKE_TRIES, SCAN_STEP};
use crate::origin::RequestOrigin;
use crate::store::MetadataStore;
use crate::waits::{WaitList, WaitReason};
use crate::write_leases::{LeaseContext, WriteLeases};
use crate::writer_recovery::WriterRecovery;
use gupfs_namespace::{KeyRange, ParsedKey, RecordKey};
use gupfs_platform::Clock;
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::{FsError, InodeId, SessionId};
use std::pin::{Pin, pin};
use std::sync::Arc;

/// Sends glimpses and revokes to the holders of write leases.
pub struct LeaseCallbacks {
    store: Arc<MetadataStore>,
    leases: Arc<WriteLeases>,
    callbacks: Arc<CallbackTable>,
    recovery: Arc<WriterRecovery>,
    waits: Arc<WaitList>,
    clock: Clock,
}

impl LeaseCallbacks {
    pub fn new(
        store: Arc<MetadataStore>,
        leases: Arc<WriteLeases>,
        callbacks: Arc<CallbackTable>,
        recovery: Arc<WriterRecovery>,
        waits: Arc<WaitList>,
        clock: Clock,
    ) -> LeaseCallbacks {
        LeaseCallbacks {
            store,
            leases,
            callbacks,
            recovery,
            waits,
            clock,
        }
    }

    /// Waits in the queue for a write lease that must be released. Returns without the queue's guard when the session holds the
    /// lease: then its request from before a reconnect was done.
    pub async fn enter_lease_queue<'a>(
        &'a self,
        lease_context: &mut LeaseContext<'a>,
        origin: RequestOrigin,
        ino: InodeId,
    ) -> Result<(), FsError> {
        lease_context.queue_guard = None;
        let ticket = self.leases.queues.enqueue(ino, origin.session);
        // Enqueue first, then read the holders: a grant before that is in the records, and a later one wakes the ticket.
        if self.lease_holders(ino).await? == [origin.session] {
            return Ok(());
        }
        let guard = self
            .waits
            .wait(origin, WaitReason::LeaseQueue(ino), ticket.acquire());
        lease_context.queue_guard = guard.await?;
        Ok(())
    }

    /// Has the lease holder of a file report its attributes, or release the lease.
    pub async fn glimpse_or_revoke<'a>(
        &'a self,
        lease_context: &mut LeaseContext<'a>,
        origin: RequestOrigin,
        ino: InodeId,
        revoke: bool,
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "glimpse_or_revoke");
        if revoke && !lease_context.is_first_in_queue(ino) {
            // The operation then reads the state again: the lease may be free.
            return self.enter_lease_queue(lease_context, origin, ino).await;
        }
        lease_context.callbacks_sent += 1;
        if revoke && lease_context.callbacks_sent > 1 {
            // A session that replies to a revoke but keeps the lease is not called in a tight loop.
            self.clock.sleep(REVOKE_RETRY).await;
        }
        for session in self.lease_holders(ino).await? {
            if session == origin.session {
                continue;
            }
            let (awaited, callback) = match revoke {
                true => (
                    WaitReason::Revoke(session, ino),
                    CallbackRequest::Revoke { ino },
                ),
                false => (
                    WaitReason::Glimpse(session, ino),
                    CallbackRequest::Glimpse { ino },
                ),
            };
            let outcome = async {
                tokio::select! {
                    biased;
                    outcome = self.callback_or_recover(session, ino, &callback) => outcome.map(Some),
                    // It released the lease before the callback arrived, and may wait for the lease behind this request by now.
                    released = self.lease_released(session, ino) => released.map(|()| None),
                }
            };
            match self.waits.wait(origin, awaited, outcome).await?? {
                // The session never learned that it holds the lease: its request failed, and a server before this start recorded
                // the grant. It goes on.
                Some(CallbackOutcome::Reply(_))
                    if revoke && lease_context.callbacks_sent > REVOKE_TRIES =>
                {
                    Box::pin(self.recovery.take_unknown_lease(ino, session)).await?;
                }
                Some(CallbackOutcome::Reply(_)) | None => {}
                Some(CallbackOutcome::SessionEnded) => {
                    lease_context.results.add_unreachable(ino, session)
                }
            }
        }
        if !revoke {
            lease_context.results.add_report(ino);
        }
        Ok(())
    }

    /// The reply of the session. If the session has ended, takes the file's state from its objects, if that was not done yet:
    /// until then the record is not the file's true state.
    ///
    /// # Errors
    /// The error of an object server. A server that stays down does not block the operation: the file is as it is recorded, and
    /// its bytes on that server cannot be used.
    async fn callback_or_recover(
        &self,
        session: SessionId,
        ino: InodeId,
        callback: &CallbackRequest,
    ) -> Result<CallbackOutcome, FsError> {
        let outcome = self.callbacks.send_callback(session, callback).await?;
        if let CallbackOutcome::SessionEnded = outcome {
            match self.recover_ended_writer(ino, session).await {
                Ok(()) | Err(FsError::TargetDown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(outcome)
    }

    /// Boxed because it is rare, and its future is large.
    fn recover_ended_writer(
        &self,
        ino: InodeId,
        session: SessionId,
    ) -> Pin<Box<dyn Future<Output = Result<(), FsError>> + Send + '_>> {
        Box::pin(self.recovery.recover_writer(ino, session))
    }

    /// Returns when the session is not recorded as the holder of the file's write lease.
    async fn lease_released(&self, session: SessionId, ino: InodeId) -> Result<(), FsError> {
        loop {
            let mut changed = pin!(self.leases.ended.notified());
            changed.as_mut().enable();
            if !self.lease_holders(ino).await?.contains(&session) {
                return Ok(());
            }
            changed.await;
        }
    }

    async fn lease_holders(&self, ino: InodeId) -> Result<Vec<SessionId>, FsError> {
        let records = self
            .store
            .scan_now(&KeyRange::write_leases(ino), SCAN_STEP)
            .await?;
        let session = |key: &RecordKey| match key.parse() {
            Some(ParsedKey::WriteLease { session, .. }) => Some(session),
            _ => None,
        };
        Ok(records.iter().filter_map(|(key, _)| session(key)).collect())
    }
}
