//! Reading directories.

use super::Read;
use crate::Handle;
use crate::wire::{Cursor, FromWire, Malformed};

/// READDIR and READDIRPLUS: entries after `offset`, as many as fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readdir {
    pub fh: Handle,
    /// 0, or the offset that an entry came with: go on after it.
    pub offset: u64,
    /// Bytes that the answer may have.
    pub size: u32,
}

impl FromWire for Readdir {
    fn from_wire(body: &mut Cursor<'_>) -> Result<Readdir, Malformed> {
        // The same bytes as READ; the rest has no meaning for a directory.
        let Read {
            fh, offset, size, ..
        } = Read::from_wire(body)?;
        Ok(Readdir { fh, offset, size })
    }
}
