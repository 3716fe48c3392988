//! The summary of an inode that a check keeps in memory: the counts in its record, and the actual counts of other records.

use super::Problem;
use crate::hash::name_hash;
use crate::record::{DentryPosition, Inode, InodeBody};
use gupfs_proto::{FileKind, InodeId, Name};

#[derive(Debug)]
pub(super) struct InodeSummary {
    pub ino: InodeId,
    /// None if the record is unreadable: then the inode is not checked.
    pub kind: Option<FileKind>,
    /// Directories only.
    pub salt: Option<u64>,
    pub parent: Option<DentryPosition>,
    pub recorded: RecordedCounts,
    pub actual: ActualCounts,
}

/// The counts in an inode's record, which the other records must add up to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RecordedCounts {
    pub names: u32,
    pub orphan_records: u32,
    pub write_leases: u32,
    pub xattrs: u32,
    pub xattr_names: u32,
    pub entries: u64,
    pub subdirs: u32,
    pub truncate: Option<u32>,
}

/// The counts of the other records that belong to an inode.
#[derive(Debug, Default)]
pub(super) struct ActualCounts {
    pub names: u32,
    pub orphan_records: u32,
    pub write_leases: u32,
    pub xattrs: u32,
    pub xattr_names: u32,
    pub entries: u64,
    pub subdirs: u32,
    pub truncate: bool,
    /// The entry at `InodeSummary::parent` exists.
    pub parent: bool,
    /// Sums of fingerprints over the further names and over the back links: equal if they are the same names.
    pub further: u64,
    pub back_links: u64,
}

impl InodeSummary {
    pub fn from_inode(inode: &Inode) -> InodeSummary {
        let mut recorded = RecordedCounts {
            names: inode.names,
            orphan_records: inode.orphan_records,
            xattrs: inode.xattrs,
            xattr_names: inode.xattr_names,
            ..RecordedCounts::default()
        };
        let mut salt = None;
        match &inode.body {
            InodeBody::File(file) => {
                recorded.write_leases = file.write_leases;
                recorded.truncate = file.truncating.map(|truncate| truncate.number);
            }
            InodeBody::Directory(dir) => {
                recorded.entries = dir.entries;
                recorded.subdirs = dir.subdirs;
                salt = Some(dir.salt);
            }
            InodeBody::Symlink(_) | InodeBody::Special => {}
        }
        InodeSummary {
            ino: inode.ino,
            kind: Some(inode.kind),
            salt,
            parent: inode.parent,
            recorded,
            actual: ActualCounts::default(),
        }
    }

    pub fn add_name(&mut self, link: DentryPosition, name: &Name) {
        self.actual.names += 1;
        if self.parent == Some(link) && !self.actual.parent {
            self.actual.parent = true;
        } else {
            self.actual.further = self.actual.further.wrapping_add(fingerprint(link, name));
        }
    }

    pub fn add_back_link(&mut self, link: DentryPosition, name: &Name) {
        self.actual.back_links = self.actual.back_links.wrapping_add(fingerprint(link, name));
    }

    pub fn add_xattr(&mut self, name: &[u8]) {
        self.actual.xattrs += 1;
        self.actual.xattr_names += name.len() as u32 + 1;
    }

    pub fn report_problems(&self, problems: &mut Vec<Problem>) {
        let (ino, recorded, actual) = (self.ino, &self.recorded, &self.actual);
        if self.kind.is_none() {
            return;
        }
        self.report_name_problems(problems);
        if (recorded.orphan_records, recorded.write_leases)
            != (actual.orphan_records, actual.write_leases)
        {
            problems.push(Problem::WrongUsers {
                ino,
                orphan_records: actual.orphan_records,
                write_leases: actual.write_leases,
            });
        }
        if (recorded.xattrs, recorded.xattr_names) != (actual.xattrs, actual.xattr_names) {
            problems.push(Problem::WrongXattrs {
                ino,
                xattrs: actual.xattrs,
                names: actual.xattr_names,
            });
        }
        if (recorded.entries, recorded.subdirs) != (actual.entries, actual.subdirs) {
            problems.push(Problem::WrongEntries {
                dir: ino,
                entries: actual.entries,
                subdirs: actual.subdirs,
            });
        }
        if recorded.truncate.is_some() && !actual.truncate {
            problems.push(Problem::CutWithoutRecord { ino });
        }
    }

    fn report_name_problems(&self, problems: &mut Vec<Problem>) {
        let (ino, recorded, actual) = (self.ino, &self.recorded, &self.actual);
        let is_dir = self.salt.is_some();
        if ino == InodeId::ROOT {
            // No entry refers to the root.
            if recorded.names != 1 || actual.names != 0 || self.parent.is_some() {
                problems.push(Problem::WrongLinks { ino });
            }
            return;
        }
        match (recorded.names, actual.names) {
            (0, 0) if actual.orphan_records == 0 => problems.push(Problem::Leaked { ino }),
            (_, 0) if recorded.names > 0 => problems.push(Problem::InodeWithoutEntry { ino }),
            (_, 2..) if is_dir => problems.push(Problem::DirectoryWithTwoNames { ino }),
            (recorded, names) if recorded != names => problems.push(Problem::WrongNames {
                ino,
                recorded,
                names,
            }),
            _ if actual.parent != self.parent.is_some() || actual.further != actual.back_links => {
                problems.push(Problem::WrongLinks { ino });
            }
            _ => {}
        }
    }
}

fn fingerprint(link: DentryPosition, name: &Name) -> u64 {
    name_hash(link.dir.0 ^ link.hash.rotate_left(8), name)
}

/// The summaries of all inodes, ordered by number.
#[derive(Debug, Default)]
pub(super) struct InodeSummaries(Vec<InodeSummary>);

impl InodeSummaries {
    pub fn add(&mut self, inode: InodeSummary) {
        // Inodes arrive in the order of their numbers, except those of shards that do not exist.
        match self.0.last() {
            Some(last) if last.ino >= inode.ino => {
                let index = self.0.partition_point(|other| other.ino < inode.ino);
                self.0.insert(index, inode);
            }
            _ => self.0.push(inode),
        }
    }

    pub fn add_unreadable(&mut self, ino: InodeId) {
        let (recorded, actual) = Default::default();
        self.add(InodeSummary {
            ino,
            kind: None,
            salt: None,
            parent: None,
            recorded,
            actual,
        });
    }

    pub fn index(&self, ino: InodeId) -> Option<usize> {
        self.0.binary_search_by_key(&ino, |inode| inode.ino).ok()
    }

    pub fn update<T>(
        &mut self,
        ino: InodeId,
        update: impl FnOnce(&mut InodeSummary) -> T,
    ) -> Option<T> {
        let index = self.index(ino)?;
        Some(update(&mut self.0[index]))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &InodeSummary> {
        self.0.iter()
    }
}
