//! # check: do the records of a cluster fit together
//!
//! Owns   the rules that every set of records obeys between two operations, and which breach is safe to repair.
//! Never  looks at objects (`gupfs check` compares `Inode`s and `Purge`s with what the targets have), reads a store.
//! Enter  at `Check::new`; feed it the ranges of `Check::ranges` in that order; `Check::finish`.
//!
//! Inodes come first, so that every other record is judged when it is seen: memory is one `Brief` an inode (about 200 bytes),
//! whatever the number of names. A repair is `ChoreOp::Repair` of each of `Report::repairs`; repairs may show further problems,
//! so check again until it is clean.

mod brief;
mod problem;
#[cfg(test)]
mod tests;
mod tree;

pub use problem::Problem;

use crate::hash::name_hash;
use crate::held::NOT_ASKED;
use crate::key::{Key, KeyRange, Kind, Parsed};
use crate::record::{
    AcceptedLoss, BackLink, Body, EndedLife, Entry, Format, Inode, KnownTarget, Link, Numbers,
    Orphan, Purge, PurgeWhat, Record, Reply, Session, Unconfirmed, Usage, Writer, Xattr,
};
use brief::{Brief, Brieves};
use bytes::Bytes;
use gupfs_proto::{FileKind, InodeId, Name, SessionId, VirtualShard, VirtualShards, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

/// What a check has seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    pub inodes: u64,
    pub directories: u64,
    pub entries: u64,
    pub orphans: u64,
    pub purges: u64,
    pub problems: Vec<Problem>,
}

impl Report {
    /// What `ChoreOp::Repair` may mend. Nothing while there are records that cannot be read: they may be what the others
    /// seem to lack.
    pub fn repairs(&self) -> impl Iterator<Item = &Problem> {
        let readable = !self.problems.iter().any(Problem::hides_others);
        self.problems
            .iter()
            .filter(move |problem| readable && problem.is_repairable())
    }
}

#[derive(Debug, Default)]
pub struct Check {
    brieves: Brieves,
    usage: BTreeMap<(VirtualShard, VolumeId), Usage>,
    numbers: BTreeMap<VirtualShard, u64>,
    /// Largest counter an inode of the shard has.
    largest: BTreeMap<VirtualShard, u64>,
    counted: BTreeMap<(VirtualShard, VolumeId), Usage>,
    /// Shards with an inode that cannot be read: their usage cannot be counted.
    unreadable: BTreeSet<VirtualShard>,
    sessions: BTreeSet<SessionId>,
    report: Report,
}

impl Check {
    pub fn new() -> Check {
        Check::default()
    }

    /// What to feed, in this order: inodes and sessions of all shards, then everything else in the store, also what has no
    /// place in it.
    pub fn ranges(shards: VirtualShards) -> Vec<KeyRange> {
        let first = [Kind::Inode, Kind::Session];
        let shards: Vec<VirtualShard> = (0..shards.0).map(VirtualShard).collect();
        let mut ranges: Vec<KeyRange> = first
            .iter()
            .flat_map(|kind| shards.iter().map(|shard| KeyRange::of_kind(*shard, *kind)))
            .collect();
        let mut known: Vec<&KeyRange> = ranges.iter().collect();
        known.sort_by_key(|range| &range.from);
        let mut gaps = Vec::with_capacity(known.len() + 1);
        let mut from = Key::from_bytes(&[]);
        for range in known {
            gaps.push(KeyRange {
                from,
                to: range.from.clone(),
            });
            from = range.to.clone();
        }
        // No key begins so: shards end at 0xffff, and no kind has this letter.
        gaps.push(KeyRange {
            from,
            to: Key::from_bytes(&[u8::MAX; 4]),
        });
        ranges.extend(gaps);
        ranges
    }

    pub fn add(&mut self, key: &Key, value: &Bytes) {
        let Some(parsed) = key.parse() else {
            self.problem(Problem::UnknownKey(key.clone()));
            return;
        };
        match parsed {
            Parsed::Inode(ino) => self.add_inode(ino, key, value),
            Parsed::Session(session) => {
                self.decodes::<Session>(key, value);
                self.sessions.insert(session);
            }
            Parsed::Entry { dir, hash, name } => self.add_entry(dir, hash, &name, key, value),
            Parsed::BackLink {
                ino,
                dir,
                hash,
                name,
            } => {
                self.decodes::<BackLink>(key, value);
                let link = Link { dir, hash };
                self.belongs(ino, key, |brief| brief.add_back_link(link, &name));
            }
            Parsed::Xattr { ino, name } => {
                self.decodes::<Xattr>(key, value);
                self.belongs(ino, key, |brief| brief.add_xattr(&name));
            }
            Parsed::Orphan { ino, session } => {
                self.decodes::<Orphan>(key, value);
                self.report.orphans += 1;
                self.belongs(ino, key, |brief| brief.found.holders += 1);
                if session != NOT_ASKED && !self.sessions.contains(&session) {
                    self.problem(Problem::OrphanWithoutSession { ino, session });
                }
            }
            Parsed::Writer { ino, session } => {
                self.decodes::<Writer>(key, value);
                self.belongs(ino, key, |brief| brief.found.writers += 1);
                if !self.sessions.contains(&session) {
                    self.problem(Problem::WriterWithoutSession { ino, session });
                }
            }
            Parsed::Unconfirmed(ino) => {
                self.decodes::<Unconfirmed>(key, value);
                self.belongs(ino, key, |_| {});
            }
            Parsed::Reply { session, .. } => {
                self.decodes::<Reply>(key, value);
                if !self.sessions.contains(&session) {
                    self.problem(Problem::Dangling(key.clone()));
                }
            }
            Parsed::Purge(id) => {
                let Some(purge) = self.decodes::<Purge>(key, value) else {
                    return;
                };
                self.report.purges += 1;
                match purge.what {
                    PurgeWhat::Remove => {
                        self.counted
                            .entry((id.ino.shard(), purge.volume))
                            .or_default()
                            .purging += 1
                    }
                    // A cut may outlive its inode: its end removes it.
                    PurgeWhat::Cut { .. } => {
                        self.brieves.with(id.ino, |brief| {
                            brief.found.cut |= brief.says.cut == Some(id.number)
                        });
                    }
                }
            }
            Parsed::Numbers(shard) => {
                if let Some(Numbers { next }) = self.decodes(key, value) {
                    self.numbers.insert(shard, next);
                }
            }
            Parsed::Usage { shard, volume } => {
                if let Some(usage) = self.decodes(key, value) {
                    self.usage.insert((shard, volume), usage);
                }
            }
            Parsed::Format => {
                self.decodes::<Format>(key, value);
            }
            Parsed::Target(_) => {
                self.decodes::<KnownTarget>(key, value);
            }
            Parsed::EndedLife(_) => {
                self.decodes::<EndedLife>(key, value);
            }
            Parsed::Owner => {
                self.decodes::<AcceptedLoss>(key, value);
            }
        }
    }

    pub fn finish(mut self) -> Report {
        let problems = &mut self.report.problems;
        for brief in self.brieves.iter() {
            brief.judge(problems);
        }
        tree::find_loops(&self.brieves, problems);
        let shards = self
            .usage
            .keys()
            .chain(self.counted.keys())
            .copied()
            .collect::<BTreeSet<_>>();
        for (shard, volume) in shards {
            let says = self
                .usage
                .get(&(shard, volume))
                .copied()
                .unwrap_or_default();
            let found = self
                .counted
                .get(&(shard, volume))
                .copied()
                .unwrap_or_default();
            if says != found && !self.unreadable.contains(&shard) {
                problems.push(Problem::WrongUsage {
                    shard,
                    volume,
                    says,
                    found,
                });
            }
        }
        for (shard, largest) in self.largest {
            let next = self.numbers.get(&shard).copied().unwrap_or(0);
            if next <= largest {
                problems.push(Problem::NumberNotReserved {
                    shard,
                    next,
                    largest,
                });
            }
        }
        self.report
    }

    fn add_inode(&mut self, ino: InodeId, key: &Key, value: &Bytes) {
        let Some(mut inode) = self.decodes::<Inode>(key, value) else {
            // What belongs to it would look lost, and a repair would take it away.
            self.brieves.add_unreadable(ino);
            self.unreadable.insert(ino.shard());
            return;
        };
        inode.ino = ino;
        self.report.inodes += 1;
        self.report.directories += u64::from(inode.is_dir());
        self.counted
            .entry((ino.shard(), inode.volume))
            .or_default()
            .inodes += 1;
        let largest = self.largest.entry(ino.shard()).or_default();
        *largest = ino.counter().max(*largest);
        if let Body::File(file) = &inode.body
            && file.layout.check().is_err()
        {
            self.problem(Problem::BadLayout { ino });
        }
        self.brieves.add(Brief::of(&inode));
    }

    fn add_entry(&mut self, dir: InodeId, hash: u64, name: &Name, key: &Key, value: &Bytes) {
        let Some(Entry { ino, kind, .. }) = self.decodes(key, value) else {
            return;
        };
        self.report.entries += 1;
        let above = self.brieves.with(dir, |brief| {
            brief.found.entries += 1;
            brief.found.subdirs += u32::from(kind == FileKind::Directory);
            (brief.kind, brief.salt)
        });
        match above {
            Some((Some(_), Some(salt))) if name_hash(salt, name) != hash => {
                self.problem(Problem::WrongHash {
                    dir,
                    hash,
                    name: name.clone(),
                });
            }
            // A directory, or an inode that cannot be read and may have been one.
            Some((_, Some(_)) | (None, _)) => {}
            Some((Some(_), None)) | None => {
                self.problem(Problem::Dangling(key.clone()));
                return;
            }
        }
        let link = Link { dir, hash };
        let actual = self.brieves.with(ino, |brief| {
            brief.add_name(link, name);
            brief.kind
        });
        match actual {
            None => self.problem(Problem::EntryWithoutInode {
                dir,
                hash,
                name: name.clone(),
                ino,
            }),
            Some(Some(actual)) if actual != kind => {
                self.problem(Problem::WrongKind {
                    dir,
                    hash,
                    name: name.clone(),
                    says: kind,
                    actual,
                });
            }
            Some(_) => {}
        }
    }

    /// A record about an inode that must be there.
    fn belongs(&mut self, ino: InodeId, key: &Key, note: impl FnOnce(&mut Brief)) {
        if self.brieves.with(ino, note).is_none() {
            self.problem(Problem::Dangling(key.clone()));
        }
    }

    fn decodes<R: Record>(&mut self, key: &Key, value: &Bytes) -> Option<R> {
        match R::decode(value) {
            Ok(record) => Some(record),
            Err(why) => {
                self.problem(Problem::Undecodable {
                    key: key.clone(),
                    why,
                });
                None
            }
        }
    }

    fn problem(&mut self, problem: Problem) {
        self.report.problems.push(problem);
    }
}
