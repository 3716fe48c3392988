//! Directories and other inodes that several sessions change by turns: the server grants no leases on names of these directories, nor on the
//! attributes of these inodes, until they are quiet.

use super::limits::{DIRECTORIES_WATCHED, SHARED_QUIET, SHARED_WITHIN};
use gupfs_proto::{InodeId, SessionId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The directories that sessions have changed in the last seconds.
#[derive(Default)]
pub(super) struct SharedDirectories {
    watched: BTreeMap<InodeId, LastChange>,
    /// The watched directories, in the order in which they are examined whether they are quiet.
    order: VecDeque<InodeId>,
}

struct LastChange {
    session: SessionId,
    at: Duration,
    is_shared: bool,
}

impl SharedDirectories {
    pub fn note_change(&mut self, dir: InodeId, session: SessionId, now: Duration) {
        self.forget_quiet(now);
        let Some(last) = self.watched.get_mut(&dir) else {
            let (at, is_shared) = (now, false);
            let change = LastChange {
                session,
                at,
                is_shared,
            };
            self.watched.insert(dir, change);
            self.order.push_back(dir);
            return;
        };
        let since = now.saturating_sub(last.at);
        let by_another = last.session != session;
        last.is_shared =
            since < SHARED_QUIET && last.is_shared || by_another && since <= SHARED_WITHIN;
        (last.session, last.at) = (session, last.at.max(now));
    }

    /// Examines the two that were examined longest ago: so there are never more than twice those that are not quiet, and no change examines
    /// many.
    fn forget_quiet(&mut self, now: Duration) {
        for _ in 0..2 {
            let Some(dir) = self.order.pop_front() else {
                return;
            };
            let last = self.watched[&dir].at;
            let is_quiet = now.saturating_sub(last) >= SHARED_QUIET;
            if is_quiet || self.watched.len() >= DIRECTORIES_WATCHED {
                self.watched.remove(&dir);
            } else {
                self.order.push_back(dir);
            }
        }
    }

    pub fn is_shared(&self, dir: InodeId, now: Duration) -> bool {
        let last = self.watched.get(&dir);
        last.is_some_and(|last| last.is_shared && now.saturating_sub(last.at) < SHARED_QUIET)
    }

    /// The number of directories whose last changes are remembered.
    #[cfg(test)]
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// The number of directories that are shared.
    pub fn count(&self, now: Duration) -> usize {
        let directories = self.watched.keys();
        directories.filter(|dir| self.is_shared(**dir, now)).count()
    }
}
