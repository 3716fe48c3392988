//! What a check keeps of an inode: what it says of itself, and what was found about it.

use super::Problem;
use crate::hash::name_hash;
use crate::record::{Body, Inode, Link};
use gupfs_proto::{FileKind, InodeId, Name};

#[derive(Debug)]
pub(super) struct Brief {
    pub ino: InodeId,
    /// None if the record could not be read: then it is not judged.
    pub kind: Option<FileKind>,
    /// Directories only.
    pub salt: Option<u64>,
    pub parent: Option<Link>,
    pub says: Numbers,
    pub found: Found,
}

/// What an inode says and what the other records must add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Numbers {
    pub names: u32,
    pub holders: u32,
    pub writers: u32,
    pub xattrs: u32,
    pub xattr_names: u32,
    pub entries: u64,
    pub subdirs: u32,
    pub cut: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub names: u32,
    pub holders: u32,
    pub writers: u32,
    pub xattrs: u32,
    pub xattr_names: u32,
    pub entries: u64,
    pub subdirs: u32,
    pub cut: bool,
    /// The name that `parent` means was seen.
    pub parent: bool,
    /// Sums over the places of further names and of back links: equal if they are the same places.
    pub further: u64,
    pub back_links: u64,
}

impl Brief {
    pub fn of(inode: &Inode) -> Brief {
        let mut says = Numbers {
            names: inode.names,
            holders: inode.holders,
            xattrs: inode.xattrs,
            xattr_names: inode.xattr_names,
            ..Numbers::default()
        };
        let mut salt = None;
        match &inode.body {
            Body::File(file) => {
                says.writers = file.writers;
                says.cut = file.cutting.map(|cutting| cutting.number);
            }
            Body::Directory(dir) => {
                says.entries = dir.entries;
                says.subdirs = dir.subdirs;
                salt = Some(dir.salt);
            }
            Body::Symlink(_) | Body::Special => {}
        }
        Brief {
            ino: inode.ino,
            kind: Some(inode.kind),
            salt,
            parent: inode.parent,
            says,
            found: Found::default(),
        }
    }

    pub fn add_name(&mut self, link: Link, name: &Name) {
        self.found.names += 1;
        if self.parent == Some(link) && !self.found.parent {
            self.found.parent = true;
        } else {
            self.found.further = self.found.further.wrapping_add(fingerprint(link, name));
        }
    }

    pub fn add_back_link(&mut self, link: Link, name: &Name) {
        self.found.back_links = self.found.back_links.wrapping_add(fingerprint(link, name));
    }

    pub fn add_xattr(&mut self, name: &[u8]) {
        self.found.xattrs += 1;
        self.found.xattr_names += name.len() as u32 + 1;
    }

    pub fn judge(&self, problems: &mut Vec<Problem>) {
        let (ino, says, found) = (self.ino, &self.says, &self.found);
        if self.kind.is_none() {
            return;
        }
        self.judge_names(problems);
        if (says.holders, says.writers) != (found.holders, found.writers) {
            problems.push(Problem::WrongUsers {
                ino,
                holders: found.holders,
                writers: found.writers,
            });
        }
        if (says.xattrs, says.xattr_names) != (found.xattrs, found.xattr_names) {
            problems.push(Problem::WrongXattrs {
                ino,
                xattrs: found.xattrs,
                names: found.xattr_names,
            });
        }
        if (says.entries, says.subdirs) != (found.entries, found.subdirs) {
            problems.push(Problem::WrongEntries {
                dir: ino,
                entries: found.entries,
                subdirs: found.subdirs,
            });
        }
        if says.cut.is_some() && !found.cut {
            problems.push(Problem::CutWithoutRecord { ino });
        }
    }

    fn judge_names(&self, problems: &mut Vec<Problem>) {
        let (ino, says, found) = (self.ino, &self.says, &self.found);
        let is_dir = self.salt.is_some();
        if ino == InodeId::ROOT {
            // Named by nobody.
            if says.names != 1 || found.names != 0 || self.parent.is_some() {
                problems.push(Problem::WrongLinks { ino });
            }
            return;
        }
        match (says.names, found.names) {
            (0, 0) if found.holders == 0 => problems.push(Problem::Leaked { ino }),
            (_, 0) if says.names > 0 => problems.push(Problem::InodeWithoutEntry { ino }),
            (_, 2..) if is_dir => problems.push(Problem::DirectoryWithTwoNames { ino }),
            (says, names) if says != names => {
                problems.push(Problem::WrongNames { ino, says, names })
            }
            _ if found.parent != self.parent.is_some() || found.further != found.back_links => {
                problems.push(Problem::WrongLinks { ino });
            }
            _ => {}
        }
    }
}

fn fingerprint(link: Link, name: &Name) -> u64 {
    name_hash(link.dir.0 ^ link.hash.rotate_left(8), name)
}

/// All of them, found by number.
#[derive(Debug, Default)]
pub(super) struct Brieves(Vec<Brief>);

impl Brieves {
    pub fn add(&mut self, brief: Brief) {
        // Inodes come in the order of their numbers, but for those of shards that do not exist.
        match self.0.last() {
            Some(last) if last.ino >= brief.ino => {
                let place = self.0.partition_point(|other| other.ino < brief.ino);
                self.0.insert(place, brief);
            }
            _ => self.0.push(brief),
        }
    }

    pub fn add_unreadable(&mut self, ino: InodeId) {
        let (says, found) = Default::default();
        self.add(Brief {
            ino,
            kind: None,
            salt: None,
            parent: None,
            says,
            found,
        });
    }

    pub fn index(&self, ino: InodeId) -> Option<usize> {
        self.0.binary_search_by_key(&ino, |brief| brief.ino).ok()
    }

    pub fn with<T>(&mut self, ino: InodeId, note: impl FnOnce(&mut Brief) -> T) -> Option<T> {
        let index = self.index(ino)?;
        Some(note(&mut self.0[index]))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Brief> {
        self.0.iter()
    }
}
