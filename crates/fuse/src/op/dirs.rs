//! Reading directories.

use super::Read;
use crate::FileHandle;
use crate::wire::{Cursor, FromWire, Malformed};

/// READDIR and READDIRPLUS: entries after `offset`, up to `size` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readdir {
    pub fh: FileHandle,
    /// 0, or the offset of an entry, after which the listing continues.
    pub offset: u64,
    /// Largest reply in bytes.
    pub size: u32,
}

impl FromWire for Readdir {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Readdir, Malformed> {
        // The same layout as READ; the other fields have no meaning for a directory.
        let Read {
            fh, offset, size, ..
        } = Read::from_wire(body)?;
        Ok(Readdir { fh, offset, size })
    }
}
