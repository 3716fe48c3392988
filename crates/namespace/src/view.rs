//! One operation's view of the records: what the driver knows, with this operation's own changes over it.

use crate::context::Context;
use crate::format::FIRST_NUMBER;
use crate::key::{Key, KeyRange};
use crate::machine::UnusedNumbers;
use crate::record::{Directory, File, Inode, Numbers, Record, Usage};
use crate::step::{Batch, Known, Need, Outcome, Records, Stop, Work};
use bytes::Bytes;
use gupfs_proto::limits::{BATCH_BYTES, CHORE_BATCH};
use gupfs_proto::{InodeId, Refusal, VirtualShard, VolumeId};
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) struct View<'a> {
    pub ctx: &'a Context<'a>,
    records: &'a dyn Records,
    numbers: &'a UnusedNumbers,
    /// Inodes read or changed so far, decoded once.
    inodes: BTreeMap<InodeId, Held>,
    changes: BTreeMap<Key, Option<Bytes>>,
    usage: BTreeMap<(VirtualShard, VolumeId), UsageChange>,
    work: Vec<Work>,
    made: Option<InodeId>,
    /// Inodes changed, and bytes of all changes, about.
    changed: usize,
    bytes: usize,
    unfinished: bool,
}

struct Held {
    inode: Rc<Inode>,
    changed: bool,
    /// Bytes of its record when it was read.
    bytes: usize,
}

#[derive(Clone, Copy, Default)]
struct UsageChange {
    inodes: i64,
    purging: i64,
}

/// What an operation leaves when it is through.
pub(crate) struct Changes {
    pub batch: Batch,
    pub work: Vec<Work>,
    /// The inode number it took.
    pub made: Option<InodeId>,
    /// The operation is to be applied again when this batch is staged.
    pub unfinished: bool,
}

impl<'a> View<'a> {
    pub fn new(
        records: &'a dyn Records,
        ctx: &'a Context<'a>,
        numbers: &'a UnusedNumbers,
    ) -> View<'a> {
        View {
            ctx,
            records,
            numbers,
            inodes: BTreeMap::new(),
            changes: BTreeMap::new(),
            usage: BTreeMap::new(),
            work: Vec::new(),
            made: None,
            changed: 0,
            bytes: 0,
            unfinished: false,
        }
    }

    // Reading.

    /// An inode that must be there: whoever names it by number was told the number.
    pub fn inode(&mut self, ino: InodeId) -> Outcome<Rc<Inode>> {
        self.find_inode(ino)?.ok_or(Stop::Refused(Refusal::Stale))
    }

    pub fn find_inode(&mut self, ino: InodeId) -> Outcome<Option<Rc<Inode>>> {
        if let Some(held) = self.inodes.get(&ino) {
            return Ok(Some(held.inode.clone()));
        }
        let key = Key::inode(ino);
        let Some(record) = self.value(&key)? else {
            return Ok(None);
        };
        let mut inode: Inode = decode(&key, &record)?;
        inode.ino = ino;
        let inode = Rc::new(inode);
        self.inodes.insert(
            ino,
            Held {
                inode: inode.clone(),
                changed: false,
                bytes: record.len(),
            },
        );
        Ok(Some(inode))
    }

    /// Asks for several records at once, so that a cold start costs one trip and not one a record.
    pub fn want(&self, keys: impl IntoIterator<Item = Key>) -> Outcome<()> {
        let unknown: Vec<Key> = keys
            .into_iter()
            .filter(|key| {
                !self.changes.contains_key(key) && self.records.get(key) == Known::Unknown
            })
            .collect();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(Need::Keys(unknown).into())
        }
    }

    pub fn get<R: Record>(&self, key: &Key) -> Outcome<Option<R>> {
        let value = self.value(key)?;
        value.map(|value| decode(key, &value)).transpose()
    }

    fn value(&self, key: &Key) -> Outcome<Option<Bytes>> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => match self.records.get(key) {
                Known::Value(value) => Ok(value),
                Known::Unknown => Err(Need::Keys(vec![key.clone()]).into()),
            },
        }
    }

    /// The first `limit` records of a range, as they were before this operation.
    pub fn scan(&self, range: KeyRange, limit: usize) -> Outcome<Vec<(Key, Bytes)>> {
        match self.records.scan(&range, limit) {
            Some(records) => Ok(records),
            None => Err(Need::Scan { range, limit }.into()),
        }
    }

    // Changing.

    pub fn put<R: Record>(&mut self, key: Key, record: &R) {
        let record = record.encode();
        self.bytes += key.as_bytes().len() + record.len();
        self.changes.insert(key, Some(record));
    }

    pub fn remove(&mut self, key: Key) {
        self.bytes += key.as_bytes().len();
        self.changes.insert(key, None);
    }

    /// Changes an inode; `change` rises by one for the whole operation.
    pub fn change<T>(&mut self, ino: InodeId, how: impl FnOnce(&mut Inode) -> T) -> Outcome<T> {
        self.inode(ino)?;
        let held = self.inodes.get_mut(&ino).expect("it was read just now");
        let inode = Rc::make_mut(&mut held.inode);
        if !held.changed {
            held.changed = true;
            self.changed += 1;
            self.bytes += held.bytes;
            inode.change += 1;
        }
        Ok(how(inode))
    }

    /// Changes a directory's own part; the caller has seen that it is one.
    pub fn change_dir<T>(
        &mut self,
        ino: InodeId,
        how: impl FnOnce(&mut Inode, &mut Directory) -> T,
    ) -> Outcome<T> {
        let changed: Result<T, Refusal> = self.change(ino, |inode| {
            let mut dir = std::mem::take(inode.directory_mut()?);
            let result = how(inode, &mut dir);
            *inode.directory_mut()? = dir;
            Ok(result)
        })?;
        Ok(changed?)
    }

    /// Changes a file's own part; the caller has seen that it is one.
    pub fn change_file<T>(
        &mut self,
        ino: InodeId,
        how: impl FnOnce(&mut Inode, &mut File) -> T,
    ) -> Outcome<T> {
        let changed: Result<T, Refusal> = self.change(ino, |inode| {
            let mut file = std::mem::take(inode.file_mut()?);
            let result = how(inode, &mut file);
            *inode.file_mut()? = file;
            Ok(result)
        })?;
        Ok(changed?)
    }

    /// The number for a new inode in this shard, or the one that it had.
    pub fn new_number(&self, shard: VirtualShard) -> Outcome<InodeId> {
        if let Some(again) = self.ctx.again {
            // It made none then: the name that it found is gone.
            let ino = again.made.ok_or(Stop::Refused(Refusal::NotFound))?;
            let is_new = ino.shard().0 < self.ctx.shards.0
                && self.was_given(ino)?
                && self.get::<Inode>(&Key::inode(ino))?.is_none();
            return match !is_new {
                true => Err(Refusal::Malformed(format!("inode {:x} is no new one", ino.0)).into()),
                false => Ok(ino),
            };
        }
        self.numbers
            .first(shard)
            .ok_or_else(|| Need::Numbers(shard).into())
    }

    /// Whether the number may have been given before this server started: not one that is still to be given.
    fn was_given(&self, ino: InodeId) -> Outcome<bool> {
        let shard = ino.shard();
        let end = match self.numbers.first(shard) {
            Some(unused) => unused.counter(),
            None => {
                let reserved = self.get::<Numbers>(&Key::numbers(shard))?;
                reserved.map_or(0, |reserved| reserved.next)
            }
        };
        Ok((FIRST_NUMBER..end).contains(&ino.counter()))
    }

    pub fn add_inode(&mut self, inode: Inode) {
        let ino = inode.ino;
        self.made = Some(ino);
        self.usage_of(ino.shard(), inode.volume).inodes += 1;
        self.inodes.insert(
            ino,
            Held {
                inode: Rc::new(inode),
                changed: true,
                bytes: 0,
            },
        );
    }

    pub fn remove_inode(&mut self, inode: &Inode) {
        self.inodes.remove(&inode.ino);
        self.remove(Key::inode(inode.ino));
        self.usage_of(inode.ino.shard(), inode.volume).inodes -= 1;
        self.work.push(Work::Gone(inode.ino));
    }

    pub fn count_purges(&mut self, shard: VirtualShard, volume: VolumeId, by: i64) {
        self.usage_of(shard, volume).purging += by;
    }

    fn usage_of(&mut self, shard: VirtualShard, volume: VolumeId) -> &mut UsageChange {
        self.usage.entry((shard, volume)).or_default()
    }

    pub fn work(&mut self, work: Work) {
        self.work.push(work);
    }

    /// How many more records this batch may change, if what it does can go on in another one: none when it is full. What a
    /// chore or a list of files changes is bounded so; all other operations change a handful.
    pub fn room(&self) -> usize {
        if self.bytes as u64 >= BATCH_BYTES.get() {
            return 0;
        }
        CHORE_BATCH.saturating_sub(self.changes.len() + self.changed + self.usage.len())
    }

    /// The operation has done a part of its work, which stands by itself: it is applied again for the rest.
    pub fn goes_on(&mut self) {
        self.unfinished = true;
    }

    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Stops what would make records or bytes more while only the reserve is left.
    pub fn must_have_room(&self) -> Outcome<()> {
        if self.ctx.growth_allowed {
            Ok(())
        } else {
            Err(Stop::Refused(Refusal::NoSpace))
        }
    }

    // The end.

    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty() || self.inodes.values().any(|held| held.changed)
    }

    pub fn finish(mut self) -> Outcome<Changes> {
        for ((shard, volume), change) in std::mem::take(&mut self.usage) {
            let key = Key::usage(shard, volume);
            let before: Usage = self.get(&key)?.unwrap_or_default();
            let after = Usage {
                inodes: before.inodes.saturating_add_signed(change.inodes),
                purging: before.purging.saturating_add_signed(change.purging),
            };
            self.put(key, &after);
        }
        for (ino, held) in &self.inodes {
            if held.changed {
                self.changes
                    .insert(Key::inode(*ino), Some(held.inode.encode()));
            }
        }
        Ok(Changes {
            batch: self.changes.into_iter().collect(),
            work: self.work,
            made: self.made,
            unfinished: self.unfinished,
        })
    }
}

pub(crate) fn decode<R: Record>(key: &Key, value: &Bytes) -> Outcome<R> {
    R::decode(value)
        .map_err(|error| Stop::Refused(Refusal::StoreFailed(format!("record {key:?}: {error}"))))
}
