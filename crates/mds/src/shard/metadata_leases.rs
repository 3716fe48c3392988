//! The leases on metadata, and the ended sessions whose clients may still answer by theirs.
//!
//! A client answers from its memory until its term is over. A session that the server ends before (its key is revoked, it reclaims what it
//! cannot have) keeps its leases in the table until then: a change waits for that moment.

use gupfs_namespace::InterestSet;
use gupfs_namespace::leases::{ClosedKeysId, LeaseConflicts, LeaseCounts, LeaseTable};
use gupfs_platform::BootTime;
use gupfs_proto::SessionId;
use gupfs_proto::lease::{LeaseGrant, LeaseKey, LeaseRevocation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Default)]
pub struct MetadataLeases {
    table: LeaseTable,
    /// The sessions in the table, the ended ones among them.
    sessions: BTreeSet<SessionId>,
    /// Ended sessions with leases, and when the term of each is over.
    ended: BTreeMap<SessionId, BootTime>,
    /// Sessions that have owed an answer for too long. Some may have ended since.
    overdue: BTreeSet<SessionId>,
    /// Sessions from before a take-over that have not reconnected, and what they may have leases on.
    awaited: BTreeMap<SessionId, InterestSet>,
    /// Signals that one of them has reconnected, or has ended and its term is over.
    returned: Arc<Notify>,
    /// The server stops: it grants nothing any more.
    is_stopping: bool,
}

impl MetadataLeases {
    /// The session takes leases from now on. A session that accepts again, over a new connection, keeps those in the table although its
    /// client has dropped them: a grant may be under way that the client believes later.
    pub fn accept(&mut self, session: SessionId) {
        if !self.table.takes_leases(session) {
            self.table.accept(session);
            self.sessions.insert(session);
        }
    }

    /// Whether the session is registered and takes leases.
    pub fn takes_leases(&self, session: SessionId) -> bool {
        self.table.takes_leases(session) && !self.ended.contains_key(&session)
    }

    /// Whether no session takes leases: then no change breaks any.
    pub fn is_unused(&self) -> bool {
        self.sessions.is_empty() && self.awaited.is_empty()
    }

    /// These sessions may have leases that the former owner granted, as it has recorded.
    pub fn expect(&mut self, awaited: BTreeMap<SessionId, InterestSet>) {
        self.awaited = awaited;
    }

    /// The session has reconnected: its client has dropped all leases of the former owner.
    pub fn note_returned(&mut self, session: SessionId) {
        if self.awaited.remove(&session).is_some() {
            self.returned.notify_waiters();
        }
    }

    pub fn is_awaited(&self, session: SessionId) -> bool {
        self.awaited.contains_key(&session)
    }

    pub fn awaited(&self) -> Vec<SessionId> {
        self.awaited.keys().copied().collect()
    }

    /// See `returned`.
    pub fn returned_signal(&self) -> Arc<Notify> {
        self.returned.clone()
    }

    /// The keys of a session's leases.
    pub fn keys_of(&self, session: SessionId) -> impl Iterator<Item = LeaseKey> + '_ {
        self.table.keys_of(session)
    }

    /// Grants a lease on what the server is about to tell the session. The caller has tested that the session may have it.
    pub fn grant(
        &mut self,
        session: SessionId,
        key: LeaseKey,
        now: BootTime,
    ) -> Option<LeaseGrant> {
        if self.is_stopping || !self.takes_leases(session) {
            return None;
        }
        let number = self.table.grant(session, key, elapsed(now))?;
        Some(LeaseGrant { key, number })
    }

    pub fn holds(&self, session: SessionId, key: LeaseKey) -> bool {
        self.table.holds(session, key)
    }

    /// Leases to revoke because there are too many; see `LeaseTable::excess`.
    pub fn excess(&mut self, session: SessionId) -> Option<(SessionId, LeaseRevocation)> {
        self.table.excess(session)
    }

    /// The session has answered what `excess` returned, or has ended.
    pub fn excess_answered(&mut self, session: SessionId) {
        self.table.excess_answered(session);
    }

    /// The leases of other sessions that a change of these keys breaks.
    pub fn conflicts(&self, by: Option<SessionId>, keys: &[LeaseKey]) -> LeaseConflicts {
        let mut conflicts = self.table.conflicts(by, keys);
        let others = (self.awaited.iter()).filter(|(session, _)| by != Some(**session));
        let holders = others.filter(|(_, interests)| interests.has_leases_on(keys));
        conflicts.awaited = holders.map(|(session, _)| *session).collect();
        conflicts
    }

    pub fn close(&mut self, keys: &[LeaseKey]) -> ClosedKeysId {
        self.table.close(keys)
    }

    pub fn reopen(&mut self, id: ClosedKeysId) {
        self.table.reopen(id);
    }

    /// See `LeaseTable::note_conflicts`.
    pub fn note_conflicts(&mut self, by: SessionId, conflicts: &LeaseConflicts, now: BootTime) {
        self.table.note_conflicts(by, conflicts, elapsed(now));
    }

    /// A batch with these changes is staged.
    pub fn note_changes(&mut self, by: SessionId, keys: &[LeaseKey], now: BootTime) {
        self.table.note_changes(by, keys, elapsed(now));
    }

    /// The session has answered a revocation.
    pub fn revoked(&mut self, session: SessionId, revocation: &LeaseRevocation) {
        self.table.revoked(session, revocation);
    }

    /// The session's client has closed it, or its term is over: it has no leases any more.
    pub fn drop_session(&mut self, session: SessionId) {
        self.ended.remove(&session);
        self.sessions.remove(&session);
        self.table.drop_session(session);
        self.note_returned(session);
    }

    /// The session has ended. Its client may not know, and answers by its leases until its term is over.
    pub fn end_session(&mut self, session: SessionId, term_over: BootTime, now: BootTime) {
        let has_leases = self.table.leases_of(session) > 0 || self.is_awaited(session);
        if term_over <= now || !has_leases {
            self.drop_session(session);
        } else {
            self.ended.insert(session, term_over);
        }
    }

    /// When the term of an ended session with leases is over.
    pub fn term_of_ended(&self, session: SessionId) -> Option<BootTime> {
        self.ended.get(&session).copied()
    }

    /// Drops the leases of ended sessions whose term is over.
    pub fn drop_expired(&mut self, now: BootTime) {
        let over = self.ended.iter().filter(|(_, until)| **until <= now);
        let over: Vec<SessionId> = over.map(|(session, _)| *session).collect();
        for session in over {
            self.drop_session(session);
        }
    }

    /// The session has not answered a revocation in time: `SessionRegistry` unregisters it.
    pub fn note_overdue(&mut self, session: SessionId) {
        self.overdue.insert(session);
    }

    pub fn take_overdue(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.overdue)
    }

    /// The server stops: it grants no more leases.
    pub fn begin_stop(&mut self) {
        self.is_stopping = true;
    }

    /// Leases to revoke of each session that has some, as many as one message carries.
    pub fn oldest(&self) -> BTreeMap<SessionId, LeaseRevocation> {
        let of = |session: &SessionId| Some((*session, self.table.oldest(*session)?));
        self.sessions.iter().filter_map(of).collect()
    }

    /// The number of leases of each session that takes some.
    pub fn of_sessions(&self) -> BTreeMap<SessionId, usize> {
        let of = |session: &SessionId| (*session, self.table.leases_of(*session));
        self.sessions.iter().map(of).collect()
    }

    pub fn counts(&self, now: BootTime) -> LeaseCounts {
        self.table.counts(elapsed(now))
    }
}

/// The table's clock: boot time.
fn elapsed(now: BootTime) -> Duration {
    Duration::from_nanos(now.0)
}
