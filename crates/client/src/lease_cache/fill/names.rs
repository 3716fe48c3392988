//! What a reply fills into the names and listings.

use super::Filling;
use crate::lease_cache::listing::Listing;
use crate::lease_cache::order::CacheKey;
use crate::limits::LISTING_MAX;
use gupfs_namespace::ReaddirCookie;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::meta::DirEntry;
use gupfs_proto::{Attr, FileKind, InodeId, Name};

impl Filling<'_> {
    /// A name of which the reply says to which inode it refers, or that there is none.
    pub(super) fn fill_name(&mut self, dir: InodeId, name: &Name, target: Option<&Attr>) {
        let key = CacheKey::Name(dir, name.clone());
        let ino = target.map(|attr| attr.ino);
        if let Some(hash) = self.granted_hash(dir, name)
            && self.may_fill(&key)
            && self.may_fill(&CacheKey::NameHash(dir, hash))
        {
            let is_directory = target.is_some_and(|attr| attr.kind == FileKind::Directory);
            self.values.names.put(dir, name, hash, ino, is_directory);
            self.fill_listed_name(dir, name, ino);
            self.kept.push(key);
            return;
        }
        // The program sees this: an older value must not follow.
        let names = &mut self.values.names;
        if names.target(dir, name).is_some_and(|known| known != ino) {
            names.remove(dir, name);
        }
        let listing = self.values.listings.peek(&dir);
        let listed = listing.and_then(|listing| listing.target(name));
        if listed.is_some_and(|known| known != ino) {
            self.values.listings.remove(&dir);
        }
    }

    /// The listing stays, with this name as the reply says: the lease on it is unbroken, and other changes of this client that are under way
    /// are of other names.
    fn fill_listed_name(&mut self, dir: InodeId, name: &Name, target: Option<InodeId>) {
        let key = CacheKey::Names(dir);
        if !self.own.keys.contains(&key) || self.renames_within(dir) {
            return;
        }
        if self.set_listed_target(dir, name, target) {
            self.kept.push(key);
        }
    }

    /// The listings of both directories stay after a rename. The reply needs no grant for that: while this change is under way no listing of
    /// them is filled, so one that is here has been leased without a break since before it.
    pub(super) fn fill_moved_name(
        &mut self,
        (from, name): (InodeId, &Name),
        (to, new_name): (InodeId, &Name),
        ino: InodeId,
    ) {
        let told = [(from, name, None), (to, new_name, Some(ino))];
        let may_fill = |(dir, name, _): &(InodeId, &Name, Option<InodeId>)| {
            self.may_fill(&CacheKey::Name(*dir, (*name).clone()))
        };
        if !told.iter().all(may_fill) {
            return;
        }
        for dir in [from, to] {
            let mut of_dir = told.iter().filter(|(of, ..)| *of == dir);
            let stays = of_dir.all(|(_, name, target)| self.set_listed_target(dir, name, *target));
            if stays {
                self.kept.push(CacheKey::Names(dir));
            }
        }
    }

    /// Returns whether the listing is complete, and not too long.
    fn set_listed_target(&mut self, dir: InodeId, name: &Name, target: Option<InodeId>) -> bool {
        let mut stays = false;
        self.values.listings.update(&dir, |listing| {
            stays = listing.set_target(name, target) && listing.len() <= LISTING_MAX;
            listing_weight(listing)
        });
        stays
    }

    /// This client has made the directory, and no client has changed its names since.
    pub(super) fn fill_new_directory(&mut self, dir: InodeId) {
        if self.grants.contains(&LeaseKey::Names(dir)) && self.may_fill(&CacheKey::Names(dir)) {
            let listing = Listing::of_new_directory();
            let weight = listing_weight(&listing);
            self.values.listings.insert(dir, listing, weight);
        }
    }

    /// The hash of the name, if a lease on it was granted. A reply grants at most two names of a directory, and does not say which is which:
    /// then the hash must be known.
    fn granted_hash(&self, dir: InodeId, name: &Name) -> Option<u64> {
        let bounds = |hash| LeaseKey::Name { dir, hash };
        let mut granted = self.grants.range(bounds(0)..=bounds(u64::MAX));
        match (granted.next(), granted.next()) {
            (Some(LeaseKey::Name { hash, .. }), None) if !self.renames_within(dir) => Some(*hash),
            _ => {
                let hash = self.values.names.hash(dir, name)?;
                self.grants.contains(&bounds(hash)).then_some(hash)
            }
        }
    }

    /// Whether the change affects two names of this directory.
    fn renames_within(&self, dir: InodeId) -> bool {
        let names_it = |key: &&CacheKey| matches!(key, CacheKey::Name(of, _) if *of == dir);
        self.own.keys.iter().filter(names_it).count() > 1
    }

    pub(super) fn fill_names(&mut self, dir: InodeId, entries: &[DirEntry]) {
        for entry in entries {
            let Some(hash) = ReaddirCookie::decode(entry.cookie).map(|cookie| cookie.hash) else {
                continue;
            };
            let name = &entry.name;
            if self.grants.contains(&LeaseKey::Name { dir, hash })
                && self.may_fill(&CacheKey::Name(dir, name.clone()))
                && self.may_fill(&CacheKey::NameHash(dir, hash))
            {
                let is_directory = entry.kind == FileKind::Directory;
                let names = &mut self.values.names;
                names.put(dir, name, hash, Some(entry.ino), is_directory);
            } else if self.values.names.target(dir, name) != Some(Some(entry.ino)) {
                self.values.names.remove(dir, name);
            }
        }
    }

    pub(super) fn fill_listing(
        &mut self,
        dir: InodeId,
        after: u64,
        entries: &[DirEntry],
        end: bool,
    ) {
        let granted = self.grants.contains(&LeaseKey::Names(dir));
        let listings = &mut self.values.listings;
        if !granted
            || !self
                .values
                .order
                .may_fill(&CacheKey::Names(dir), self.sent, &self.own)
        {
            listings.remove(&dir);
            return;
        }
        if after == 0 && listings.peek(&dir).is_none() {
            listings.insert(dir, Default::default(), 1);
        }
        let mut is_too_long = false;
        listings.update(&dir, |listing| {
            listing.add_page(after, entries, end);
            is_too_long = listing.len() > LISTING_MAX;
            listing_weight(listing)
        });
        if is_too_long {
            listings.remove(&dir);
        }
    }
}

fn listing_weight(listing: &Listing) -> usize {
    1 + listing.len().min(LISTING_MAX)
}
