//! Lookup counts of the inodes that the kernel (or another user of this library) knows, and which of them are orphans. Pure.
//!
//! An inode without a name exists until it has no lookups and is not open. The functions here return a `ForgottenOrphan` at that
//! moment; their caller sends it to the metadata server (`forget_queue`).
//!
//! Where another client removed the name, this kernel does not know of that and may keep its lookups without a bound: then only
//! open files count.

use gupfs_platform::hash::Map;
use gupfs_proto::InodeId;

#[derive(Default)]
pub struct LookupCounts {
    inodes: Map<InodeId, InodeRefs>,
}

#[derive(Default)]
struct InodeRefs {
    /// FUSE's nlookup: entries given to the kernel, less those that it has forgotten.
    lookups: u64,
    /// Open files, and closed files whose last report the server has not accepted yet.
    opens: u64,
    orphan: bool,
    /// Another client removed the last name.
    removed_elsewhere: bool,
}

/// The inode has no name, no lookups and no open file here any more: to be sent to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct ForgottenOrphan(pub InodeId);

impl LookupCounts {
    /// An entry was given to the kernel.
    pub fn add_lookup(&mut self, ino: InodeId) {
        self.inodes.entry(ino).or_default().lookups += 1;
    }

    /// The kernel dropped `count` lookups. More than it has count as all.
    pub fn forget(&mut self, ino: InodeId, count: u64) -> Option<ForgottenOrphan> {
        let known = self.inodes.get_mut(&ino)?;
        known.lookups = known.lookups.saturating_sub(count);
        self.take_if_forgotten(ino)
    }

    /// The kernel has entries of the inode, or is about to get one.
    pub fn has_lookups(&self, ino: InodeId) -> bool {
        (self.inodes.get(&ino)).is_some_and(|known| known.lookups > 0)
    }

    /// The inode has lookups or is open.
    pub fn is_known(&self, ino: InodeId) -> bool {
        self.inodes.contains_key(&ino)
    }

    pub fn add_open(&mut self, ino: InodeId) {
        self.inodes.entry(ino).or_default().opens += 1;
    }

    pub fn remove_open(&mut self, ino: InodeId) -> Option<ForgottenOrphan> {
        let known = self.inodes.get_mut(&ino)?;
        known.opens = known.opens.saturating_sub(1);
        self.take_if_forgotten(ino)
    }

    /// The last name was removed, or there never was one.
    pub fn set_orphan(&mut self, ino: InodeId) -> Option<ForgottenOrphan> {
        self.inodes.entry(ino).or_default().orphan = true;
        self.take_if_forgotten(ino)
    }

    /// Another client removed the last name. Returns whether the file is open here: then its last close makes it a forgotten
    /// orphan.
    pub fn set_removed_elsewhere(&mut self, ino: InodeId) -> bool {
        match self.inodes.get_mut(&ino) {
            Some(known) if known.opens > 0 => {
                known.removed_elsewhere |= !known.orphan;
                known.orphan = true;
                true
            }
            _ => false,
        }
    }

    /// Makes a forgotten orphan that was opened again, by its number, an orphan until its next last close; returns whether it was.
    pub fn keep_if_open_again(&mut self, forgotten: InodeId) -> bool {
        self.set_removed_elsewhere(forgotten)
    }

    /// It has a name (again).
    pub fn clear_orphan(&mut self, ino: InodeId) {
        if let Some(known) = self.inodes.get_mut(&ino) {
            known.orphan = false;
        }
    }

    /// Inodes known, and how many of them have no name.
    pub fn counts(&self) -> (usize, usize) {
        let orphans = self.inodes.values().filter(|known| known.orphan).count();
        (self.inodes.len(), orphans)
    }

    /// Removes and returns all orphans: the session ends, and with it their lookups and open files.
    pub fn drain_orphans(&mut self) -> Vec<ForgottenOrphan> {
        let mut orphans: Vec<InodeId> = self
            .inodes
            .drain()
            .filter(|(_, known)| known.orphan)
            .map(|(ino, _)| ino)
            .collect();
        orphans.sort_unstable();
        orphans.into_iter().map(ForgottenOrphan).collect()
    }

    /// The session was lost, and the server keeps no orphans for it any more.
    pub fn clear_orphans(&mut self) {
        for known in self.inodes.values_mut() {
            known.orphan = false;
            known.removed_elsewhere = false;
        }
    }

    fn take_if_forgotten(&mut self, ino: InodeId) -> Option<ForgottenOrphan> {
        let known = self.inodes.get_mut(&ino)?;
        if known.opens > 0 {
            return None;
        }
        let is_known = known.lookups > 0;
        if is_known && !known.removed_elsewhere {
            return None;
        }
        known.removed_elsewhere = false;
        let orphan = std::mem::take(&mut known.orphan);
        if !is_known {
            self.inodes.remove(&ino);
        }
        orphan.then_some(ForgottenOrphan(ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InodeId = InodeId(7);

    #[test]
    fn an_orphan_goes_with_its_last_lookup_and_not_before() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_lookup(A);
        lookup_counts.add_lookup(A);
        assert_eq!(lookup_counts.set_orphan(A), None);
        assert_eq!(lookup_counts.forget(A, 1), None);
        assert_eq!(lookup_counts.forget(A, 1), Some(ForgottenOrphan(A)));
        assert_eq!(lookup_counts.counts(), (0, 0));
    }

    #[test]
    fn an_orphan_that_is_opened_again_before_the_server_knows_is_forgotten_with_its_last_close() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_open(A);
        assert_eq!(lookup_counts.set_orphan(A), None);
        let forgotten = Some(ForgottenOrphan(A));
        assert_eq!(lookup_counts.remove_open(A), forgotten);
        assert!(!lookup_counts.keep_if_open_again(A));
        lookup_counts.add_open(A);
        assert!(lookup_counts.keep_if_open_again(A));
        assert_eq!(lookup_counts.remove_open(A), forgotten);
    }

    #[test]
    fn an_open_file_outlives_its_lookups() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_lookup(A);
        lookup_counts.add_open(A);
        assert_eq!(lookup_counts.set_orphan(A), None);
        assert_eq!(lookup_counts.forget(A, 1), None);
        assert_eq!(lookup_counts.remove_open(A), Some(ForgottenOrphan(A)));
    }

    #[test]
    fn a_file_that_another_client_removed_goes_with_its_last_close() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_lookup(A);
        assert!(!lookup_counts.set_removed_elsewhere(A));
        lookup_counts.add_open(A);
        assert!(lookup_counts.set_removed_elsewhere(A));
        assert!(lookup_counts.set_removed_elsewhere(A), "called twice");
        // The kernel may keep its lookup without a bound.
        assert_eq!(lookup_counts.remove_open(A), Some(ForgottenOrphan(A)));
        assert!(!lookup_counts.set_removed_elsewhere(A));
        assert_eq!(lookup_counts.forget(A, 1), None);
        assert_eq!(lookup_counts.counts(), (0, 0));
    }

    #[test]
    fn an_orphan_without_lookups_goes_at_once() {
        assert_eq!(
            LookupCounts::default().set_orphan(A),
            Some(ForgottenOrphan(A))
        );
    }

    #[test]
    fn a_file_that_got_a_name_again_stays() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_lookup(A);
        assert_eq!(lookup_counts.set_orphan(A), None);
        lookup_counts.clear_orphan(A);
        assert_eq!(lookup_counts.forget(A, 1), None);
    }

    #[test]
    fn forgetting_a_file_with_a_name_reports_nothing() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_lookup(A);
        assert_eq!(lookup_counts.forget(A, 1), None);
        assert_eq!(lookup_counts.forget(A, 1), None);
        assert_eq!(lookup_counts.counts(), (0, 0));
    }

    #[test]
    fn drain_orphans_returns_all_orphans() {
        let mut lookup_counts = LookupCounts::default();
        lookup_counts.add_lookup(A);
        lookup_counts.add_lookup(InodeId(8));
        lookup_counts.add_open(InodeId(9));
        assert_eq!(lookup_counts.set_orphan(A), None);
        assert_eq!(lookup_counts.set_orphan(InodeId(9)), None);
        assert_eq!(
            lookup_counts.drain_orphans(),
            [ForgottenOrphan(A), ForgottenOrphan(InodeId(9))]
        );
    }
}
