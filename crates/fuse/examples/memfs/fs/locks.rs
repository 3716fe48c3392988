//! POSIX locks and flock of one file.

use gupfs_fuse::op::{FileLock, Lock, LockKind};
use gupfs_fuse::{Errno, LockOwner, Result};

#[derive(Default)]
pub struct Locks(Vec<Held>);

#[derive(Clone, Copy)]
struct Held {
    owner: LockOwner,
    flock: bool,
    lock: FileLock,
}

impl Held {
    fn conflicts(&self, with: &Lock) -> bool {
        self.owner != with.owner
            && self.flock == with.is_flock()
            && self.overlaps(&with.lock)
            && (self.lock.kind == LockKind::Write || with.lock.kind == LockKind::Write)
    }

    fn overlaps(&self, range: &FileLock) -> bool {
        self.lock.start <= range.end && range.start <= self.lock.end
    }

    /// What is left of this lock on both sides of `range`.
    fn around(self, range: &FileLock) -> impl Iterator<Item = Held> {
        let before = (self.lock.start < range.start).then(|| Held {
            lock: FileLock {
                end: range.start - 1,
                ..self.lock
            },
            ..self
        });
        let after = (self.lock.end > range.end).then(|| Held {
            lock: FileLock {
                start: range.end + 1,
                ..self.lock
            },
            ..self
        });
        before.into_iter().chain(after)
    }
}

impl Locks {
    /// The lock in the way, or none.
    pub fn holder(&self, asked: &Lock) -> FileLock {
        let found = self.0.iter().find(|held| held.conflicts(asked));
        found.map_or(
            FileLock {
                kind: LockKind::Unlock,
                ..asked.lock
            },
            |held| held.lock,
        )
    }

    /// Locks or unlocks; EAGAIN if another is in the way. The answer says if somebody may go on who waits.
    pub fn set(&mut self, asked: &Lock) -> Result<bool> {
        if asked.lock.kind != LockKind::Unlock && self.0.iter().any(|held| held.conflicts(asked)) {
            return Err(Errno::EAGAIN);
        }
        let mut released = false;
        let held = std::mem::take(&mut self.0);
        for held in held {
            let same = held.owner == asked.owner
                && held.flock == asked.is_flock()
                && held.overlaps(&asked.lock);
            if same {
                released = true;
                self.0.extend(held.around(&asked.lock));
            } else {
                self.0.push(held);
            }
        }
        if asked.lock.kind != LockKind::Unlock {
            self.0.push(Held {
                owner: asked.owner,
                flock: asked.is_flock(),
                lock: asked.lock,
            });
        }
        Ok(released)
    }

    /// `true` if there were any.
    pub fn release_all(&mut self, owner: LockOwner, flock: bool) -> bool {
        let before = self.0.len();
        self.0
            .retain(|held| held.owner != owner || held.flock != flock);
        self.0.len() != before
    }
}
