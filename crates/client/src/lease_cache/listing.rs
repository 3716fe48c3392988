//! The complete listing of a directory, put together from the pages of a readdir. All pages are read under one unbroken lease on the
//! directory's names, so they are parts of one state of the directory, in whatever order several readers fetch them.

use gupfs_proto::meta::DirEntry;
use gupfs_proto::{InodeId, Name};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Listing {
    /// In the order of their cookies, without attributes. Empty once this client has changed a name: it does not know the new one's cookie.
    entries: Vec<DirEntry>,
    /// What each name refers to, once the listing is complete.
    targets: Option<BTreeMap<Name, InodeId>>,
    /// This client has changed a name since the pages were read.
    is_changed: bool,
}

impl Listing {
    /// The listing of a directory that this client has just made.
    pub fn of_new_directory() -> Listing {
        Listing {
            targets: Some(BTreeMap::new()),
            ..Listing::default()
        }
    }

    pub fn len(&self) -> usize {
        let targets = self.targets.as_ref();
        targets.map_or(self.entries.len(), BTreeMap::len)
    }

    pub fn is_complete(&self) -> bool {
        self.targets.is_some()
    }

    /// The cookie up to which all entries are here.
    fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.cookie)
    }

    /// Adds a page that begins behind the cookie `after`. A page that leaves a gap adds nothing. The first page replaces a listing that has no
    /// pages any more.
    pub fn add_page(&mut self, after: u64, page: &[DirEntry], end: bool) {
        if self.is_changed && after == 0 {
            *self = Listing::default();
        }
        let last = self.last();
        if self.targets.is_some() || after > last {
            return;
        }
        let new = page.iter().filter(|entry| entry.cookie > last);
        self.entries.extend(new.map(|entry| DirEntry {
            attr: None,
            ..entry.clone()
        }));
        if end {
            let targets = self.entries.iter();
            let targets = targets.map(|entry| (entry.name.clone(), entry.ino));
            self.targets = Some(targets.collect());
        }
    }

    /// This client has changed what a name refers to, and no other name. False if the listing is not complete: then its next pages would not
    /// be parts of the same state.
    pub fn set_target(&mut self, name: &Name, target: Option<InodeId>) -> bool {
        let Some(targets) = &mut self.targets else {
            return false;
        };
        match target {
            Some(ino) => targets.insert(name.clone(), ino),
            None => targets.remove(name),
        };
        self.is_changed = true;
        self.entries = Vec::new();
        true
    }

    /// The entries of a page, and whether nothing follows. None until the listing is complete, and when this client has changed a name since.
    pub fn page(&self, after: u64, limit: usize) -> Option<(&[DirEntry], bool)> {
        if self.targets.is_none() || self.is_changed {
            return None;
        }
        let from = self.entries.partition_point(|entry| entry.cookie <= after);
        let to = (from + limit.max(1)).min(self.entries.len());
        Some((&self.entries[from..to], to == self.entries.len()))
    }

    /// The inode that a name refers to, or none. None until the listing is complete.
    pub fn target(&self, name: &Name) -> Option<Option<InodeId>> {
        let targets = self.targets.as_ref()?;
        Some(targets.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::FileKind;

    const INO: InodeId = InodeId(99);

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
        assert_eq!(
            Listing::of_new_directory().page(0, 4),
            Some((&[][..], true))
        );
    }

    #[test]
    fn a_name_that_this_client_changes_leaves_the_other_names_and_no_pages() {
        let mut listing = Listing::default();
        listing.add_page(0, &entries(10..12), false);
        assert!(!listing.set_target(&name(12), Some(InodeId(12))));
        listing.add_page(11, &entries(12..13), true);
        assert!(listing.set_target(&name(10), None) && listing.set_target(&name(20), Some(INO)));
        let targets = [10, 11, 20, 21].map(|cookie| listing.target(&name(cookie)));
        assert_eq!(
            targets,
            [
                Some(None),
                Some(Some(InodeId(11))),
                Some(Some(INO)),
                Some(None)
            ]
        );
        assert_eq!((listing.len(), listing.page(0, 4)), (3, None));
        listing.add_page(11, &entries(12..13), true);
        assert_eq!(listing.page(0, 4), None, "a page in the middle");
        listing.add_page(0, &entries(11..13), false);
        assert_eq!((listing.len(), listing.target(&name(20))), (2, None));
        listing.add_page(12, &entries(20..21), true);
        assert_eq!(listing.page(12, 4), Some((&entries(20..21)[..], true)));
    }
}
