//! One segment of an object: its file, if it is open, with its length and space.

use gupfs_platform::{DiskFile, DiskStat};
use std::ops::Range;

#[derive(Default)]
pub(super) struct SegmentFile {
    pub file: Option<DiskFile>,
    /// Used since the table last checked which files to close.
    pub used: bool,
    pub len: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
}

impl SegmentFile {
    pub fn new(stat: &DiskStat, file: Option<DiskFile>) -> SegmentFile {
        SegmentFile {
            file,
            used: true,
            len: stat.len,
            blocks: stat.allocated / 512,
        }
    }

    /// Updates length and space after a write of `range`; false if only the file system knows the space.
    pub fn note_write(&mut self, range: &Range<u64>) -> bool {
        let whole = |len: u64| len.next_multiple_of(4096) / 512;
        let dense = self.blocks >= whole(self.len) && range.start <= self.len;
        self.len = self.len.max(range.end);
        if dense {
            self.blocks = self.blocks.max(whole(self.len));
        }
        dense
    }
}
