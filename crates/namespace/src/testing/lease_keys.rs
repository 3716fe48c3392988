//! Which leases each random operation breaks: all whose answers it changes. A client needs certain leases to give an answer from its memory;
//! if the answer is another one after the operation, `leases::changes_of` of its batches has one of their keys.

use super::action::{action, callers};
use super::cached_records::CachedRecords;
use super::compare::ServerAndModel;
use super::*;
use crate::hash::name_hash;
use crate::{Inode, Record, RecordBatch, RecordKey, leases};
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::meta::{AccessMode, MetaOp, MetaReplyBody};
use gupfs_proto::{Attr, Caller, FsError, InodeId};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet};

/// What a client may answer from its memory, and the keys that it needs for that.
pub type LeasedAnswers = BTreeMap<String, (BTreeSet<LeaseKey>, String)>;

impl TestServer {
    pub fn changes_of(&self, batch: &RecordBatch) -> Vec<LeaseKey> {
        let records = CachedRecords {
            records: &self.records,
            fetched: None,
            scanned: &[],
        };
        leases::changes_of(batch, &records)
    }

    /// The key of a name in a directory that exists.
    pub fn name_key(&self, dir: InodeId, text: &str) -> LeaseKey {
        let hash = name_hash(self.directory(dir).salt, &name(text));
        LeaseKey::Name { dir, hash }
    }

    fn is_directory(&self, ino: InodeId) -> bool {
        let record = self.records.get(&RecordKey::inode(ino));
        record.is_some_and(|record| Inode::decode(record).unwrap().is_dir())
    }

    /// The answers to another session, which has none of the write leases.
    pub fn answers(&mut self, inodes: &[InodeId], names: &[&str]) -> LeasedAnswers {
        let session = std::mem::replace(&mut self.session, OTHER_SESSION);
        let is_only = std::mem::replace(&mut self.is_only_session, false);
        let mut answers = LeasedAnswers::new();
        for ino in inodes {
            self.add_answers_of_inode(*ino, &mut answers);
            for text in names {
                self.add_answers_of_name(*ino, text, &mut answers);
            }
        }
        (self.session, self.is_only_session) = (session, is_only);
        answers
    }

    fn add_answers_of_inode(&mut self, ino: InodeId, answers: &mut LeasedAnswers) {
        let attributes = LeaseKey::Attributes(ino);
        let xattrs = ["user.a", "user.colour", "system.posix_acl_access"];
        let mut ops = vec![
            MetaOp::GetAttr { ino },
            MetaOp::Readlink { ino },
            MetaOp::ListXattr { ino },
        ];
        ops.extend(xattrs.map(|text| MetaOp::GetXattr {
            ino,
            name: xattr(text),
        }));
        let wants = [AccessMode::READ, AccessMode::WRITE, AccessMode::EXECUTE];
        ops.extend(wants.map(|want| MetaOp::Access { ino, want }));
        for op in ops {
            for caller in [Caller::root(), user(1000)] {
                let reply = self.request(&caller, &op);
                let text = format!("{op:?} by {}", caller.uid);
                answers.insert(text, ([attributes].into(), without_atime(reply)));
            }
        }
        let open = open_op(ino, AccessMode::READ, false);
        let (keys, answer) = match self.request(&Caller::root(), &open) {
            Ok(MetaReplyBody::Opened(opened)) => {
                let bytes = format!("{:?} {:?}", opened.layout, opened.inline);
                (vec![LeaseKey::Data(ino)], bytes)
            }
            other => (vec![attributes, LeaseKey::Data(ino)], format!("{other:?}")),
        };
        let keys = keys.into_iter().collect();
        answers.insert(format!("open {ino:?}"), (keys, answer));
        let list = MetaOp::Readdir {
            dir: ino,
            after: 0,
            limit: 1_000,
            plus: false,
        };
        let listed = self.request(&Caller::root(), &list);
        let keys = [attributes, LeaseKey::Names(ino)].into();
        answers.insert(format!("list {ino:?}"), (keys, format!("{listed:?}")));
    }

    fn add_answers_of_name(&mut self, dir: InodeId, text: &str, answers: &mut LeasedAnswers) {
        for caller in [Caller::root(), user(1000)] {
            let found = self.lookup(&caller, dir, text);
            let mut keys = BTreeSet::from([LeaseKey::Attributes(dir)]);
            if self.is_directory(dir) {
                keys.insert(self.name_key(dir, text));
            }
            // The reply has its attributes, too; another session may have the write lease.
            keys.extend(found.iter().map(|attr| LeaseKey::Attributes(attr.ino)));
            let answer = format!("{:?}", found.map(|attr| attr.ino));
            let question = format!("lookup {dir:?} {text} by {}", caller.uid);
            answers.insert(question, (keys, answer));
        }
    }
}

/// The reply without what is excepted: the access time, and the counter that rises with it.
fn without_atime(reply: Result<MetaReplyBody, FsError>) -> String {
    match reply {
        Ok(MetaReplyBody::Attr(attr)) => {
            let (atime, change) = (Default::default(), 0);
            format!(
                "{:?}",
                Attr {
                    atime,
                    change,
                    ..attr
                }
            )
        }
        other => format!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_operation_breaks_every_lease_whose_answer_it_changes(
        actions in prop::collection::vec((0usize..5, action()), 1..80),
        shards in select(vec![1u16, 2]),
        replays in any::<bool>(),
    ) {
        let mut pair = ServerAndModel::new(shards, false, replays);
        for (caller, action) in &actions {
            pair.caller = callers()[*caller].clone();
            let before = pair.answers();
            pair.server.changed_leases.clear();
            pair.run(action);
            let mut broken = std::mem::take(&mut pair.server.changed_leases);
            let listings = broken.iter().filter_map(|key| match key {
                LeaseKey::Name { dir, .. } => Some(LeaseKey::Names(*dir)),
                _ => None,
            });
            broken.extend(listings.collect::<Vec<_>>());
            let after = pair.answers();
            // An answer that needs a callback to another session is leased to no session.
            let leased = before.into_iter().filter(|(_, (_, answer))| !answer.contains("Busy"));
            for (question, (keys, answer)) in leased {
                let now = &after[&question].1;
                assert!(
                    answer == *now || !keys.is_disjoint(&broken),
                    "{action:?} changes {question} from {answer} to {now}, and breaks only {broken:?}"
                );
            }
        }
    }
}
