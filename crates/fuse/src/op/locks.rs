//! POSIX locks, OFD locks and flock.

use crate::wire::{Cursor, FromWire, LockFlags, Malformed};
use crate::{FileHandle, LockOwner};

/// Shared, exclusive, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    Read,
    Write,
    Unlock,
}

impl LockKind {
    fn from_raw(raw: u32) -> Option<LockKind> {
        match raw as i32 {
            libc::F_RDLCK => Some(LockKind::Read),
            libc::F_WRLCK => Some(LockKind::Write),
            libc::F_UNLCK => Some(LockKind::Unlock),
            _ => None,
        }
    }

    pub(crate) fn raw(self) -> u32 {
        let raw = match self {
            LockKind::Read => libc::F_RDLCK,
            LockKind::Write => libc::F_WRLCK,
            LockKind::Unlock => libc::F_UNLCK,
        };
        raw as u32
    }
}

/// A byte range of a file and the kind of lock on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLock {
    pub start: u64,
    /// The last byte of the range, inclusive; `FileLock::EOF` for a lock to the end of the file, wherever that will be.
    pub end: u64,
    pub kind: LockKind,
    /// The process that holds the lock; used in the reply to GETLK.
    pub pid: u32,
}

impl FileLock {
    /// The largest offset.
    pub const EOF: u64 = i64::MAX as u64;
}

/// GETLK, SETLK and SETLKW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    pub fh: FileHandle,
    pub owner: LockOwner,
    pub lock: FileLock,
    pub flags: LockFlags,
}

impl FromWire for Lock {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Lock, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        let owner = LockOwner(body.u64("owner")?);
        let start = body.u64("start")?;
        let end = body.u64("end")?;
        let raw = body.u32("type")?;
        let kind = LockKind::from_raw(raw).ok_or(Malformed::Count {
            field: "type",
            stated: raw as usize,
            limit: 2,
        })?;
        let pid = body.u32("pid")?;
        let flags = LockFlags::from_bits_retain(body.u32("lock flags")?);
        body.skip(4)?;
        Ok(Lock {
            fh,
            owner,
            lock: FileLock {
                start,
                end,
                kind,
                pid,
            },
            flags,
        })
    }
}

impl Lock {
    /// Whether it is flock(2): it locks the entire file, and the owner is the open file.
    pub fn is_flock(&self) -> bool {
        self.flags.contains(LockFlags::FLOCK)
    }
}
