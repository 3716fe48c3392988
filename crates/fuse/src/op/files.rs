//! Operations on open files.

use super::Name;
use crate::buffer::Payload;
use crate::wire::{
    Cursor, FromWire, FsyncFlags, Malformed, OpenFlags, ReadFlags, ReleaseFlags, WriteFlags,
};
use crate::{Handle, LockOwner};

/// OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// O_… of the program, without O_CREAT, O_EXCL, O_NOCTTY; with O_TRUNC if ATOMIC_O_TRUNC was agreed on.
    pub flags: u32,
    pub open_flags: OpenFlags,
}

impl FromWire for Open {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Open, Malformed> {
        let flags = body.u32("flags")?;
        Ok(Open {
            flags,
            open_flags: OpenFlags::from_bits_retain(body.u32("open flags")?),
        })
    }
}

/// open(2) with O_CREAT of a name that the kernel does not know: create if absent (O_EXCL: only then), and open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    pub name: Name,
    pub flags: u32,
    pub mode: u32,
    pub umask: u32,
    pub open_flags: OpenFlags,
}

impl FromWire for Create {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Create, Malformed> {
        let flags = body.u32("flags")?;
        let mode = body.u32("mode")?;
        let umask = body.u32("umask")?;
        let open_flags = OpenFlags::from_bits_retain(body.u32("open flags")?);
        Ok(Create {
            name: Name::from_wire(body)?,
            flags,
            mode,
            umask,
            open_flags,
        })
    }
}

/// open(2) with O_TMPFILE in the directory `Call::node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tmpfile {
    pub flags: u32,
    pub mode: u32,
    pub umask: u32,
    pub open_flags: OpenFlags,
}

impl FromWire for Tmpfile {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Tmpfile, Malformed> {
        // The same bytes as CREATE; the name is a placeholder of the kernel's.
        let Create {
            flags,
            mode,
            umask,
            open_flags,
            ..
        } = Create::from_wire(body)?;
        Ok(Tmpfile {
            flags,
            mode,
            umask,
            open_flags,
        })
    }
}

/// Bytes of a file, `size` of them unless it ends before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub fh: Handle,
    pub offset: u64,
    pub size: u32,
    /// Without LOCKOWNER it is the page cache that asks.
    pub flags: ReadFlags,
    pub lock_owner: Option<LockOwner>,
    /// O_… as they are now.
    pub open_flags: u32,
}

impl FromWire for Read {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Read, Malformed> {
        let fh = Handle(body.u64("fh")?);
        let offset = body.u64("offset")?;
        let size = body.u32("size")?;
        let flags = ReadFlags::from_bits_retain(body.u32("read flags")?);
        let owner = LockOwner(body.u64("lock owner")?);
        let open_flags = body.u32("flags")?;
        body.skip(4)?;
        let lock_owner = flags.contains(ReadFlags::LOCKOWNER).then_some(owner);
        Ok(Read {
            fh,
            offset,
            size,
            flags,
            lock_owner,
            open_flags,
        })
    }
}

impl Read {
    /// A program's own read, past the page cache.
    pub fn is_direct(&self) -> bool {
        self.flags.contains(ReadFlags::LOCKOWNER)
    }
}

/// Bytes for a file.
#[derive(Debug)]
pub struct Write {
    pub fh: Handle,
    /// With O_APPEND in `open_flags`: where the kernel believes the end to be.
    pub offset: u64,
    pub flags: WriteFlags,
    pub lock_owner: Option<LockOwner>,
    /// O_… as they are now.
    pub open_flags: u32,
    pub data: Payload,
}

/// WRITE as it lies in the message; the bytes are a range of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteHead {
    pub fh: Handle,
    pub offset: u64,
    pub size: usize,
    pub flags: WriteFlags,
    pub lock_owner: Option<LockOwner>,
    pub open_flags: u32,
}

impl FromWire for WriteHead {
    fn from_wire(body: &mut Cursor<'_>) -> Result<WriteHead, Malformed> {
        let fh = Handle(body.u64("fh")?);
        let offset = body.u64("offset")?;
        let size = body.u32("size")? as usize;
        let flags = WriteFlags::from_bits_retain(body.u32("write flags")?);
        let owner = LockOwner(body.u64("lock owner")?);
        let open_flags = body.u32("flags")?;
        body.skip(4)?;
        body.bytes(size, "data")?;
        let lock_owner = flags.contains(WriteFlags::LOCKOWNER).then_some(owner);
        Ok(WriteHead {
            fh,
            offset,
            size,
            flags,
            lock_owner,
            open_flags,
        })
    }
}

impl WriteHead {
    pub fn with(self, data: Payload) -> Write {
        let WriteHead {
            fh,
            offset,
            flags,
            lock_owner,
            open_flags,
            ..
        } = self;
        Write {
            fh,
            offset,
            flags,
            lock_owner,
            open_flags,
            data,
        }
    }
}

/// close(2) of one of perhaps several descriptors of an open file; the error reaches the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    pub fh: Handle,
    /// All POSIX locks of this owner in the file are gone with it.
    pub lock_owner: LockOwner,
}

impl FromWire for Flush {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Flush, Malformed> {
        let fh = Handle(body.u64("fh")?);
        body.skip(8)?;
        Ok(Flush {
            fh,
            lock_owner: LockOwner(body.u64("lock owner")?),
        })
    }
}

/// The last descriptor and mapping of an open file (or directory) is gone. Nobody waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    pub fh: Handle,
    /// O_…
    pub open_flags: u32,
    pub flags: ReleaseFlags,
    pub lock_owner: LockOwner,
}

impl FromWire for Release {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Release, Malformed> {
        let fh = Handle(body.u64("fh")?);
        let open_flags = body.u32("flags")?;
        let flags = ReleaseFlags::from_bits_retain(body.u32("release flags")?);
        Ok(Release {
            fh,
            open_flags,
            flags,
            lock_owner: LockOwner(body.u64("lock owner")?),
        })
    }
}

/// FSYNC and FSYNCDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fsync {
    pub fh: Handle,
    pub flags: FsyncFlags,
}

impl FromWire for Fsync {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Fsync, Malformed> {
        let fh = Handle(body.u64("fh")?);
        let flags = FsyncFlags::from_bits_retain(body.u32("fsync flags")?);
        body.skip(4)?;
        Ok(Fsync { fh, flags })
    }
}

impl Fsync {
    /// fdatasync.
    pub fn data_only(&self) -> bool {
        self.flags.contains(FsyncFlags::DATASYNC)
    }
}
