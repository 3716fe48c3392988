//! Operations on a file's space: allocation, holes, copies.

use crate::wire::{Cursor, FromWire, Malformed};
use crate::{FileHandle, NodeId};

/// fallocate(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallocate {
    pub fh: FileHandle,
    pub offset: u64,
    pub length: u64,
    /// FALLOC_FL_…
    pub mode: u32,
}

impl FromWire for Fallocate {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Fallocate, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        let offset = body.u64("offset")?;
        let length = body.u64("length")?;
        let mode = body.u32("mode")?;
        body.skip(4)?;
        Ok(Fallocate {
            fh,
            offset,
            length,
            mode,
        })
    }
}

/// lseek(2) with SEEK_DATA or SEEK_HOLE; the kernel handles the other modes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lseek {
    pub fh: FileHandle,
    pub offset: u64,
    /// SEEK_…
    pub whence: u32,
}

impl FromWire for Lseek {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Lseek, Malformed> {
        let fh = FileHandle(body.u64("fh")?);
        let offset = body.u64("offset")?;
        let whence = body.u32("whence")?;
        body.skip(4)?;
        Ok(Lseek { fh, offset, whence })
    }
}

/// copy_file_range(2) from `Call::node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyFileRange {
    pub fh: FileHandle,
    pub offset: u64,
    pub to_node: NodeId,
    pub to_fh: FileHandle,
    pub to_offset: u64,
    /// The copied length may be smaller. The reply to the older form of the request is limited to 4 GiB − 1; `length` is
    /// reduced to that, so the reply always fits.
    pub length: u64,
    pub flags: u64,
}

impl FromWire for CopyFileRange {
    fn from_wire(body: &mut Cursor<'_>) -> Result<CopyFileRange, Malformed> {
        Ok(CopyFileRange {
            fh: FileHandle(body.u64("fh in")?),
            offset: body.u64("offset in")?,
            to_node: NodeId(body.u64("node out")?),
            to_fh: FileHandle(body.u64("fh out")?),
            to_offset: body.u64("offset out")?,
            length: body.u64("length")?,
            flags: body.u64("flags")?,
        })
    }
}

/// FIBMAP; only for mounts of block devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bmap {
    pub block: u64,
    pub block_size: u32,
}

impl FromWire for Bmap {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Bmap, Malformed> {
        let block = body.u64("block")?;
        let block_size = body.u32("block size")?;
        body.skip(4)?;
        Ok(Bmap { block, block_size })
    }
}
