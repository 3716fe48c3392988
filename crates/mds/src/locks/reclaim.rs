//! Reclaiming locks: after a start, only the clients know which locks they hold.

use super::LockService;
use gupfs_proto::SessionId;
use gupfs_proto::lock::AdvisoryLock;
use std::collections::BTreeSet;
use std::pin::pin;

/// Why a session's locks were not reclaimed.
pub enum ReclaimRefused {
    SessionEnded,
    /// The session cannot hold one of these locks: another session holds it, or it covers no bytes.
    Impossible(String),
}

impl LockService {
    /// These sessions may hold locks. Also after an orderly stop, which needs no other grace.
    pub fn expect(&self, sessions: &BTreeSet<SessionId>) {
        self.missing.lock().clone_from(sessions);
    }

    /// The session has reclaimed all of its locks, or has ended.
    pub(super) fn finish_reclaim(&self, session: SessionId) {
        if self.missing.lock().remove(&session) {
            self.reclaimed.notify_waiters();
        }
    }

    pub(super) async fn all_reclaimed(&self) {
        loop {
            let mut reclaimed = pin!(self.reclaimed.notified());
            reclaimed.as_mut().enable();
            if self.missing.lock().is_empty() {
                return;
            }
            reclaimed.await;
        }
    }

    /// Whether the session may reclaim locks. Once it has reclaimed all, it may not: it may have released some since.
    pub fn awaits_reclaim(&self, session: SessionId) -> bool {
        self.missing.lock().contains(&session)
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
