//! # check: whether the records of a cluster are consistent
//!
//! Owns   the rules that all records obey between two operations, and the list of problems that are safe to repair.
//! Never  looks at objects (`gupfs check` compares `Inode`s and `Purge`s with the objects of the OSTs), reads a store.
//! Enter  at `NamespaceCheck::new`; add the records of `NamespaceCheck::ranges` in that order; `NamespaceCheck::finish`.
//!
//! Inodes come first, so that every other record can be checked when it is added: memory is one `InodeSummary` per inode (about
//! 200 bytes), whatever the number of names. A repair is `BackgroundOp::Repair` of each of `NamespaceReport::repairs`; repairs
//! may reveal further problems, so check again until there are none.

mod inode_summary;
mod problem;
#[cfg(test)]
mod tests;
mod tree;

pub use problem::Problem;

use crate::hash::name_hash;
use crate::key::{KeyRange, ParsedKey, PurgeId, RecordKey, RecordKind};
use crate::record::{
    AcceptedLoss, BackLink, DentryPosition, EntryRecord, Inode, InodeBody, InodeCounter,
    KnownTarget, Orphan, Purge, PurgeAction, Rebalance, Record, RecordedInterest, RetiredVerifier,
    SessionRecord, StaleMembers, StoreFormat, StoredReply, UNASKED_SESSIONS, Unconfirmed, Usage,
    WriteLease, XattrRecord,
};
use bytes::Bytes;
use gupfs_proto::{FileKind, InodeId, Name, SessionId, VirtualShard, VirtualShards, VolumeId};
use inode_summary::{InodeSummaries, InodeSummary};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NamespaceReport {
    pub inodes: u64,
    pub directories: u64,
    pub entries: u64,
    pub orphans: u64,
    pub purges: u64,
    pub problems: Vec<Problem>,
}

impl NamespaceReport {
    /// The problems that `BackgroundOp::Repair` may repair. None while there are unreadable records: one of them may be the
    /// record that seems to be missing.
    pub fn repairs(&self) -> impl Iterator<Item = &Problem> {
        let readable = !self.problems.iter().any(Problem::is_unreadable_record);
        self.problems
            .iter()
            .filter(move |problem| readable && problem.is_repairable())
    }
}

#[derive(Debug, Default)]
pub struct NamespaceCheck {
    inodes: InodeSummaries,
    /// Usage as recorded, and as counted.
    usage: BTreeMap<(VirtualShard, VolumeId), Usage>,
    /// Next inode counter to reserve in the shard.
    next_numbers: BTreeMap<VirtualShard, u64>,
    /// Largest inode counter in use in the shard.
    largest: BTreeMap<VirtualShard, u64>,
    counted: BTreeMap<(VirtualShard, VolumeId), Usage>,
    /// Shards with an inode that cannot be read: their usage cannot be counted.
    unreadable: BTreeSet<VirtualShard>,
    sessions: BTreeSet<SessionId>,
    report: NamespaceReport,
}

impl NamespaceCheck {
    pub fn new() -> NamespaceCheck {
        NamespaceCheck::default()
    }

    /// The key ranges to add, in this order: inodes and sessions of all shards, then everything else in the store, also keys that
    /// do not belong there.
    pub fn ranges(shards: VirtualShards) -> Vec<KeyRange> {
        let first = [RecordKind::Inode, RecordKind::Session];
        let shards: Vec<VirtualShard> = (0..shards.0).map(VirtualShard).collect();
        let mut ranges: Vec<KeyRange> = first
            .iter()
            .flat_map(|kind| shards.iter().map(|shard| KeyRange::of_kind(*shard, *kind)))
            .collect();
        let mut known: Vec<&KeyRange> = ranges.iter().collect();
        known.sort_by_key(|range| &range.from);
        let mut gaps = Vec::with_capacity(known.len() + 1);
        let mut from = RecordKey::from_bytes(&[]);
        for range in known {
            gaps.push(KeyRange {
                from,
                to: range.from.clone(),
            });
            from = range.to.clone();
        }
        // Above every key: the largest shard is 0xffff, and no kind has the letter 0xff.
        gaps.push(KeyRange {
            from,
            to: RecordKey::from_bytes(&[u8::MAX; 4]),
        });
        ranges.extend(gaps);
        ranges
    }

    /// Adds a record; the keys come in the order of `ranges`.
    pub fn add(&mut self, key: &RecordKey, value: &Bytes) {
        let Some(parsed) = key.parse() else {
            self.add_problem(Problem::UnknownKey(key.clone()));
            return;
        };
        match parsed {
            ParsedKey::Inode(ino) => self.add_inode(ino, key, value),
            ParsedKey::Session(session) => {
                self.decode::<SessionRecord>(key, value);
                self.sessions.insert(session);
            }
            ParsedKey::Entry { dir, hash, name } => self.add_entry(dir, hash, &name, key, value),
            ParsedKey::BackLink {
                ino,
                dir,
                hash,
                name,
            } => {
                self.decode::<BackLink>(key, value);
                let link = DentryPosition { dir, hash };
                self.check_inode_exists(ino, key, |inode| inode.add_back_link(link, &name));
            }
            ParsedKey::Xattr { ino, name } => {
                self.decode::<XattrRecord>(key, value);
                self.check_inode_exists(ino, key, |inode| inode.add_xattr(&name));
            }
            ParsedKey::Orphan { ino, session } => self.add_orphan(ino, session, key, value),
            ParsedKey::WriteLease { ino, session } => {
                self.add_write_lease(ino, session, key, value);
            }
            ParsedKey::Unconfirmed(ino) => {
                self.decode::<Unconfirmed>(key, value);
                self.check_inode_exists(ino, key, |_| {});
            }
            ParsedKey::StaleMembers(ino) => {
                self.decode::<StaleMembers>(key, value);
                self.check_inode_exists(ino, key, |_| {});
            }
            ParsedKey::Reply { session, .. } => {
                self.decode::<StoredReply>(key, value);
                if !self.sessions.contains(&session) {
                    self.add_problem(Problem::Dangling(key.clone()));
                }
            }
            ParsedKey::Purge(id) => self.add_purge(id, key, value),
            ParsedKey::InodeCounter(_)
            | ParsedKey::Usage { .. }
            | ParsedKey::Format
            | ParsedKey::KnownTarget(_)
            | ParsedKey::RetiredVerifier(_)
            | ParsedKey::AcceptedLoss
            | ParsedKey::InterestsRecorded
            | ParsedKey::Interest { .. }
            | ParsedKey::Rebalance => self.add_record_of_shard(&parsed, key, value),
        }
    }

    /// The result, once all records are added.
    pub fn finish(mut self) -> NamespaceReport {
        let problems = &mut self.report.problems;
        for inode in self.inodes.iter() {
            inode.report_problems(problems);
        }
        tree::find_loops(&self.inodes, problems);
        self.check_usage();
        self.check_numbers();
        self.report
    }

    fn check_usage(&mut self) {
        let recorded_and_counted = self.usage.keys().chain(self.counted.keys());
        let all: BTreeSet<_> = recorded_and_counted.copied().collect();
        for at @ (shard, volume) in all {
            let recorded = self.usage.get(&at).copied().unwrap_or_default();
            let actual = self.counted.get(&at).copied().unwrap_or_default();
            if recorded != actual && !self.unreadable.contains(&shard) {
                self.add_problem(Problem::WrongUsage {
                    shard,
                    volume,
                    recorded,
                    actual,
                });
            }
        }
    }

    fn check_numbers(&mut self) {
        for (shard, largest) in std::mem::take(&mut self.largest) {
            let next = self.next_numbers.get(&shard).copied().unwrap_or(0);
            if next <= largest {
                self.add_problem(Problem::NumberNotReserved {
                    shard,
                    next,
                    largest,
                });
            }
        }
    }

    fn add_inode(&mut self, ino: InodeId, key: &RecordKey, value: &Bytes) {
        let Some(mut inode) = self.decode::<Inode>(key, value) else {
            // Otherwise its other records would look dangling, and a repair would remove them.
            self.inodes.add_unreadable(ino);
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
        if let InodeBody::File(file) = &inode.body
            && file.layout.check().is_err()
        {
            self.add_problem(Problem::BadLayout { ino });
        }
        self.inodes.add(InodeSummary::from_inode(&inode));
    }

    fn add_entry(&mut self, dir: InodeId, hash: u64, name: &Name, key: &RecordKey, value: &Bytes) {
        let Some(EntryRecord { ino, kind, .. }) = self.decode(key, value) else {
            return;
        };
        self.report.entries += 1;
        let above = self.inodes.update(dir, |inode| {
            inode.actual.entries += 1;
            inode.actual.subdirs += u32::from(kind == FileKind::Directory);
            (inode.kind, inode.salt)
        });
        match above {
            Some((Some(_), Some(salt))) if name_hash(salt, name) != hash => {
                self.add_problem(Problem::WrongHash {
                    dir,
                    hash,
                    name: name.clone(),
                });
            }
            // A directory, or an unreadable inode that may be one.
            Some((_, Some(_)) | (None, _)) => {}
            Some((Some(_), None)) | None => {
                self.add_problem(Problem::Dangling(key.clone()));
                return;
            }
        }
        let link = DentryPosition { dir, hash };
        let actual = self.inodes.update(ino, |inode| {
            inode.add_name(link, name);
            inode.kind
        });
        match actual {
            None => self.add_problem(Problem::EntryWithoutInode {
                dir,
                hash,
                name: name.clone(),
                ino,
            }),
            Some(Some(actual)) if actual != kind => {
                self.add_problem(Problem::WrongKind {
                    dir,
                    hash,
                    name: name.clone(),
                    recorded: kind,
                    actual,
                });
            }
            Some(_) => {}
        }
    }

    fn add_orphan(&mut self, ino: InodeId, session: SessionId, key: &RecordKey, value: &Bytes) {
        self.decode::<Orphan>(key, value);
        self.report.orphans += 1;
        self.check_inode_exists(ino, key, |inode| inode.actual.orphan_records += 1);
        if session != UNASKED_SESSIONS && !self.sessions.contains(&session) {
            self.add_problem(Problem::OrphanWithoutSession { ino, session });
        }
    }

    fn add_write_lease(
        &mut self,
        ino: InodeId,
        session: SessionId,
        key: &RecordKey,
        value: &Bytes,
    ) {
        self.decode::<WriteLease>(key, value);
        self.check_inode_exists(ino, key, |inode| inode.actual.write_leases += 1);
        if !self.sessions.contains(&session) {
            self.add_problem(Problem::WriterWithoutSession { ino, session });
        }
    }

    fn add_purge(&mut self, id: PurgeId, key: &RecordKey, value: &Bytes) {
        let Some(purge) = self.decode::<Purge>(key, value) else {
            return;
        };
        self.report.purges += 1;
        match purge.action {
            PurgeAction::Remove => {
                let counted = self.counted.entry((id.ino.shard(), purge.volume));
                counted.or_default().purging += 1;
            }
            // A truncate may outlive its inode: the record is removed when it is done.
            PurgeAction::Truncate { .. } => {
                self.inodes.update(id.ino, |inode| {
                    inode.actual.truncate |= inode.recorded.truncate == Some(id.number)
                });
            }
        }
    }

    /// Adds a record of a shard or of the whole store.
    fn add_record_of_shard(&mut self, parsed: &ParsedKey, key: &RecordKey, value: &Bytes) {
        match parsed {
            ParsedKey::InodeCounter(shard) => {
                if let Some(InodeCounter { next }) = self.decode(key, value) {
                    self.next_numbers.insert(*shard, next);
                }
            }
            ParsedKey::Usage { shard, volume } => {
                if let Some(usage) = self.decode(key, value) {
                    self.usage.insert((*shard, *volume), usage);
                }
            }
            ParsedKey::Format => {
                self.decode::<StoreFormat>(key, value);
            }
            ParsedKey::KnownTarget(_) => {
                self.decode::<KnownTarget>(key, value);
            }
            ParsedKey::RetiredVerifier(_) => {
                self.decode::<RetiredVerifier>(key, value);
            }
            ParsedKey::AcceptedLoss => {
                self.decode::<AcceptedLoss>(key, value);
            }
            ParsedKey::Rebalance => {
                self.decode::<Rebalance>(key, value);
            }
            // Those of a session that has ended delay nothing: the next start removes them.
            ParsedKey::InterestsRecorded | ParsedKey::Interest { .. } => {
                self.decode::<RecordedInterest>(key, value);
            }
            other => unreachable!("{other:?} is not a record of a shard"),
        }
    }

    /// Adds a record that belongs to an inode: the inode must exist.
    fn check_inode_exists(
        &mut self,
        ino: InodeId,
        key: &RecordKey,
        update: impl FnOnce(&mut InodeSummary),
    ) {
        if self.inodes.update(ino, update).is_none() {
            self.add_problem(Problem::Dangling(key.clone()));
        }
    }

    fn decode<R: Record>(&mut self, key: &RecordKey, value: &Bytes) -> Option<R> {
        match R::decode(value) {
            Ok(record) => Some(record),
            Err(why) => {
                self.add_problem(Problem::Undecodable {
                    key: key.clone(),
                    why,
                });
                None
            }
        }
    }

    fn add_problem(&mut self, problem: Problem) {
        self.report.problems.push(problem);
    }
}
