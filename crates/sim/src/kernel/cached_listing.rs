//! The names of a directory in its page cache.

use gupfs_fuse::FuseTimestamp;

/// A name of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedName {
    pub name: Vec<u8>,
    pub ino: u64,
    /// The file type of a mode, shifted to the right by 12 bits.
    pub kind: u32,
    /// Where the listing continues.
    pub(super) offset: u64,
}

/// The names of a directory in its page cache, from the beginning.
pub struct CachedListing {
    names: Vec<ListedName>,
    /// The last name is the directory's last.
    is_complete: bool,
    /// The directory when the listing began.
    changes: u64,
    mtime: FuseTimestamp,
}

impl CachedListing {
    pub fn new(changes: u64, mtime: FuseTimestamp) -> CachedListing {
        CachedListing {
            names: Vec::new(),
            is_complete: false,
            changes,
            mtime,
        }
    }

    /// Whether the directory has not changed since the listing began.
    pub fn is_current(&self, changes: u64, mtime: FuseTimestamp) -> bool {
        (self.changes, self.mtime) == (changes, mtime)
    }

    /// The names after an offset; None if not all of them are cached.
    pub fn names_after(&self, offset: u64) -> Option<Vec<ListedName>> {
        if !self.is_complete {
            return None;
        }
        let first = match offset {
            0 => 0,
            _ => {
                let before = self.names.iter().take_while(|name| name.offset != offset);
                before.count() + 1
            }
        };
        Some(self.names.iter().skip(first).cloned().collect())
    }

    /// Adds names that the server has after an offset, none at the end, if they continue the cached ones.
    pub fn add(&mut self, offset: u64, names: &[ListedName]) {
        let end = self.names.last().map_or(0, |name| name.offset);
        if end == offset && !self.is_complete {
            self.names.extend_from_slice(names);
            self.is_complete = names.is_empty();
        }
    }
}
