//! Lock files: flock(2) for one process at a time, and the holder's pid in the file, for the error message of a second process.

use super::super::path::check_path;
use super::super::{DiskErrorKind, Result};
use super::{RealDisk, failed};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;

/// The open descriptor has the lock: the kernel releases it when the process ends, in any way.
pub(crate) struct RealLock {
    _fd: OwnedFd,
}

impl RealDisk {
    pub async fn lock_exclusive(&self, path: &str) -> Result<RealLock> {
        check_path(path);
        let lock = |errno| failed("lock", path, errno);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = rustix::fs::openat(&self.root, path, flags, mode).map_err(lock)?;
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let holder = DiskErrorKind::Locked(holder(&fd));
                return Err(lock(rustix::io::Errno::WOULDBLOCK).with_kind(holder));
            }
            Err(errno) => return Err(lock(errno)),
        }
        // Not synced: the pid is only for error messages.
        rustix::fs::ftruncate(&fd, 0).map_err(lock)?;
        let pid = format!("{}\n", std::process::id());
        rustix::io::pwrite(&fd, pid.as_bytes(), 0).map_err(lock)?;
        Ok(RealLock { _fd: fd })
    }
}

/// None if the holder has not written its pid yet.
fn holder(fd: &OwnedFd) -> Option<u32> {
    let mut text = [0u8; 16];
    let got = rustix::io::pread(fd, &mut text[..], 0).ok()?;
    std::str::from_utf8(&text[..got]).ok()?.trim().parse().ok()
}
