//! Leased names, by directory and name: the inode that each refers to, or that there is none.

use super::lru::Lru;
use gupfs_platform::hash::Map;
use gupfs_proto::{InodeId, Name};
use std::collections::BTreeMap;

pub struct LeasedNames {
    names: Lru<NameKey, LeasedName>,
    /// The names with each hash in each directory, because a revocation names the hash.
    by_hash: BTreeMap<(InodeId, u64), Vec<Name>>,
    /// The name of each directory: it has one. For "..".
    of_directory: Map<InodeId, NameKey>,
}

type NameKey = (InodeId, Name);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LeasedName {
    hash: u64,
    target: Option<InodeId>,
}

impl LeasedNames {
    pub fn new(limit: usize) -> LeasedNames {
        LeasedNames {
            names: Lru::new(limit),
            by_hash: BTreeMap::new(),
            of_directory: Map::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The inode that the name refers to, or none; None if it is not leased.
    pub fn target(&self, dir: InodeId, name: &Name) -> Option<Option<InodeId>> {
        let leased = self.names.peek(&(dir, name.clone()));
        leased.map(|leased| leased.target)
    }

    /// The same, and the name counts as used.
    pub fn use_target(&mut self, dir: InodeId, name: &Name) -> Option<Option<InodeId>> {
        let leased = self.names.get(&(dir, name.clone()));
        leased.map(|leased| leased.target)
    }

    /// The hash of a leased name.
    pub fn hash(&self, dir: InodeId, name: &Name) -> Option<u64> {
        self.names
            .peek(&(dir, name.clone()))
            .map(|leased| leased.hash)
    }

    /// The directory and name of a directory, if that name is leased.
    pub fn name_of_directory(&self, ino: InodeId) -> Option<&NameKey> {
        let key = self.of_directory.get(&ino)?;
        let leased = self.names.peek(key)?;
        (leased.target == Some(ino)).then_some(key)
    }

    pub fn put(
        &mut self,
        dir: InodeId,
        name: &Name,
        hash: u64,
        target: Option<InodeId>,
        is_directory: bool,
    ) {
        let key = (dir, name.clone());
        self.remove(dir, name);
        let with_hash = self.by_hash.entry((dir, hash)).or_default();
        with_hash.push(name.clone());
        if let Some(ino) = target
            && is_directory
        {
            self.of_directory.insert(ino, key.clone());
        }
        let dropped = self.names.insert(key, LeasedName { hash, target }, 1);
        for (key, leased) in dropped {
            self.unlist(&key, leased);
        }
    }

    pub fn remove(&mut self, dir: InodeId, name: &Name) {
        let key = (dir, name.clone());
        if let Some(leased) = self.names.remove(&key) {
            self.unlist(&key, leased);
        }
    }

    /// Returns how many there were.
    pub fn remove_hash(&mut self, dir: InodeId, hash: u64) -> usize {
        let names = self.by_hash.remove(&(dir, hash)).unwrap_or_default();
        names.iter().for_each(|name| self.remove(dir, name));
        names.len()
    }

    pub fn clear(&mut self) {
        self.names.clear();
        self.by_hash.clear();
        self.of_directory.clear();
    }

    fn unlist(&mut self, key: &NameKey, leased: LeasedName) {
        let index = (key.0, leased.hash);
        if let Some(with_hash) = self.by_hash.get_mut(&index) {
            with_hash.retain(|name| *name != key.1);
            if with_hash.is_empty() {
                self.by_hash.remove(&index);
            }
        }
        if let Some(ino) = leased.target
            && self.of_directory.get(&ino) == Some(key)
        {
            self.of_directory.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: InodeId = InodeId(1);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_revoked_hash_removes_all_its_names_and_no_other() {
        let mut names = LeasedNames::new(10);
        names.put(DIR, &name("a"), 7, Some(InodeId(5)), true);
        names.put(DIR, &name("b"), 7, None, false);
        names.put(DIR, &name("c"), 8, None, false);
        assert_eq!(names.name_of_directory(InodeId(5)), Some(&(DIR, name("a"))));
        assert_eq!(names.remove_hash(DIR, 7), 2);
        assert_eq!(names.name_of_directory(InodeId(5)), None);
        assert_eq!(
            (names.target(DIR, &name("a")), names.target(DIR, &name("c"))),
            (None, Some(None))
        );
        assert_eq!((names.by_hash.len(), names.of_directory.len()), (1, 0));
    }

    #[test]
    fn the_indexes_keep_no_dropped_name() {
        let mut names = LeasedNames::new(2);
        for number in 0..5 {
            names.put(
                DIR,
                &name(&format!("n{number}")),
                number,
                Some(InodeId(10 + number)),
                true,
            );
        }
        assert_eq!(names.len(), 2);
        assert_eq!((names.by_hash.len(), names.of_directory.len()), (2, 2));
        names.put(DIR, &name("n4"), 4, None, false);
        assert_eq!((names.by_hash.len(), names.of_directory.len()), (2, 1));
    }
}
