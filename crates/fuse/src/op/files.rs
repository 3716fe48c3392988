//! Operations on open files.

use super::EntryName;
use crate::buffer::Payload;
use crate::wire::{
    Cursor, FromWire, FsyncFlags, Malformed, OpenFlags, ReadFlags, ReleaseFlags, WriteFlags,
};
use crate::{FileHandle, LockOwner};

/// OPEN and OPENDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// O_… flags of the program, without O_CREAT, O_EXCL, O_NOCTTY; with O_TRUNC if ATOMIC_O_TRUNC was negotiated.
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

/// open(2) with O_CREAT of a name that the kernel does not know: create if absent (with O_EXCL fail if present), and open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    pub name: EntryName,
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
            name: EntryName::from_wire(body)?,
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
        // The same layout as CREATE; the kernel sends a placeholder as name.
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

/// Bytes of a file: `size` of them, or fewer at the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub fh: FileHandle,
    pub offset: u64,
    pub size: u32,
    /// Without LOCKOWNER the read is for the page cache.
    pub flags: ReadFlags,
    pub lock_owner: Option<LockOwner>,
    /// Current O_… flags of the open file.
    pub open_flags: u32,
}

impl FromWire for Read {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Read, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
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
    /// Whether it is a program's direct read that bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.flags.contains(ReadFlags::LOCKOWNER)
    }
}

/// Bytes to write to a file.
#[derive(Debug)]
pub struct Write {
    pub fh: FileHandle,
    /// With O_APPEND in `open_flags`: the end of the file as the kernel has it cached.
    pub offset: u64,
    pub flags: WriteFlags,
    pub lock_owner: Option<LockOwner>,
    /// Current O_… flags of the open file.
    pub open_flags: u32,
    pub data: Payload,
}

/// The fixed part of WRITE; the data follows it in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteHead {
    pub fh: FileHandle,
    pub offset: u64,
    pub size: usize,
    pub flags: WriteFlags,
    pub lock_owner: Option<LockOwner>,
    pub open_flags: u32,
}

impl FromWire for WriteHead {
    fn from_wire(body: &mut Cursor<'_>) -> Result<WriteHead, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
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

/// close(2) of one descriptor of an open file, which may have others; the program receives the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    pub fh: FileHandle,
    /// All POSIX locks of this owner on the file are released with it.
    pub lock_owner: LockOwner,
}

impl FromWire for Flush {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Flush, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        body.skip(8)?;
        Ok(Flush {
            fh,
            lock_owner: LockOwner(body.u64("lock owner")?),
        })
    }
}

/// The last descriptor and mapping of an open file (or directory) is gone. No program waits for the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    pub fh: FileHandle,
    /// O_… flags of the open file.
    pub open_flags: u32,
    pub flags: ReleaseFlags,
    pub lock_owner: LockOwner,
}

impl FromWire for Release {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Release, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
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
    pub fh: FileHandle,
    pub flags: FsyncFlags,
}

impl FromWire for Fsync {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Fsync, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        let flags = FsyncFlags::from_bits_retain(body.u32("fsync flags")?);
        body.skip(4)?;
        Ok(Fsync { fh, flags })
    }
}

impl Fsync {
    /// Whether it is fdatasync(2).
    pub fn data_only(&self) -> bool {
        self.flags.contains(FsyncFlags::DATASYNC)
    }
}
