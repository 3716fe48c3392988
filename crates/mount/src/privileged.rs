//! # privileged: files that the kernel may believe to have setuid or setgid
//!
//! Owns   the list of regular files whose attributes were given with one of the two bits and a lifetime.
//! Never  talks to the kernel or a server.
//! Enter  at `Privileged::given` before an answer that carries attributes, at `take` after a change that takes the bits away.
//!
//! With HANDLE_KILLPRIV_V2 the servers clear setuid and setgid when an unprivileged process writes; Linux then drops size and
//! times of its cached attributes and keeps the mode, which stat(2) and execve(2) would go on believing for its lifetime.
//! So the kernel must be told. It is told only of files in this list: a notification for each write of each ordinary file
//! would cost a system call and the question for new attributes.

use crate::limits::PRIVILEGED_MAX;
use gupfs_platform::BootTime;
use gupfs_proto::{Attr, FileKind, InodeId, Mode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub struct Privileged {
    /// How long the kernel believes attributes. Zero: it asks each time, and there is nothing to remember.
    lifetime: Duration,
    /// Files in the list, to be looked at without its lock.
    count: AtomicUsize,
    /// When each was given last.
    known: Mutex<BTreeMap<InodeId, BootTime>>,
}

impl Privileged {
    pub fn new(lifetime: Duration) -> Privileged {
        Privileged {
            lifetime,
            count: AtomicUsize::new(0),
            known: Mutex::default(),
        }
    }

    /// Attributes are about to be given: how long the kernel may believe them.
    pub fn given(&self, attr: &Attr, now: impl FnOnce() -> BootTime) -> Duration {
        let bits = attr.mode.0 & (Mode::SETUID | Mode::SETGID);
        if bits == 0 || attr.kind != FileKind::Regular || self.lifetime.is_zero() {
            return self.lifetime;
        }
        let now = now();
        let mut known = self.known.lock();
        if known.len() >= PRIVILEGED_MAX && !known.contains_key(&attr.ino) {
            // What was given longer ago the kernel does not believe any more.
            known.retain(|_, given| now.since(*given) <= self.lifetime);
        }
        let lifetime = if known.len() < PRIVILEGED_MAX || known.contains_key(&attr.ino) {
            known.insert(attr.ino, now);
            self.lifetime
        } else {
            Duration::ZERO
        };
        self.count.store(known.len(), Ordering::Release);
        lifetime
    }

    /// The bits may have gone: whether the kernel must be told. The file leaves the list until it is given again.
    pub fn take(&self, ino: InodeId) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut known = self.known.lock();
        let was = known.remove(&ino).is_some();
        self.count.store(known.len(), Ordering::Release);
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
            mode: Mode(mode),
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
    fn only_regular_files_with_setuid_or_setgid_are_remembered_and_once() {
        let privileged = Privileged::new(LIFETIME);
        privileged.given(&attr(1, FileKind::Regular, 0o755), at(0));
        privileged.given(&attr(2, FileKind::Directory, 0o2755), at(0));
        privileged.given(&attr(3, FileKind::Regular, 0o4755), at(0));
        privileged.given(&attr(4, FileKind::Regular, 0o2755), at(0));
        let taken = [1, 2, 3, 4, 3].map(|ino| privileged.take(InodeId(ino)));
        assert_eq!(taken, [false, false, true, true, false]);
    }

    #[test]
    fn what_the_kernel_does_not_keep_needs_no_place() {
        let privileged = Privileged::new(Duration::ZERO);
        privileged.given(&attr(3, FileKind::Regular, 0o4755), at(0));
        assert!(!privileged.take(InodeId(3)));
    }

    #[test]
    fn when_the_list_is_full_more_files_get_no_lifetime_until_the_first_are_old() {
        let privileged = Privileged::new(LIFETIME);
        let given = |ino: u64, seconds| {
            privileged.given(&attr(ino, FileKind::Regular, 0o4755), at(seconds))
        };
        for ino in 0..PRIVILEGED_MAX as u64 {
            assert_eq!(given(ino, 0), LIFETIME);
        }
        assert_eq!(given(1 << 40, 20), Duration::ZERO);
        assert_eq!(given(5, 20), LIFETIME, "it has its place");
        assert_eq!(given(1 << 40, 21), LIFETIME);
        assert!(privileged.take(InodeId(5)) && !privileged.take(InodeId(6)));
    }
}
