//! # interest: on what a session may have leases or locks, as records say it
//!
//! Owns   how coarse these records are, and which changes and locks wait for a session because of them.
//! Never  reads or writes a record, or knows which sessions are alive.
//! Enter  at `Interest::of_lease`, `Interest::of_lock`; after a take-over at `InterestSet`.
//!
//! Leases and locks are in the memory of the metadata server. Where another server may go on at any moment, it must know for which sessions
//! a change or a lock has to wait until they have reconnected. A record for each lease would cost more than the lease saves: one stands for
//! a directory with all its names, or for all leases on `1 << FILES_SHIFT` files with consecutive numbers, and stays when the leases are gone.

use gupfs_proto::InodeId;
use gupfs_proto::lease::LeaseKey;
use std::collections::BTreeSet;

/// Files that are created one after the other have consecutive numbers, so one record is written for 16 new files.
const FILES_SHIFT: u32 = 4;

/// What one record stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interest {
    /// The attributes and the names of a directory.
    Directory(InodeId),
    /// The attributes and data of everything else among the inodes with these numbers, divided by 16.
    Files(u64),
    /// Locks on a file.
    Locks(InodeId),
    /// Locks on any files: the session has had locks on too many.
    AllLocks,
}

impl Interest {
    pub fn of_lease(key: LeaseKey, is_directory: bool) -> Interest {
        match key {
            LeaseKey::Names(dir) | LeaseKey::Name { dir, .. } => Interest::Directory(dir),
            LeaseKey::Attributes(ino) if is_directory => Interest::Directory(ino),
            LeaseKey::Attributes(ino) | LeaseKey::Data(ino) => Interest::files(ino),
        }
    }

    pub fn of_lock(ino: InodeId) -> Interest {
        Interest::Locks(ino)
    }

    pub fn is_of_locks(self) -> bool {
        matches!(self, Interest::Locks(_) | Interest::AllLocks)
    }

    fn files(ino: InodeId) -> Interest {
        Interest::Files(ino.0 >> FILES_SHIFT)
    }

    /// As the key of a record has it: a letter and a number.
    pub(crate) fn to_parts(self) -> (u8, u64) {
        match self {
            Interest::Directory(ino) => (b'd', ino.0),
            Interest::Files(number) => (b'f', number),
            Interest::Locks(ino) => (b'l', ino.0),
            Interest::AllLocks => (b'l', 0),
        }
    }

    /// None if no record has these.
    pub(crate) fn from_parts(letter: u8, number: u64) -> Option<Interest> {
        match letter {
            b'd' => Some(Interest::Directory(InodeId(number))),
            b'f' => Some(Interest::Files(number)),
            b'l' if number == 0 => Some(Interest::AllLocks),
            b'l' => Some(Interest::Locks(InodeId(number))),
            _ => None,
        }
    }
}

/// What the records say of one session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InterestSet(BTreeSet<Interest>);

impl InterestSet {
    pub fn insert(&mut self, interest: Interest) {
        self.0.insert(interest);
    }

    pub fn iter(&self) -> impl Iterator<Item = Interest> + '_ {
        self.0.iter().copied()
    }

    /// Whether the session may have a lease on one of these keys.
    pub fn has_leases_on(&self, keys: &[LeaseKey]) -> bool {
        let names = |key: &LeaseKey| match key {
            LeaseKey::Names(dir) | LeaseKey::Name { dir, .. } => Some(*dir),
            LeaseKey::Attributes(_) | LeaseKey::Data(_) => None,
        };
        let directories: BTreeSet<InodeId> = keys.iter().filter_map(names).collect();
        keys.iter().any(|key| {
            let ino = key.inode();
            self.0.contains(&Interest::Directory(ino))
                || !directories.contains(&ino) && self.0.contains(&Interest::files(ino))
        })
    }

    /// Whether the session may have a lock on this file.
    pub fn has_locks_on(&self, ino: InodeId) -> bool {
        self.0.contains(&Interest::AllLocks) || self.0.contains(&Interest::Locks(ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: InodeId = InodeId(0x500);
    const FILE: InodeId = InodeId(0x1234);

    fn set(keys: &[(LeaseKey, bool)]) -> InterestSet {
        let mut set = InterestSet::default();
        for (key, is_directory) in keys {
            set.insert(Interest::of_lease(*key, *is_directory));
        }
        set
    }

    #[test]
    fn a_lease_is_found_by_a_change_of_the_same_thing() {
        let name = LeaseKey::Name { dir: DIR, hash: 7 };
        for (key, is_directory) in [
            (LeaseKey::Names(DIR), true),
            (name, true),
            (LeaseKey::Attributes(DIR), true),
            (LeaseKey::Attributes(FILE), false),
            (LeaseKey::Data(FILE), false),
        ] {
            assert!(set(&[(key, is_directory)]).has_leases_on(&[key]), "{key:?}");
        }
        // A new name changes the attributes of its directory, too.
        let create = [name, LeaseKey::Attributes(DIR)];
        assert!(set(&[(LeaseKey::Attributes(DIR), true)]).has_leases_on(&create));
        // Nothing tells that the changed inode is a directory.
        let chmod = [LeaseKey::Attributes(DIR)];
        assert!(set(&[(LeaseKey::Names(DIR), true)]).has_leases_on(&chmod));
    }

    #[test]
    fn a_neighbour_of_a_leased_file_waits_and_a_neighbour_of_a_leased_directory_does_not() {
        let neighbour = |ino: InodeId| InodeId(ino.0 + 1);
        let files = set(&[(LeaseKey::Attributes(FILE), false)]);
        assert!(files.has_leases_on(&[LeaseKey::Data(neighbour(FILE))]));
        assert!(!files.has_leases_on(&[LeaseKey::Data(InodeId(FILE.0 + 16))]));
        let directory = set(&[
            (LeaseKey::Names(DIR), true),
            (LeaseKey::Attributes(DIR), true),
        ]);
        let dir = neighbour(DIR);
        let create = [LeaseKey::Name { dir, hash: 7 }, LeaseKey::Attributes(dir)];
        assert!(!directory.has_leases_on(&create));
        // A file of the same number range as another directory that gets a name.
        let mixed = set(&[(LeaseKey::Attributes(neighbour(DIR)), false)]);
        let create = [
            LeaseKey::Name { dir: DIR, hash: 7 },
            LeaseKey::Attributes(DIR),
        ];
        assert!(!mixed.has_leases_on(&create));
    }

    #[test]
    fn a_lock_is_found_by_a_lock_on_the_same_file_alone() {
        let mut set = InterestSet::default();
        set.insert(Interest::of_lock(FILE));
        assert!(set.has_locks_on(FILE) && !set.has_locks_on(InodeId(FILE.0 + 1)));
        assert!(!set.has_leases_on(&[LeaseKey::Attributes(FILE)]));
        set.insert(Interest::AllLocks);
        assert!(set.has_locks_on(InodeId(FILE.0 + 1)));
    }
}
