//! The size of a file, and what failed writes left in objects behind its end.

use gupfs_proto::FileOffset;
use std::ops::Range;

#[derive(Default)]
pub struct FileSize {
    /// The end of the file. Always right for a loaded authoritative state, since every change passes through here.
    size: FileOffset,
    /// End of the bytes in objects that may never have become part of the file: leftovers of a write that failed or was dropped.
    leftover_end: FileOffset,
    /// The server has recorded a pending truncate of these leftovers, because an OST refused to truncate them. Until the server
    /// answers that it is done the file must not grow: the server's truncate would remove what it grew by.
    has_pending_truncate: bool,
}

impl FileSize {
    /// The server's answer: there are no leftovers.
    pub fn load(&mut self, size: FileOffset) {
        *self = FileSize {
            size,
            leftover_end: size,
            has_pending_truncate: false,
        };
    }

    pub fn get(&self) -> FileOffset {
        self.size
    }

    /// Bytes up to `end` are part of the file.
    pub fn grow(&mut self, end: FileOffset) {
        self.size = self.size.max(end);
        self.leftover_end = self.leftover_end.max(self.size);
    }

    /// The server has written inline data: the size is this.
    pub fn set_inline(&mut self, size: FileOffset) {
        self.size = size;
        self.leftover_end = size;
    }

    /// Objects may get bytes up to `end` that do not become part of the file.
    pub fn extend_leftovers(&mut self, end: FileOffset) {
        self.leftover_end = self.leftover_end.max(end);
    }

    pub fn leftovers(&self) -> Option<Range<FileOffset>> {
        (self.leftover_end > self.size).then_some(self.size..self.leftover_end)
    }

    /// The leftovers are part of the file: where other clients write it too, bytes behind the end that is known here may be theirs.
    pub fn adopt_leftovers(&mut self) {
        self.size = self.size.max(self.leftover_end);
    }

    pub fn leftovers_truncated(&mut self) {
        self.leftover_end = self.size;
    }

    pub fn has_pending_truncate(&self) -> bool {
        self.has_pending_truncate
    }

    pub fn set_pending_truncate(&mut self) {
        self.has_pending_truncate = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_failed_write_are_leftovers_until_the_file_grows_over_them() {
        let mut size = FileSize::default();
        size.load(FileOffset(100));
        assert_eq!(size.leftovers(), None);
        size.extend_leftovers(FileOffset(300));
        assert_eq!(size.leftovers(), Some(FileOffset(100)..FileOffset(300)));
        size.grow(FileOffset(200));
        assert_eq!(size.leftovers(), Some(FileOffset(200)..FileOffset(300)));
        size.grow(FileOffset(50));
        assert_eq!(
            size.get(),
            FileOffset(200),
            "a write before the end keeps the size"
        );
        size.leftovers_truncated();
        assert_eq!((size.get(), size.leftovers()), (FileOffset(200), None));
    }

    #[test]
    fn leftovers_become_part_of_a_file_that_others_write_too() {
        let mut size = FileSize::default();
        size.load(FileOffset(100));
        size.adopt_leftovers();
        assert_eq!(size.get(), FileOffset(100));
        size.extend_leftovers(FileOffset(300));
        size.adopt_leftovers();
        assert_eq!((size.get(), size.leftovers()), (FileOffset(300), None));
    }

    #[test]
    fn a_load_ends_a_pending_truncate() {
        let mut size = FileSize::default();
        size.extend_leftovers(FileOffset(300));
        size.set_pending_truncate();
        size.load(FileOffset(100));
        assert!(!size.has_pending_truncate());
        assert_eq!(size.leftovers(), None);
    }
}
