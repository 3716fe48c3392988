//! What the kernel (or another user of this library) still knows, and what of it has lost its last name: pure.
//!
//! An inode without a name lives until nobody knows it: no lookup is outstanding and no file of it is open. The
//! ledger says when that is; whoever asked it tells the metadata server (`forgets`).
//!
//! Where another client took the name, this kernel knows nothing of it and may remember the inode for ever: then only what
//! is open counts.

use gupfs_platform::hash::Map;
use gupfs_proto::InodeId;

#[derive(Default)]
pub struct Ledger {
    known: Map<InodeId, Known>,
}

#[derive(Default)]
struct Known {
    /// Entries handed out, less those given back.
    lookups: u64,
    /// Open files, and files whose end the server has not been told yet.
    opens: u64,
    orphan: bool,
    /// Another client took the last name.
    removed: bool,
}

/// The inode has no name and nobody knows it any more: say so to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Gone(pub InodeId);

impl Ledger {
    /// An entry was handed out.
    pub fn gave(&mut self, ino: InodeId) {
        self.known.entry(ino).or_default().lookups += 1;
    }

    /// `count` entries were given back. More than were given count as all.
    pub fn forgot(&mut self, ino: InodeId, count: u64) -> Option<Gone> {
        let known = self.known.get_mut(&ino)?;
        known.lookups = known.lookups.saturating_sub(count);
        self.settle(ino)
    }

    pub fn opened(&mut self, ino: InodeId) {
        self.known.entry(ino).or_default().opens += 1;
    }

    pub fn closed(&mut self, ino: InodeId) -> Option<Gone> {
        let known = self.known.get_mut(&ino)?;
        known.opens = known.opens.saturating_sub(1);
        self.settle(ino)
    }

    /// The last name went, or there never was one.
    pub fn orphaned(&mut self, ino: InodeId) -> Option<Gone> {
        self.known.entry(ino).or_default().orphan = true;
        self.settle(ino)
    }

    /// Another client took the last name. Whether the file is open here: then it goes with its last close.
    pub fn removed(&mut self, ino: InodeId) -> bool {
        match self.known.get_mut(&ino) {
            Some(known) if known.opens > 0 => {
                known.removed |= !known.orphan;
                known.orphan = true;
                true
            }
            _ => false,
        }
    }

    /// It has a name (again).
    pub fn named(&mut self, ino: InodeId) {
        if let Some(known) = self.known.get_mut(&ino) {
            known.orphan = false;
        }
    }

    /// Inodes known, and how many of them have no name.
    pub fn counts(&self) -> (usize, usize) {
        let orphans = self.known.values().filter(|known| known.orphan).count();
        (self.known.len(), orphans)
    }

    /// All orphans: when the session ends, nobody will know them.
    pub fn end(&mut self) -> Vec<Gone> {
        let mut orphans: Vec<InodeId> = self
            .known
            .drain()
            .filter(|(_, known)| known.orphan)
            .map(|(ino, _)| ino)
            .collect();
        orphans.sort_unstable();
        orphans.into_iter().map(Gone).collect()
    }

    /// The session was lost, and the server holds nothing for us any more.
    pub fn lose(&mut self) {
        for known in self.known.values_mut() {
            known.orphan = false;
            known.removed = false;
        }
    }

    fn settle(&mut self, ino: InodeId) -> Option<Gone> {
        let known = self.known.get_mut(&ino)?;
        if known.opens > 0 {
            return None;
        }
        let is_known = known.lookups > 0;
        if is_known && !known.removed {
            return None;
        }
        known.removed = false;
        let orphan = std::mem::take(&mut known.orphan);
        if !is_known {
            self.known.remove(&ino);
        }
        orphan.then_some(Gone(ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InodeId = InodeId(7);

    #[test]
    fn an_orphan_goes_with_its_last_lookup_and_not_before() {
        let mut ledger = Ledger::default();
        ledger.gave(A);
        ledger.gave(A);
        assert_eq!(ledger.orphaned(A), None);
        assert_eq!(ledger.forgot(A, 1), None);
        assert_eq!(ledger.forgot(A, 1), Some(Gone(A)));
        assert_eq!(ledger.counts(), (0, 0));
    }

    #[test]
    fn an_open_file_outlives_its_lookups() {
        let mut ledger = Ledger::default();
        ledger.gave(A);
        ledger.opened(A);
        assert_eq!(ledger.orphaned(A), None);
        assert_eq!(ledger.forgot(A, 1), None);
        assert_eq!(ledger.closed(A), Some(Gone(A)));
    }

    #[test]
    fn a_file_that_another_removed_counts_as_open_and_not_as_known() {
        let mut ledger = Ledger::default();
        ledger.gave(A);
        assert!(!ledger.removed(A));
        ledger.opened(A);
        assert!(ledger.removed(A));
        assert!(ledger.removed(A), "asked again");
        // The kernel may never forget it.
        assert_eq!(ledger.closed(A), Some(Gone(A)));
        assert!(!ledger.removed(A));
        assert_eq!(ledger.forgot(A, 1), None);
        assert_eq!(ledger.counts(), (0, 0));
    }

    #[test]
    fn what_nobody_knows_goes_at_once() {
        assert_eq!(Ledger::default().orphaned(A), Some(Gone(A)));
    }

    #[test]
    fn a_file_that_got_a_name_again_stays() {
        let mut ledger = Ledger::default();
        ledger.gave(A);
        assert_eq!(ledger.orphaned(A), None);
        ledger.named(A);
        assert_eq!(ledger.forgot(A, 1), None);
    }

    #[test]
    fn a_named_file_is_forgotten_in_silence() {
        let mut ledger = Ledger::default();
        ledger.gave(A);
        assert_eq!(ledger.forgot(A, 1), None);
        assert_eq!(ledger.forgot(A, 1), None);
        assert_eq!(ledger.counts(), (0, 0));
    }

    #[test]
    fn at_the_end_all_orphans_go() {
        let mut ledger = Ledger::default();
        ledger.gave(A);
        ledger.gave(InodeId(8));
        ledger.opened(InodeId(9));
        assert_eq!(ledger.orphaned(A), None);
        assert_eq!(ledger.orphaned(InodeId(9)), None);
        assert_eq!(ledger.end(), [Gone(A), Gone(InodeId(9))]);
    }
}
