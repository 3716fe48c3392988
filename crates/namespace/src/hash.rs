//! The position of a name in its directory: a keyed hash, so that users cannot choose names that collide.

use gupfs_proto::{InodeId, Name, VirtualShard, VirtualShards};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// A name's hash has this many bits, so that with 8 bits of rank a readdir cookie stays a positive i64.
const HASH_BITS: u32 = 55;
const RANK_BITS: u32 = 8;
const _: () = assert!(HASH_BITS + RANK_BITS == 63);

/// Top 55 bits of SipHash-2-4 with the directory's salt; never 0, because small cookies mean start, "." and "..".
pub(crate) fn name_hash(salt: u64, name: &Name) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(salt, !salt);
    hasher.write(name.as_bytes());
    (hasher.finish() >> (u64::BITS - HASH_BITS)).max(1)
}

/// The salt of a new directory: it cannot be computed without the parent's salt. A replayed mkdir after a power loss produces the
/// same salt, otherwise a listing that continues at an earlier cookie would return entries twice or not at all.
pub(crate) fn child_salt(parent: u64, ino: InodeId) -> u64 {
    // The key halves differ from those for names, because clients see the hashes of names.
    let mut hasher = SipHasher24::new_with_keys(parent, parent.rotate_left(32));
    hasher.write(&ino.0.to_le_bytes());
    hasher.finish()
}

/// Purposes of `derive_random`.
const FOR_SHARD: u8 = 1;
const FOR_SALT: u8 = 2;

/// A random shard, for a new directory.
pub(crate) fn random_shard(entropy: u64, shards: VirtualShards) -> VirtualShard {
    VirtualShard((derive_random(entropy, FOR_SHARD) % u64::from(shards.0)) as u16)
}

/// A random salt, for a directory whose parent's salt is not known.
pub(crate) fn random_salt(entropy: u64) -> u64 {
    derive_random(entropy, FOR_SALT)
}

/// Derives independent random numbers, one per purpose, from the one that the driver provides for each attempt.
fn derive_random(entropy: u64, purpose: u8) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(entropy, u64::from(purpose));
    hasher.write_u8(purpose);
    hasher.finish()
}

/// The position after which readdir continues: the entry with this hash and this rank among equal hashes (ascending names).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReaddirCookie {
    pub hash: u64,
    pub rank: u8,
}

impl ReaddirCookie {
    /// None for the start (0) and for "." and ".." (1, 2), after which all entries come.
    pub fn decode(cookie: u64) -> Option<ReaddirCookie> {
        let hash = cookie >> RANK_BITS;
        (hash != 0).then_some(ReaddirCookie {
            hash,
            rank: (cookie & 0xff) as u8,
        })
    }

    pub fn encode(self) -> u64 {
        self.hash << RANK_BITS | u64::from(self.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readdir_cookies_are_positive_and_above_those_of_the_dot_entries() {
        for text in ["a", "b", "a name of some length"] {
            let hash = name_hash(42, &Name::new(text.as_bytes()).unwrap());
            let cookie = ReaddirCookie { hash, rank: 255 };
            assert_eq!(ReaddirCookie::decode(cookie.encode()), Some(cookie));
            assert!(cookie.encode() > 2 && cookie.encode() <= i64::MAX as u64);
        }
        assert_eq!((0..3).filter_map(ReaddirCookie::decode).count(), 0);
        assert!(ReaddirCookie { hash: 1, rank: 0 }.encode() > 2);
    }

    #[test]
    fn a_directorys_salt_depends_on_its_parents_salt_and_its_number() {
        let salt = child_salt(7, InodeId(100));
        assert_eq!(salt, child_salt(7, InodeId(100)));
        assert_ne!(salt, child_salt(8, InodeId(100)));
        assert_ne!(salt, child_salt(7, InodeId(101)));
    }

    #[test]
    fn a_names_hash_depends_on_the_salt_and_never_changes() {
        let name = Name::new(b"results.dat").unwrap();
        assert_ne!(name_hash(1, &name), name_hash(2, &name));
        // The format: a directory written today is read by every later version.
        assert_eq!(name_hash(1, &name), NAME_HASH_OF_RESULTS_DAT);
    }

    const NAME_HASH_OF_RESULTS_DAT: u64 = 25_769_553_786_281_746;
}
