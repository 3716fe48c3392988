//! One attempt at an operation, under the shard's lock.

use super::{
    Attempt, ClosedLeaseKeys, ExpectedRecord, Requester, ScanCache, ShardDriver, StoreView,
};
use crate::shard::{NewFiles, Shard};
use crate::write_leases::LeaseContext;
use gupfs_namespace::{
    ApplyResult, CachedRecord, OpContext, Operation, Prerequisite, RecordSource,
};
use gupfs_proto::{FsError, Seq, SessionId, meta};

impl ShardDriver {
    /// One attempt, under the shard's lock.
    pub fn attempt(
        &self,
        requester: Requester<'_>,
        op: Operation<'_>,
        expected: Option<&ExpectedRecord>,
        scanned: &ScanCache<'_>,
        lease_context: &LeaseContext<'_>,
        closed: &mut ClosedLeaseKeys<'_>,
    ) -> Result<Attempt, FsError> {
        tracing::trace!(target: "walk", file = file!(), "attempt");
        let mut guard = self.shard.lock();
        let shard = &mut *guard;
        let session = self.session_of(shard, requester, op)?;
        let now = match &requester.replay {
            Some(replay) => shard.now_for_replay(replay.changed_at),
            None => shard.now(),
        };
        let entropy = shard.entropy.next();
        let view = StoreView::new(&self.store, &self.kv, scanned, &shard.recent);
        if let Some((key, value)) = expected {
            match view.get(key) {
                CachedRecord::Value(now) if now.as_ref() == Some(value) => {}
                CachedRecord::Value(_) => return Ok(Attempt::RecordChanged),
                CachedRecord::Unknown => {
                    return Ok(Attempt::Need(Prerequisite::Keys(vec![key.clone()]), 0));
                }
            }
        }
        let ctx = OpContext {
            now,
            entropy,
            session,
            slot_seq: requester.slot_seq,
            caller: requester.caller,
            open_rights: requester.opens,
            shards: self.shards,
            owner_epoch: self.owner_epoch,
            targets: &shard.targets,
            growth_allowed: self.reserve.is_growth_allowed(),
            is_only_session: shard.sessions.len() <= 1,
            is_private_file: self.is_private_file(&shard.new_files, op, session),
            must_queue: self.must_queue(op, lease_context),
            callbacks: &lease_context.results,
            seq: Seq(self.kv.last_seq().0 + 1),
            replay: requester.replay.map(|replay| replay.recorded),
        };
        match shard.machine.apply(&view, &ctx, op) {
            ApplyResult::Needs(need) => {
                if let Some(error) = view.failure() {
                    return Err(self.store.fail(&error));
                }
                let given = match &need {
                    Prerequisite::InodeNumbers(of) => shard.blocks_given(*of),
                    _ => 0,
                };
                Ok(Attempt::Need(need, given))
            }
            ApplyResult::Done(effects) => {
                let changes = self.lease_changes(shard, &view, &effects);
                let by = requester.changing_session();
                let conflicts = shard.leases.conflicts(by, &changes);
                if !conflicts.is_empty() {
                    closed.close(&mut shard.leases, &changes);
                    let now = shard.boot();
                    if let Some(by) = by {
                        shard.leases.note_conflicts(by, &conflicts, now);
                    }
                    return Ok(Attempt::Revoke(conflicts));
                }
                let seen = view.newest();
                let leasing = self.leasing_session(shard, &requester, &effects);
                let changed = leasing.map(|session| self.changed_for(shard, session, &effects));
                let mut applied = self.stage(shard, effects, seen, op, (session, now));
                closed.reopen_in(&mut shard.leases);
                if let Some(by) = by {
                    let at = shard.boot();
                    shard.leases.note_changes(by, &changes, at);
                }
                if let (Some(session), Some(changed)) = (leasing, changed) {
                    self.grant_leases(shard, session, (op, scanned), &mut applied, changed);
                }
                Ok(Attempt::Done(applied))
            }
        }
    }

    fn is_private_file(&self, new_files: &NewFiles, op: Operation<'_>, session: SessionId) -> bool {
        match op {
            // While no other session is registered, the client knows whether it has promised their contents.
            Operation::Client(meta::MetaOp::SpillInline { ino, .. }) => {
                !self.keeps_sessions || new_files.is_private(*ino, session)
            }
            _ => false,
        }
    }

    fn must_queue(&self, op: Operation<'_>, lease_context: &LeaseContext<'_>) -> bool {
        match op {
            Operation::Client(
                meta::MetaOp::BeginWrite { ino, .. } | meta::MetaOp::BeginWriteAt { ino, .. },
            ) => !lease_context.is_first_in_queue(*ino) && self.leases.queues.has_waiters(*ino),
            _ => false,
        }
    }

    /// The session of an operation. A new session gets the number of the batch that registers it, so its number is above all that
    /// were ever given; the session may be used once that batch is durable.
    fn session_of(
        &self,
        shard: &Shard,
        requester: Requester<'_>,
        op: Operation<'_>,
    ) -> Result<SessionId, FsError> {
        match op {
            Operation::Client(meta::MetaOp::OpenSession { .. }) => {
                let counter = self.sessions_skipped + self.kv.last_seq().0 + 1;
                Ok(SessionId::new(self.owner_epoch.group(), counter))
            }
            Operation::Client(_)
                if !requester.is_server
                    && !shard.sessions.contains_key(&requester.origin.session) =>
            {
                Err(FsError::SessionEnded)
            }
            _ => Ok(requester.origin.session),
        }
    }
}
