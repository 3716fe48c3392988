//! POSIX locks, OFD locks and flock.

use crate::wire::{Cursor, FromWire, LockFlags, Malformed};
use crate::{Handle, LockOwner};

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

/// A range of a file and what is locked there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLock {
    pub start: u64,
    /// The last byte, itself included; `FileLock::EOF` for "to the end, wherever that will be".
    pub end: u64,
    pub kind: LockKind,
    /// The process that holds it; counts in the answer to GETLK.
    pub pid: u32,
}

impl FileLock {
    /// The largest offset there is.
    pub const EOF: u64 = i64::MAX as u64;
}

/// GETLK, SETLK and SETLKW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    pub fh: Handle,
    pub owner: LockOwner,
    pub lock: FileLock,
    pub flags: LockFlags,
}

impl FromWire for Lock {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Lock, Malformed> {
        let fh = Handle(body.u64("fh")?);
        let owner = LockOwner(body.u64("owner")?);
        let start = body.u64("start")?;
        let end = body.u64("end")?;
        let raw = body.u32("type")?;
        let kind = LockKind::from_raw(raw).ok_or(Malformed::Count {
            field: "type",
            said: raw as usize,
            room: 2,
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
    /// flock(2), on the whole file; the owner is the open file.
    pub fn is_flock(&self) -> bool {
        self.flags.contains(LockFlags::FLOCK)
    }
}
