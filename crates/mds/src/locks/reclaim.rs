//! Reclaiming locks: after a start, only the clients know which locks they hold.

use super::LockService;
use crate::origin::RequestOrigin;
use crate::waits::WaitReason;
use gupfs_namespace::InterestSet;
use gupfs_proto::lock::AdvisoryLock;
use gupfs_proto::{FsError, InodeId, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

/// What is known of the locks of a session that has not reclaimed them.
pub(super) enum ExpectedLocks {
    Any,
    Recorded(InterestSet),
}

/// Why a session's locks were not reclaimed.
pub enum ReclaimRefused {
    SessionEnded,
    /// The session cannot hold one of these locks: another session holds it, or it covers no bytes.
    Impossible(String),
}

impl LockService {
    /// These sessions may hold locks. Also after an orderly stop, which needs no other grace. `interests`: if the former owner recorded on what.
    pub fn expect(
        &self,
        sessions: &BTreeSet<SessionId>,
        interests: Option<&BTreeMap<SessionId, InterestSet>>,
    ) {
        let locks_of = |session: &SessionId| match interests {
            None => ExpectedLocks::Any,
            Some(interests) => {
                ExpectedLocks::Recorded(interests.get(session).cloned().unwrap_or_default())
            }
        };
        let expected = sessions.iter().map(|session| (*session, locks_of(session)));
        *self.missing.lock() = expected.collect();
    }

    /// The session has reclaimed all of its locks, or has ended.
    pub(super) fn finish_reclaim(&self, session: SessionId) {
        if self.missing.lock().remove(&session).is_some() {
            self.reclaimed.notify_waiters();
        }
    }

    /// After a start, no session gets a lock on a file before all sessions that may hold one have reclaimed theirs.
    pub(super) async fn wait_for_reclaims(
        &self,
        origin: RequestOrigin,
        ino: InodeId,
    ) -> Result<(), FsError> {
        while let Some(session) = self.missing_holder(ino) {
            let reclaimed = self.wait_reclaimed(session);
            self.waits
                .wait(origin, WaitReason::LockReclaim(session), reclaimed)
                .await?;
        }
        Ok(())
    }

    /// A session that may have a lock on this file and has not reclaimed its locks.
    fn missing_holder(&self, ino: InodeId) -> Option<SessionId> {
        let missing = self.missing.lock();
        let mut holders = missing.iter().filter(|(_, locks)| match locks {
            ExpectedLocks::Any => true,
            ExpectedLocks::Recorded(interests) => interests.has_locks_on(ino),
        });
        holders.next().map(|(session, _)| *session)
    }

    async fn wait_reclaimed(&self, session: SessionId) {
        loop {
            let mut reclaimed = pin!(self.reclaimed.notified());
            reclaimed.as_mut().enable();
            if !self.awaits_reclaim(session) {
                return;
            }
            reclaimed.await;
        }
    }

    /// Whether the session may reclaim locks. Once it has reclaimed all, it may not: it may have released some since.
    pub fn awaits_reclaim(&self, session: SessionId) -> bool {
        self.missing.lock().contains_key(&session)
    }

    /// Reclaims a part of the locks that a reconnecting session held; with `last`, the session has reclaimed all.
    ///
    /// # Errors
    /// If another session holds a lock that this one reclaims; the caller ends this session.
    pub fn reclaim(
        &self,
        session: SessionId,
        locks: &[AdvisoryLock],
        last: bool,
    ) -> Result<(), ReclaimRefused> {
        let claimed = self.sessions.while_registered(session, || {
            let mut table = self.table.lock();
            locks.iter().try_for_each(|lock| {
                if !lock.range.is_valid() {
                    return Err(format!("{lock:?} covers no bytes"));
                }
                let claimed = table.reclaim(session, *lock);
                claimed.map_err(|why| why.to_string())
            })
        });
        match claimed {
            Err(_) => Err(ReclaimRefused::SessionEnded),
            Ok(Err(why)) => Err(ReclaimRefused::Impossible(why)),
            Ok(Ok(())) => {
                if last {
                    self.finish_reclaim(session);
                }
                Ok(())
            }
        }
    }
}
