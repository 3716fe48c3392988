//! The complete listing of a directory, put together from the pages of a readdir. All pages are read under one unbroken lease on the
//! directory's names, so they are parts of one state of the directory, in whatever order several readers fetch them.

use gupfs_proto::meta::DirEntry;
use gupfs_proto::{InodeId, Name};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Listing {
    /// In the order of their cookies, without attributes.
    entries: Vec<DirEntry>,
    complete: bool,
    /// Once it is complete: where in `entries` each name is.
    by_name: BTreeMap<Name, u32>,
}

impl Listing {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The cookie up to which all entries are here.
    fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.cookie)
    }

    /// Adds a page that begins behind the cookie `after`. A page that leaves a gap adds nothing.
    pub fn add_page(&mut self, after: u64, page: &[DirEntry], end: bool) {
        let last = self.last();
        if self.complete || after > last {
            return;
        }
        let new = page.iter().filter(|entry| entry.cookie > last);
        self.entries.extend(new.map(|entry| DirEntry {
            attr: None,
            ..entry.clone()
        }));
        if end {
            self.complete = true;
            let numbered = self.entries.iter().zip(0..);
            self.by_name = numbered
                .map(|(entry, index)| (entry.name.clone(), index))
                .collect();
        }
    }

    /// The entries of a page, and whether nothing follows. None until the listing is complete.
    pub fn page(&self, after: u64, limit: usize) -> Option<(&[DirEntry], bool)> {
        if !self.complete {
            return None;
        }
        let from = self.entries.partition_point(|entry| entry.cookie <= after);
        let to = (from + limit.max(1)).min(self.entries.len());
        Some((&self.entries[from..to], to == self.entries.len()))
    }

    /// The inode that a name refers to, or none. None until the listing is complete.
    pub fn target(&self, name: &Name) -> Option<Option<InodeId>> {
        if !self.complete {
            return None;
        }
        let index = self.by_name.get(name);
        Some(index.map(|index| self.entries[*index as usize].ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::FileKind;

    fn entries(cookies: std::ops::Range<u64>) -> Vec<DirEntry> {
        let entry = |cookie| DirEntry {
            name: name(cookie),
            ino: InodeId(cookie),
            kind: FileKind::Regular,
            cookie,
            attr: None,
        };
        cookies.map(entry).collect()
    }

    fn name(cookie: u64) -> Name {
        Name::new(format!("n{cookie}").as_bytes()).unwrap()
    }

    #[test]
    fn pages_of_several_readers_make_one_listing() {
        let mut listing = Listing::default();
        listing.add_page(20, &entries(21..30), false);
        assert_eq!(listing.len(), 0, "a page in the middle");
        listing.add_page(0, &entries(10..20), false);
        listing.add_page(0, &entries(10..15), false);
        listing.add_page(14, &entries(15..25), false);
        assert_eq!((listing.len(), listing.page(0, 100)), (15, None));
        assert_eq!(listing.target(&name(12)), None);
        listing.add_page(24, &entries(25..27), true);
        assert_eq!(listing.page(0, 100), Some((&entries(10..27)[..], true)));
        assert_eq!(listing.page(15, 4), Some((&entries(16..20)[..], false)));
        assert_eq!(listing.page(26, 4), Some((&[][..], true)));
        assert_eq!(listing.target(&name(26)), Some(Some(InodeId(26))));
        assert_eq!(listing.target(&name(27)), Some(None));
    }

    #[test]
    fn an_empty_directory_has_a_complete_listing() {
        let mut listing = Listing::default();
        listing.add_page(0, &[], true);
        assert_eq!(listing.page(0, 4), Some((&[][..], true)));
    }
}
