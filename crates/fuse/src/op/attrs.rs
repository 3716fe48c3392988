//! Operations on attributes.

use crate::values::FuseTimestamp;
use crate::wire::{Cursor, FromWire, GetattrFlags, Malformed, SetattrValid};
use crate::{FileHandle, LockOwner};

/// GETATTR: for stat(2), and when the kernel revalidates attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Getattr {
    pub flags: GetattrFlags,
    /// Set for fstat(2) of an open file.
    pub fh: Option<FileHandle>,
}

impl FromWire for Getattr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Getattr, Malformed> {
        let flags = GetattrFlags::from_bits_retain(body.u32("flags")?);
        body.skip(4)?;
        let fh = FileHandle(body.u64("fh")?);
        Ok(Getattr {
            flags,
            fh: flags.contains(GetattrFlags::FH).then_some(fh),
        })
    }
}

/// STATX, for fields that GETATTR does not have. After one ENOSYS the kernel uses GETATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statx {
    pub getattr_flags: GetattrFlags,
    pub fh: Option<FileHandle>,
    /// AT_STATX_…
    pub flags: u32,
    /// STATX_…: the requested fields.
    pub mask: u32,
}

impl FromWire for Statx {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Statx, Malformed> {
        let getattr_flags = GetattrFlags::from_bits_retain(body.u32("getattr flags")?);
        body.skip(4)?;
        let fh = FileHandle(body.u64("fh")?);
        let flags = body.u32("flags")?;
        let mask = body.u32("mask")?;
        Ok(Statx {
            getattr_flags,
            fh: getattr_flags.contains(GetattrFlags::FH).then_some(fh),
            flags,
            mask,
        })
    }
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The current time of the server's clock.
    Now,
    At(FuseTimestamp),
}

/// SETATTR: chmod, chown, truncate and utimensat in one request. The raw fields are as received; the methods return the fields
/// that are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setattr {
    pub valid: SetattrValid,
    pub raw_fh: FileHandle,
    pub raw_size: u64,
    pub raw_lock_owner: LockOwner,
    pub raw_atime: FuseTimestamp,
    pub raw_mtime: FuseTimestamp,
    pub raw_ctime: FuseTimestamp,
    pub raw_mode: u32,
    pub raw_uid: u32,
    pub raw_gid: u32,
}

impl FromWire for Setattr {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Setattr, Malformed> {
        let valid = SetattrValid::from_bits_retain(body.u32("valid")?);
        body.skip(4)?;
        let raw_fh = FileHandle(body.u64("fh")?);
        let raw_size = body.u64("size")?;
        let raw_lock_owner = LockOwner(body.u64("lock owner")?);
        let seconds = [body.u64("atime")?, body.u64("mtime")?, body.u64("ctime")?];
        let nanos = [
            body.u32("atime ns")?,
            body.u32("mtime ns")?,
            body.u32("ctime ns")?,
        ];
        let raw_mode = body.u32("mode")?;
        body.skip(4)?;
        let raw_uid = body.u32("uid")?;
        let raw_gid = body.u32("gid")?;
        body.skip(4)?;
        // Seconds are transferred as the bits of a signed number: files may be older than 1970.
        let time = |index: usize| FuseTimestamp {
            seconds: seconds[index] as i64,
            nanos: nanos[index],
        };
        Ok(Setattr {
            valid,
            raw_fh,
            raw_size,
            raw_lock_owner,
            raw_atime: time(0),
            raw_mtime: time(1),
            raw_ctime: time(2),
            raw_mode,
            raw_uid,
            raw_gid,
        })
    }
}

impl Setattr {
    fn if_valid<T>(&self, bit: SetattrValid, value: T) -> Option<T> {
        self.valid.contains(bit).then_some(value)
    }

    /// File type and permission bits.
    pub fn mode(&self) -> Option<u32> {
        self.if_valid(SetattrValid::MODE, self.raw_mode)
    }

    pub fn uid(&self) -> Option<u32> {
        self.if_valid(SetattrValid::UID, self.raw_uid)
    }

    pub fn gid(&self) -> Option<u32> {
        self.if_valid(SetattrValid::GID, self.raw_gid)
    }

    pub fn size(&self) -> Option<u64> {
        self.if_valid(SetattrValid::SIZE, self.raw_size)
    }

    /// Set for ftruncate(2) of an open file.
    pub fn fh(&self) -> Option<FileHandle> {
        self.if_valid(SetattrValid::FH, self.raw_fh)
    }

    pub fn lock_owner(&self) -> Option<LockOwner> {
        self.if_valid(SetattrValid::LOCKOWNER, self.raw_lock_owner)
    }

    pub fn atime(&self) -> Option<SetTime> {
        self.time(SetattrValid::ATIME, SetattrValid::ATIME_NOW, self.raw_atime)
    }

    pub fn mtime(&self) -> Option<SetTime> {
        self.time(SetattrValid::MTIME, SetattrValid::MTIME_NOW, self.raw_mtime)
    }

    pub fn ctime(&self) -> Option<FuseTimestamp> {
        self.if_valid(SetattrValid::CTIME, self.raw_ctime)
    }

    /// The caller has no CAP_FSETID: a change of size clears setuid and setgid.
    pub fn kill_suidgid(&self) -> bool {
        self.valid.contains(SetattrValid::KILL_SUIDGID)
    }

    fn time(&self, bit: SetattrValid, now: SetattrValid, at: FuseTimestamp) -> Option<SetTime> {
        self.if_valid(
            bit,
            if self.valid.contains(now) {
                SetTime::Now
            } else {
                SetTime::At(at)
            },
        )
    }
}

/// access(2), only without default_permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// R_OK, W_OK, X_OK.
    pub mask: u32,
}

impl FromWire for Access {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Access, Malformed> {
        let mask = body.u32("mask")?;
        body.skip(4)?;
        Ok(Access { mask })
    }
}
