//! Glimpses and revokes: before an operation uses a file that another session writes, that session reports attributes or releases
//! its lease.

use crate::callback::CallbackOutcome;
use crate::core::Core;
use crate::drive::Requester;
use crate::lease_queue::QueueGuard;
use crate::limits::{REVOKE_RETRY, REVOKE_TRIES, SCAN_STEP};
use crate::waits::{RequestOrigin, WaitReason};
use gupfs_namespace::{CallbackResults, KeyRange, ParsedKey, RecordKey};
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::{FsError, InodeId, SessionId};
use std::pin::{Pin, pin};

/// What one operation has obtained of other sessions' write leases: their attribute reports, and its place at the head of a lease
/// queue.
#[derive(Default)]
pub struct LeaseContext<'a> {
    pub results: CallbackResults,
    queue_guard: Option<QueueGuard<'a>>,
    /// Callbacks sent to lease holders so far.
    callbacks_sent: u32,
}

impl LeaseContext<'_> {
    pub fn is_first_in_queue(&self, ino: InodeId) -> bool {
        self.queue_guard
            .as_ref()
            .is_some_and(|guard| guard.ino() == ino)
    }

    pub fn has_sent_callbacks(&self) -> bool {
        self.callbacks_sent > 0
    }
}

impl Core {
    /// Waits in the queue for a write lease that must be released. Returns without the queue's guard when the session holds the
    /// lease: then its request from before a reconnect was done.
    pub async fn enter_lease_queue<'a>(
        &'a self,
        lease_context: &mut LeaseContext<'a>,
        origin: RequestOrigin,
        ino: InodeId,
    ) -> Result<(), FsError> {
        lease_context.queue_guard = None;
        let ticket = self.lease_queues.enqueue(ino, origin.session);
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
        requester: Requester<'_>,
        ino: InodeId,
        revoke: bool,
    ) -> Result<(), FsError> {
        if revoke && !lease_context.is_first_in_queue(ino) {
            // The operation then reads the state again: the lease may be free.
            return self
                .enter_lease_queue(lease_context, requester.origin, ino)
                .await;
        }
        lease_context.callbacks_sent += 1;
        if revoke && lease_context.callbacks_sent > 1 {
            // A session that replies to a revoke but keeps the lease is not called in a tight loop.
            self.platform.clock.sleep(REVOKE_RETRY).await;
        }
        for session in self.lease_holders(ino).await? {
            if session == requester.origin.session {
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
                                        // It released the lease before the callback arrived, and may wait for the lease behind
                                        // this request by now.
                    released = self.lease_released(session, ino) => released.map(|()| None),
                }
            };
            match self
                .waits
                .wait(requester.origin, awaited, outcome)
                .await??
            {
                // The session never learned that it holds the lease: its request failed, and a server before this start recorded
                // the grant.
                Some(CallbackOutcome::Reply(_))
                    if revoke && lease_context.callbacks_sent > REVOKE_TRIES =>
                {
                    self.recover_ended_writer(ino, session).await?;
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
        let outcome = self.send_callback(session, callback).await?;
        if let CallbackOutcome::SessionEnded = outcome {
            match self.recover_ended_writer(ino, session).await {
                Ok(()) | Err(FsError::TargetDown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(outcome)
    }

    /// Boxed because it drives the state machine itself.
    fn recover_ended_writer(
        &self,
        ino: InodeId,
        session: SessionId,
    ) -> Pin<Box<dyn Future<Output = Result<(), FsError>> + Send + '_>> {
        Box::pin(self.recover_writer(ino, session))
    }

    /// Returns when the session is not recorded as the holder of the file's write lease.
    async fn lease_released(&self, session: SessionId, ino: InodeId) -> Result<(), FsError> {
        loop {
            let mut changed = pin!(self.lease_ended.notified());
            changed.as_mut().enable();
            if !self.lease_holders(ino).await?.contains(&session) {
                return Ok(());
            }
            changed.await;
        }
    }

    async fn lease_holders(&self, ino: InodeId) -> Result<Vec<SessionId>, FsError> {
        let records = self
            .scan_now(&KeyRange::write_leases(ino), SCAN_STEP)
            .await?;
        let session = |key: &RecordKey| match key.parse() {
            Some(ParsedKey::WriteLease { session, .. }) => Some(session),
            _ => None,
        };
        Ok(records.iter().filter_map(|(key, _)| session(key)).collect())
    }
}
