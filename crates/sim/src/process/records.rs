//! All metadata records at a start, before recovery: whether they are consistent, and which objects they promise.

use bytes::Bytes;
use gupfs_namespace::check::{NamespaceCheck, Problem};
use gupfs_namespace::{Inode, InodeBody, KeyRange, ParsedKey, Purge, PurgeId, Record, RecordKey};
use gupfs_proto::{ObjectId, OstId, Presence, VirtualShards};
use gupfs_store::kv::{Kv, KvError};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Records {
    pub problems: Vec<Problem>,
    pub purges: Vec<PurgeId>,
    pub writers: u64,
    /// Objects that must exist, and those that may.
    pub present: BTreeSet<(OstId, ObjectId)>,
    pub maybe_present: BTreeSet<(OstId, ObjectId)>,
    /// Objects that a purge must remove.
    pub removed: BTreeSet<(OstId, ObjectId)>,
}

pub fn read_all(kv: &Kv, shards: VirtualShards) -> Result<Records, KvError> {
    let (mut check, mut records) = (NamespaceCheck::new(), Records::default());
    let mut any = false;
    for KeyRange { from, to } in NamespaceCheck::ranges(shards) {
        let [from, to] = [from, to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
        for (key, value) in kv.scan(from, to, usize::MAX)? {
            any = true;
            let key = RecordKey::from_bytes(&key);
            check.add(&key, &value);
            records.note(&key, &value);
        }
    }
    if any {
        records.problems = check.finish().problems;
        records.problems.retain(|problem| !start_repairs(problem));
    }
    Ok(records)
}

/// Whether every start repairs this problem.
fn start_repairs(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::OrphanWithoutSession { .. } | Problem::WriterWithoutSession { .. }
    )
}

impl Records {
    /// Every object that a record names.
    pub fn named(&self) -> impl Iterator<Item = (OstId, ObjectId)> {
        let sets = [&self.present, &self.maybe_present, &self.removed];
        sets.into_iter().flatten().copied()
    }

    pub fn names_object(&self, object: &(OstId, ObjectId)) -> bool {
        self.named().any(|named| named == *object)
    }

    fn note(&mut self, key: &RecordKey, value: &Bytes) {
        match key.parse() {
            Some(ParsedKey::Purge(id)) => {
                self.purges.push(id);
                let Ok(purge) = Purge::decode(value) else {
                    return;
                };
                let objects = purge.objects(id).into_iter();
                self.removed
                    .extend(objects.map(|(ost, object, _)| (ost, object)));
            }
            Some(ParsedKey::WriteLease { .. }) => self.writers += 1,
            Some(ParsedKey::Inode(ino)) => {
                // `NamespaceCheck` reports an undecodable record.
                let Ok(inode) = Inode::decode(value) else {
                    return;
                };
                let InodeBody::File(file) = inode.body else {
                    return;
                };
                for (.., ost, object, presence) in file.layout.objects(ino) {
                    match presence {
                        Presence::Never | Presence::Stale => {}
                        Presence::Maybe => drop(self.maybe_present.insert((ost, object))),
                        Presence::Present => drop(self.present.insert((ost, object))),
                    }
                }
            }
            _ => {}
        }
    }
}
