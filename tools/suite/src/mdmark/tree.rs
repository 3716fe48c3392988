//! A tree grown from densities. All of it is decided before the first file is made, so that its size is known.

use std::path::{Path, PathBuf};

use super::profile::Profile;
use crate::rng::Rng;

/// Directories, each after the one that it lies in.
pub struct Tree {
    pub directories: Vec<Directory>,
}

pub struct Directory {
    /// Below the top.
    pub path: PathBuf,
    pub files: Vec<PlannedFile>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFile {
    pub name: String,
    pub bytes: u64,
}

/// Limits of a tree.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Files and directories.
    pub entries: u64,
    /// Levels of directories.
    pub depth: usize,
    /// Bytes of a file.
    pub largest: u64,
}

impl Tree {
    /// Trees as the profile has them, side by side, until there are as many entries as allowed.
    pub fn grow(profile: &Profile, limits: Limits, seed: u64) -> Tree {
        let mut growth = TreeGrowth {
            profile,
            limits,
            rng: Rng::new(seed),
            left: limits.entries,
            directories: Vec::new(),
        };
        let top = Path::new("");
        while growth.left > 0 {
            growth.one(top);
        }
        Tree {
            directories: growth.directories,
        }
    }

    pub fn entries(&self) -> u64 {
        let each = self.directories.iter();
        each.map(|directory| 1 + directory.files.len() as u64).sum()
    }

    pub fn bytes(&self) -> u64 {
        let files = self
            .directories
            .iter()
            .flat_map(|directory| &directory.files);
        files.map(|file| file.bytes).sum()
    }
}

struct TreeGrowth<'a> {
    profile: &'a Profile,
    limits: Limits,
    rng: Rng,
    /// Entries that may still be added.
    left: u64,
    directories: Vec<Directory>,
}

impl TreeGrowth<'_> {
    /// One tree, level by level: a limit cuts it off below, and not on one side.
    fn one(&mut self, top: &Path) {
        let first = self.directories.len();
        self.directory(top);
        let mut level_starts = first;
        for level in 0..self.limits.depth {
            let level_ends = self.directories.len();
            for index in level_starts..level_ends {
                self.fill(index, level);
            }
            level_starts = level_ends;
        }
    }

    fn directory(&mut self, parent: &Path) {
        if self.left > 0 {
            self.left -= 1;
            let path = parent.join(self.name());
            let files = Vec::new();
            self.directories.push(Directory { path, files });
        }
    }

    fn fill(&mut self, index: usize, level: usize) {
        let Some(densities) = self.profile.levels.get(level) else {
            return;
        };
        let files = densities.files.draw(&mut self.rng).min(self.left);
        self.left -= files;
        for _ in 0..files {
            let bytes = self.profile.sizes.draw(&mut self.rng);
            let bytes = bytes.min(self.limits.largest);
            let name = self.name();
            self.directories[index]
                .files
                .push(PlannedFile { name, bytes });
        }
        if level + 1 < self.limits.depth {
            let parent = self.directories[index].path.clone();
            for _ in 0..densities.directories.draw(&mut self.rng).min(self.left) {
                self.directory(&parent);
            }
        }
    }

    /// 12 letters: two of the same do not come about in a directory of any size that can be made.
    fn name(&mut self) -> String {
        let letter = |_| (b'a' + self.rng.below(26) as u8) as char;
        (0..12).map(letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(entries: u64, depth: usize, seed: u64) -> Tree {
        let limits = Limits {
            entries,
            depth,
            largest: 5_000,
        };
        Tree::grow(&Profile::made_up(), limits, seed)
    }

    fn listed(tree: &Tree) -> Vec<(&Path, &[PlannedFile])> {
        let each = tree.directories.iter();
        each.map(|directory| (&*directory.path, &*directory.files))
            .collect()
    }

    #[test]
    fn the_same_seed_grows_the_same_tree() {
        let (one, other) = (grown(500, 9, 1), grown(500, 9, 1));
        assert_eq!(listed(&one), listed(&other));
        assert_ne!(listed(&one), listed(&grown(500, 9, 2)));
    }

    #[test]
    fn limits_are_reached_and_kept() {
        for entries in [1, 2, 77, 3000] {
            assert_eq!(grown(entries, 9, 4).entries(), entries);
        }
        let tree = grown(3000, 3, 4);
        let depths = tree
            .directories
            .iter()
            .map(|each| each.path.components().count());
        assert_eq!(depths.max(), Some(3));
        let files = || tree.directories.iter().flat_map(|each| &each.files);
        assert_eq!(files().map(|file| file.bytes).max(), Some(5_000));
        let empty = Tree::grow(
            &Profile::default(),
            Limits {
                entries: 5,
                depth: 3,
                largest: 1,
            },
            1,
        );
        assert_eq!((empty.entries(), empty.bytes()), (5, 0));
    }

    #[test]
    fn no_name_is_there_twice_and_parents_come_first() {
        let tree = grown(3000, 9, 4);
        let mut seen = std::collections::BTreeSet::from([PathBuf::new()]);
        for directory in &tree.directories {
            assert!(seen.contains(directory.path.parent().unwrap()));
            assert!(seen.insert(directory.path.clone()));
            for file in &directory.files {
                assert!(seen.insert(directory.path.join(&file.name)));
            }
        }
    }
}
