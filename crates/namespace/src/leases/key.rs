//! A lease's key in 16 bytes.

use gupfs_proto::InodeId;
use gupfs_proto::lease::LeaseKey;

/// A key in the table's order: by inode, and of a directory first its names by their hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PackedKey {
    ino: InodeId,
    /// The hash of a name, or one of the numbers below, above every hash.
    part: u64,
}

const NAMES: u64 = u64::MAX - 2;
const ATTRIBUTES: u64 = u64::MAX - 1;
const DATA: u64 = u64::MAX;

impl PackedKey {
    pub fn unpack(self) -> LeaseKey {
        match self.part {
            NAMES => LeaseKey::Names(self.ino),
            ATTRIBUTES => LeaseKey::Attributes(self.ino),
            DATA => LeaseKey::Data(self.ino),
            hash => LeaseKey::Name {
                dir: self.ino,
                hash,
            },
        }
    }

    /// The directory whose listing has this name; None for other keys.
    pub fn directory_of_name(self) -> Option<InodeId> {
        (self.part < NAMES).then_some(self.ino)
    }
}

impl From<LeaseKey> for PackedKey {
    /// # Panics
    /// When a name's hash is none: hashes have 55 bits (`hash`).
    fn from(key: LeaseKey) -> PackedKey {
        let part = match key {
            LeaseKey::Names(_) => NAMES,
            LeaseKey::Attributes(_) => ATTRIBUTES,
            LeaseKey::Data(_) => DATA,
            LeaseKey::Name { hash, .. } => {
                assert!(hash < NAMES, "{hash:x} is not the hash of a name");
                hash
            }
        };
        PackedKey {
            ino: key.inode(),
            part,
        }
    }
}

/// The keys of leases that a change of these keys breaks: a changed name also ends the listing of its directory. Sorted, each once.
pub(super) fn broken_by(keys: &[LeaseKey]) -> Vec<PackedKey> {
    let mut broken: Vec<PackedKey> = keys.iter().map(|key| PackedKey::from(*key)).collect();
    let listings = broken.iter().filter_map(|key| key.directory_of_name());
    let listings: Vec<_> = listings
        .map(|dir| PackedKey::from(LeaseKey::Names(dir)))
        .collect();
    broken.extend(listings);
    broken.sort_unstable();
    broken.dedup();
    broken
}
