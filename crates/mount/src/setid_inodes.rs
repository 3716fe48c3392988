//! # setid_inodes: files for which the kernel may have cached setuid or setgid
//!
//! Owns   the list of regular files whose attributes went to the kernel with one of the two bits and a lifetime.
//! Never  talks to the kernel or a server.
//! Enter  at `SetidInodes::attr_lifetime` before a reply with attributes, at `remove` after a change that clears the bits.
//!
//! With HANDLE_KILLPRIV_V2 the servers clear setuid and setgid when an unprivileged process writes; Linux then drops size and
//! times of its cached attributes but keeps the mode, which stat(2) and execve(2) would use for its lifetime. So the mount must
//! invalidate it. It does so only for files in this list: a notification for each write of each ordinary file would cost a system
//! call and a GETATTR.

use crate::limits::SETID_INODES_MAX;
use gupfs_platform::BootTime;
use gupfs_proto::{Attr, FileKind, FileMode, InodeId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub struct SetidInodes {
    /// How long the kernel caches attributes. Zero: it requests them each time, and the list stays empty.
    lifetime: Duration,
    /// Number of files in the list, readable without its lock.
    count: AtomicUsize,
    /// When each file's attributes last went to the kernel.
    given_at: Mutex<BTreeMap<InodeId, BootTime>>,
}

impl SetidInodes {
    pub fn new(lifetime: Duration) -> SetidInodes {
        SetidInodes {
            lifetime,
            count: AtomicUsize::new(0),
            given_at: Mutex::default(),
        }
    }

    /// How long the kernel may cache the attributes of a reply; remembers the file if it has one of the bits.
    pub fn attr_lifetime(&self, attr: &Attr, now: impl FnOnce() -> BootTime) -> Duration {
        let bits = attr.mode.0 & (FileMode::SETUID | FileMode::SETGID);
        if bits == 0 || attr.kind != FileKind::Regular || self.lifetime.is_zero() {
            return self.lifetime;
        }
        let now = now();
        let mut given_at = self.given_at.lock();
        if given_at.len() >= SETID_INODES_MAX && !given_at.contains_key(&attr.ino) {
            // The kernel's copies of older attributes have expired.
            given_at.retain(|_, given| now.since(*given) <= self.lifetime);
        }
        let lifetime = if given_at.len() < SETID_INODES_MAX || given_at.contains_key(&attr.ino) {
            given_at.insert(attr.ino, now);
            self.lifetime
        } else {
            Duration::ZERO
        };
        self.count.store(given_at.len(), Ordering::Release);
        lifetime
    }

    /// The bits may have been cleared: whether the kernel's attributes must be invalidated. Removes the file from the list.
    pub fn remove(&self, ino: InodeId) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut given_at = self.given_at.lock();
        let was = given_at.remove(&ino).is_some();
        self.count.store(given_at.len(), Ordering::Release);
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::attr::InodeFlags;
    use gupfs_proto::{ProjectId, Timestamp, VolumeId};

    const LIFETIME: Duration = Duration::from_secs(20);

    fn attr(ino: u64, kind: FileKind, mode: u16) -> Attr {
        let time = Timestamp::default();
        Attr {
            ino: InodeId(ino),
            kind,
            mode: FileMode(mode),
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            change: 0,
            flags: InodeFlags::empty(),
            project: ProjectId(0),
            volume: VolumeId(0),
        }
    }

    fn at(seconds: u64) -> impl Fn() -> BootTime {
        move || BootTime::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn only_regular_files_with_setuid_or_setgid_are_remembered() {
        let setid_inodes = SetidInodes::new(LIFETIME);
        setid_inodes.attr_lifetime(&attr(1, FileKind::Regular, 0o755), at(0));
        setid_inodes.attr_lifetime(&attr(2, FileKind::Directory, 0o2755), at(0));
        setid_inodes.attr_lifetime(&attr(3, FileKind::Regular, 0o4755), at(0));
        setid_inodes.attr_lifetime(&attr(4, FileKind::Regular, 0o2755), at(0));
        let taken = [1, 2, 3, 4, 3].map(|ino| setid_inodes.remove(InodeId(ino)));
        assert_eq!(taken, [false, false, true, true, false]);
    }

    #[test]
    fn attributes_without_a_lifetime_are_not_remembered() {
        let setid_inodes = SetidInodes::new(Duration::ZERO);
        setid_inodes.attr_lifetime(&attr(3, FileKind::Regular, 0o4755), at(0));
        assert!(!setid_inodes.remove(InodeId(3)));
    }

    #[test]
    fn a_full_list_gives_no_lifetime_until_old_entries_expire() {
        let setid_inodes = SetidInodes::new(LIFETIME);
        let given = |ino: u64, seconds| {
            setid_inodes.attr_lifetime(&attr(ino, FileKind::Regular, 0o4755), at(seconds))
        };
        for ino in 0..SETID_INODES_MAX as u64 {
            assert_eq!(given(ino, 0), LIFETIME);
        }
        assert_eq!(given(1 << 40, 20), Duration::ZERO);
        assert_eq!(given(5, 20), LIFETIME, "the file is already in the list");
        assert_eq!(given(1 << 40, 21), LIFETIME);
        assert!(setid_inodes.remove(InodeId(5)) && !setid_inodes.remove(InodeId(6)));
    }
}
