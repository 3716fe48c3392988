//! All leases, by key and session.

use super::closed::{ClosedKeys, ClosedKeysId};
use super::key::{PackedKey, broken_by};
use super::limits::{LEASE_MIN, LeaseLimits};
use super::session::SessionLeases;
use super::shared::SharedDirectories;
use gupfs_proto::SessionId;
use gupfs_proto::lease::{GrantNumber, LeaseKey, LeaseRevocation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The leases of all sessions. Times are those of one clock that never goes back, since any moment.
#[derive(Default)]
pub struct LeaseTable {
    leases: BTreeMap<(PackedKey, SessionId), GrantNumber>,
    /// The sessions that take leases.
    pub(super) sessions: BTreeMap<SessionId, SessionLeases>,
    closed: ClosedKeys,
    pub(super) shared: SharedDirectories,
    pub(super) limits: LeaseLimits,
}

/// The leases that an operation must have revoked before its batch is staged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeaseConflicts {
    /// What each session must give up.
    pub revocations: BTreeMap<SessionId, LeaseRevocation>,
    /// The time before which they must not be sent: a lease lives for `LEASE_MIN`.
    pub not_before: Duration,
    /// Sessions from before a take-over that may have leases on the keys: the table does not say which. They must reconnect, or end.
    pub awaited: BTreeSet<SessionId>,
}

impl LeaseConflicts {
    pub fn is_empty(&self) -> bool {
        self.revocations.is_empty() && self.awaited.is_empty()
    }
}

/// Numbers for `gupfs status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseCounts {
    pub leases: usize,
    /// Sessions that take leases.
    pub sessions: usize,
    pub closed_keys: usize,
    pub shared_directories: usize,
}

impl LeaseTable {
    pub fn new() -> LeaseTable {
        LeaseTable::default()
    }

    /// The session takes leases from now on. It has dropped those that it had.
    pub fn accept(&mut self, session: SessionId) {
        self.drop_leases_of(session);
        self.sessions.entry(session).or_default();
    }

    pub fn takes_leases(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Grants a lease on what the server is about to tell the session, as it is now. None, and the session has no new lease: it takes none, the
    /// key is closed, its directory is shared, or there are too many leases. A lease that the session has already gets the new number.
    ///
    /// The caller has tested that no other session has the write lease of the file.
    pub fn grant(
        &mut self,
        session: SessionId,
        key: LeaseKey,
        now: Duration,
    ) -> Option<GrantNumber> {
        let packed = PackedKey::from(key);
        let (all, held) = (
            self.leases.len(),
            self.leases.get(&(packed, session)).copied(),
        );
        let leases = self.sessions.get_mut(&session)?;
        let is_full = all >= self.limits.of_all || leases.by_number.len() >= self.limits.of_session;
        let is_shared = match key {
            LeaseKey::Data(_) => false,
            LeaseKey::Attributes(ino) => self.shared.is_shared(ino, now),
            LeaseKey::Names(dir) | LeaseKey::Name { dir, .. } => self.shared.is_shared(dir, now),
        };
        if self.closed.is_closed(packed) || is_shared || held.is_none() && is_full {
            return None;
        }
        if let Some(held) = held {
            leases.by_number.remove(&held);
        }
        let number = leases.next_number(held, now);
        leases.by_number.insert(number, packed);
        self.leases.insert((packed, session), number);
        Some(number)
    }

    /// The keys of a session's leases.
    pub fn keys_of(&self, session: SessionId) -> impl Iterator<Item = LeaseKey> + '_ {
        let leases = self.sessions.get(&session).into_iter();
        leases.flat_map(|leases| leases.by_number.values().map(|key| key.unpack()))
    }

    /// Whether the session has this lease.
    pub fn holds(&self, session: SessionId, key: LeaseKey) -> bool {
        self.leases.contains_key(&(key.into(), session))
    }

    /// The leases of other sessions that a change of these keys breaks; `by`: the session that makes the change, None for the server itself. A
    /// session's own leases stay: the reply to its change says what they cover from now on.
    pub fn conflicts(&self, by: Option<SessionId>, keys: &[LeaseKey]) -> LeaseConflicts {
        let mut conflicts = LeaseConflicts::default();
        for key in broken_by(keys) {
            let holders = self
                .leases
                .range((key, SessionId(0))..=(key, SessionId(u64::MAX)));
            for ((_, session), number) in holders {
                if by == Some(*session) {
                    continue;
                }
                let leases = &self.sessions[session];
                let revocation = conflicts.revocations.entry(*session);
                let revocation = revocation.or_insert_with(|| LeaseRevocation {
                    upto: leases.last,
                    keys: Vec::new(),
                });
                revocation.keys.push(key.unpack());
                let since = leases.fresh_since(*number);
                let until = since.map(|since| since + LEASE_MIN);
                conflicts.not_before = conflicts.not_before.max(until.unwrap_or_default());
            }
        }
        conflicts
    }

    /// Closes the keys, and what a change of them breaks, to grants until `reopen`. To be called under the same lock as `conflicts`.
    pub fn close(&mut self, keys: &[LeaseKey]) -> ClosedKeysId {
        self.closed.close(broken_by(keys))
    }

    /// Grants on the keys are possible again, unless another operation has closed them, too. A second call changes nothing.
    pub fn reopen(&mut self, id: ClosedKeysId) {
        self.closed.reopen(id);
    }

    /// A batch with these changes is staged. Directories that two sessions change by turns become shared.
    pub fn note_changes(&mut self, by: SessionId, keys: &[LeaseKey], now: Duration) {
        let mut last = None;
        for key in keys {
            if let LeaseKey::Name { dir, .. } = key
                && last.replace(*dir) != Some(*dir)
            {
                self.shared.note_change(*dir, by, now);
            }
        }
    }

    /// A change by this session breaks these leases. An inode that two sessions change by turns becomes shared, as a directory does: a lease
    /// on its attributes would delay the next change, and be of no use.
    pub fn note_conflicts(&mut self, by: SessionId, conflicts: &LeaseConflicts, now: Duration) {
        let revoked = conflicts.revocations.values();
        for key in revoked.flat_map(|revocation| &revocation.keys) {
            if let LeaseKey::Attributes(ino) = key {
                self.shared.note_change(*ino, by, now);
            }
        }
    }

    /// The session has answered a revocation.
    pub fn revoked(&mut self, session: SessionId, revocation: &LeaseRevocation) {
        for key in &revocation.keys {
            self.drop_lease(session, (*key).into(), revocation.upto);
        }
    }

    /// Drops leases of a session whose values it cannot be told with the reply to its own change. It voids them by itself.
    pub fn drop_leases(&mut self, session: SessionId, keys: &[LeaseKey]) {
        for key in keys {
            self.drop_lease(session, (*key).into(), GrantNumber(u64::MAX));
        }
    }

    /// The session has ended: it has no lease any more and gets none.
    pub fn drop_session(&mut self, session: SessionId) {
        self.drop_leases_of(session);
        self.sessions.remove(&session);
    }

    /// Number of leases of all sessions.
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    /// Number of leases of a session.
    pub fn leases_of(&self, session: SessionId) -> usize {
        let leases = self.sessions.get(&session);
        leases.map_or(0, |leases| leases.by_number.len())
    }

    pub fn counts(&self, now: Duration) -> LeaseCounts {
        LeaseCounts {
            leases: self.leases.len(),
            sessions: self.sessions.len(),
            closed_keys: self.closed.len(),
            shared_directories: self.shared.count(now),
        }
    }

    fn drop_lease(&mut self, session: SessionId, key: PackedKey, upto: GrantNumber) {
        let Some(number) = self.leases.get(&(key, session)) else {
            return;
        };
        if *number <= upto {
            let leases = self.sessions.get_mut(&session).expect("it has a lease");
            leases.by_number.remove(number);
            self.leases.remove(&(key, session));
        }
    }

    fn drop_leases_of(&mut self, session: SessionId) {
        let Some(leases) = self.sessions.get_mut(&session) else {
            return;
        };
        leases.excess_asked = false;
        for key in std::mem::take(&mut leases.by_number).into_values() {
            self.leases.remove(&(key, session));
        }
    }
}
