//! One process at a time: flock(2) on the directory itself, so that nothing is written before it is known to be ours.

use super::{Home, cannot};
use crate::exit::{Outcome, Trouble};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;

/// Held until dropped or until the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _fd: OwnedFd,
}

impl Lock {
    pub fn take(home: &Home) -> Outcome<Lock> {
        Lock::attempt(home)?.ok_or_else(|| {
            let who = match holder(home) {
                Some(pid) => format!("process {pid}"),
                None => "another process".into(),
            };
            Trouble::new(format!("'{}' is in use by {who}", home.root().display())).todo(format!(
                "look at it with `gupfs status {0}`, or stop it with `gupfs stop {0}`",
                home.root().display()
            ))
        })
    }

    /// None if another process holds it.
    pub fn attempt(home: &Home) -> Outcome<Option<Lock>> {
        let failed = |errno: rustix::io::Errno| cannot("lock", home.root(), &errno.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(home.root(), flags, Mode::empty()).map_err(failed)?;
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _fd: fd })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }
}

/// The pid that the holder left for people; None if it left none.
pub fn holder(home: &Home) -> Option<u32> {
    std::fs::read_to_string(home.pid())
        .ok()?
        .trim()
        .parse()
        .ok()
}
