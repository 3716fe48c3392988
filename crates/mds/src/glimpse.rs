//! Glimpses, revokes and downgrades: before an operation uses a file that other sessions write, these report attributes, or release or
//! downgrade their leases.

use crate::callback::{CallbackOutcome, CallbackTable};
use crate::join;
use crate::limits::{HOLDER_CALLS, REVOKE_RETRY, REVOKE_TRIES, SCAN_STEP};
use crate::mirrors::{FileWriters, HeldWriters, HoldWriters};
use crate::origin::RequestOrigin;
use crate::store::{MetadataStore, damaged_record};
use crate::waits::{WaitList, WaitReason};
use crate::write_leases::{LeaseContext, WriteLeases};
use crate::writer_recovery::WriterRecovery;
use gupfs_namespace::{
    Inode, KeyRange, LeaseCallback, ParsedKey, Record, RecordKey, WriteLease, WriteLeaseMode,
};
use gupfs_platform::Clock;
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::{FsError, InodeId, SessionId};
use std::pin::{Pin, pin};
use std::sync::Arc;

/// Calls the holders of write leases.
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
        if self.lease_holders(ino, LeaseCallback::Revoke).await? == [origin.session] {
            return Ok(());
        }
        let guard = self
            .waits
            .wait(origin, WaitReason::LeaseQueue(ino), ticket.acquire());
        lease_context.queue_guard = guard.await?;
        Ok(())
    }

    /// Calls the sessions with write leases of a file, all at once: each reports its attributes, or releases or downgrades its lease.
    pub async fn call_holders<'a>(
        &'a self,
        lease_context: &mut LeaseContext<'a>,
        origin: RequestOrigin,
        ino: InodeId,
        callback: LeaseCallback,
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "call_holders");
        let is_glimpse = callback == LeaseCallback::Glimpse;
        if !is_glimpse && !lease_context.is_first_in_queue(ino) {
            // The operation then reads the state again: the lease may be free.
            return self.enter_lease_queue(lease_context, origin, ino).await;
        }
        lease_context.callbacks_sent += 1;
        let round = lease_context.callbacks_sent;
        if !is_glimpse && round > 1 {
            // A session that replies to a revoke but keeps the lease is not called in a tight loop.
            self.clock.sleep(REVOKE_RETRY).await;
        }
        let mut called = self.lease_holders(ino, callback).await?;
        called.retain(|session| *session != origin.session);
        let holders = called.len();
        let size_before = match is_glimpse && holders > 1 {
            true => self.recorded_size(ino).await?,
            false => 0,
        };
        let calls = called
            .into_iter()
            .map(|session| self.call_holder(origin, session, ino, callback, round));
        for outcome in join::all(calls.collect(), HOLDER_CALLS).await {
            if let Some(unreachable) = outcome? {
                lease_context.results.add_unreachable(ino, unreachable);
            }
        }
        if is_glimpse {
            (lease_context.results).add_report(ino, holders, size_before);
        }
        Ok(())
    }

    async fn hold_writers(&self, ino: InodeId) -> Result<HeldWriters<'_>, FsError> {
        let origin = RequestOrigin::server("resync");
        let mut lease_context = LeaseContext::default();
        (self.enter_lease_queue(&mut lease_context, origin, ino)).await?;
        for _ in 0..=REVOKE_TRIES {
            if (self.lease_holders(ino, LeaseCallback::Revoke).await?).is_empty() {
                break;
            }
            let callback = LeaseCallback::Revoke;
            (self.call_holders(&mut lease_context, origin, ino, callback)).await?;
        }
        Ok(Box::new(lease_context.queue_guard))
    }

    async fn recorded_size(&self, ino: InodeId) -> Result<u64, FsError> {
        let key = RecordKey::inode(ino);
        let Some(value) = self.store.get_now(&key).await? else {
            return Ok(0);
        };
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        Ok(inode.size)
    }

    /// Returns the session if it has ended.
    async fn call_holder(
        &self,
        origin: RequestOrigin,
        session: SessionId,
        ino: InodeId,
        callback: LeaseCallback,
        round: u32,
    ) -> Result<Option<SessionId>, FsError> {
        let (awaited, request) = match callback {
            LeaseCallback::Glimpse => (
                WaitReason::Glimpse(session, ino),
                CallbackRequest::Glimpse { ino },
            ),
            LeaseCallback::Downgrade if self.callbacks.takes_downgrades(session) => (
                WaitReason::Downgrade(session, ino),
                CallbackRequest::Downgrade { ino },
            ),
            LeaseCallback::Revoke | LeaseCallback::Downgrade => (
                WaitReason::Revoke(session, ino),
                CallbackRequest::Revoke { ino },
            ),
        };
        let outcome = async {
            tokio::select! {
                biased;
                outcome = self.callback_or_recover(session, ino, &request) => outcome.map(Some),
                // It released the lease before the callback arrived, and may wait for the lease behind this request by now.
                released = self.lease_released(session, ino, callback) => released.map(|()| None),
            }
        };
        match self.waits.wait(origin, awaited, outcome).await?? {
            // The session never learned that it holds the lease: its request failed, and a server before this start recorded
            // the grant. It goes on.
            Some(CallbackOutcome::Reply(_))
                if callback != LeaseCallback::Glimpse && round > REVOKE_TRIES =>
            {
                Box::pin(self.recovery.take_unknown_lease(ino, session)).await?;
                Ok(None)
            }
            Some(CallbackOutcome::Reply(_)) | None => Ok(None),
            Some(CallbackOutcome::SessionEnded) => Ok(Some(session)),
        }
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

    /// Returns when the session is not recorded as a holder of a write lease that this callback is about.
    async fn lease_released(
        &self,
        session: SessionId,
        ino: InodeId,
        callback: LeaseCallback,
    ) -> Result<(), FsError> {
        loop {
            let mut changed = pin!(self.leases.ended.notified());
            changed.as_mut().enable();
            if !self.lease_holders(ino, callback).await?.contains(&session) {
                return Ok(());
            }
            changed.await;
        }
    }

    /// The sessions that this callback is for: a downgrade is for holders of exclusive leases.
    async fn lease_holders(
        &self,
        ino: InodeId,
        callback: LeaseCallback,
    ) -> Result<Vec<SessionId>, FsError> {
        let (range, mut limit) = (KeyRange::write_leases(ino), SCAN_STEP);
        let records = loop {
            let records = self.store.scan_now(&range, limit).await?;
            match records.len() < limit {
                true => break records,
                false => limit *= 2,
            }
        };
        let mut holders = Vec::with_capacity(records.len());
        for (key, value) in &records {
            let Some(ParsedKey::WriteLease { session, .. }) = key.parse() else {
                continue;
            };
            let lease = WriteLease::decode(value).map_err(|error| damaged_record(key, error))?;
            if callback != LeaseCallback::Downgrade || lease.mode == WriteLeaseMode::Exclusive {
                holders.push(session);
            }
        }
        Ok(holders)
    }
}

impl FileWriters for LeaseCallbacks {
    fn hold(&self, ino: InodeId) -> HoldWriters<'_> {
        Box::pin(self.hold_writers(ino))
    }
}
