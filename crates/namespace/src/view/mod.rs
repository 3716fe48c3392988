//! One operation's view of the records: records in, changes and follow-ups out.

mod read;

pub(crate) use read::{ReadView, decode};

use crate::context::{OpContext, OriginalResult};
use crate::driver::{FollowUp, OpError, OpResult, Prerequisite, RecordBatch, RecordSource};
use crate::hash;
use crate::inode_numbers::{FIRST_INODE_COUNTER, ReservedInodeNumbers};
use crate::key::RecordKey;
use crate::record::{DirectoryBody, FileBody, Inode, InodeCounter, Record, Usage};
use gupfs_proto::limits::{BACKGROUND_BATCH, BATCH_BYTES};
use gupfs_proto::{FsError, InodeId, Timestamp, VirtualShard, VirtualShards, VolumeId};
use read::CachedInode;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Reads and changes records for one operation.
pub(crate) struct OpView<'a> {
    read: ReadView<'a>,
    numbers: &'a ReservedInodeNumbers,
    /// Set for a replay.
    original: Option<&'a OriginalResult>,
    now: Timestamp,
    shards: VirtualShards,
    entropy: u64,
    growth_allowed: bool,
    usage: BTreeMap<(VirtualShard, VolumeId), UsageDelta>,
    follow_ups: Vec<FollowUp>,
    created: Option<InodeId>,
    /// Number of changed inodes, and approximate bytes of all changes.
    changed: usize,
    bytes: usize,
    unfinished: bool,
}

#[derive(Clone, Copy, Default)]
struct UsageDelta {
    inodes: i64,
    purging: i64,
}

/// The changes of a completed operation.
pub(crate) struct OpChanges {
    pub batch: RecordBatch,
    pub follow_ups: Vec<FollowUp>,
    /// The inode number that it used for a new inode.
    pub created: Option<InodeId>,
    /// The driver must apply the operation again when this batch is staged.
    pub unfinished: bool,
}

/// An operation reads its own changes, so its reads go through the same handle.
impl<'a> Deref for OpView<'a> {
    type Target = ReadView<'a>;

    fn deref(&self) -> &ReadView<'a> {
        &self.read
    }
}

impl DerefMut for OpView<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.read
    }
}

impl<'a> OpView<'a> {
    pub fn new(
        records: &'a dyn RecordSource,
        ctx: &OpContext<'a>,
        numbers: &'a ReservedInodeNumbers,
    ) -> OpView<'a> {
        OpView {
            read: ReadView::new(records),
            numbers,
            original: ctx.replay,
            now: ctx.now,
            shards: ctx.shards,
            entropy: ctx.entropy,
            growth_allowed: ctx.growth_allowed,
            usage: BTreeMap::new(),
            follow_ups: Vec::new(),
            created: None,
            changed: 0,
            bytes: 0,
            unfinished: false,
        }
    }

    /// Time of the operation. The clock may stand still or step back: an inode's ctime never goes back.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn put<R: Record>(&mut self, key: RecordKey, record: &R) {
        let record = record.encode();
        self.bytes += key.as_bytes().len() + record.len();
        self.read.changes.insert(key, Some(record));
    }

    pub fn remove(&mut self, key: RecordKey) {
        self.bytes += key.as_bytes().len();
        self.read.changes.insert(key, None);
    }

    /// Changes an inode; its `change` counter rises by one for the whole operation.
    pub fn change<T>(&mut self, ino: InodeId, update: impl FnOnce(&mut Inode) -> T) -> OpResult<T> {
        self.inode(ino)?;
        let cached = self
            .read
            .inodes
            .get_mut(&ino)
            .expect("it was read just now");
        let inode = Rc::make_mut(&mut cached.inode);
        if !cached.changed {
            cached.changed = true;
            self.changed += 1;
            self.bytes += cached.bytes;
            inode.change += 1;
        }
        Ok(update(inode))
    }

    /// Changes the directory part of an inode; the caller has checked that it is a directory.
    pub fn change_dir<T>(
        &mut self,
        ino: InodeId,
        update: impl FnOnce(&mut Inode, &mut DirectoryBody) -> T,
    ) -> OpResult<T> {
        let changed: Result<T, FsError> = self.change(ino, |inode| {
            let mut dir = std::mem::take(inode.directory_mut()?);
            let result = update(inode, &mut dir);
            *inode.directory_mut()? = dir;
            Ok(result)
        })?;
        Ok(changed?)
    }

    /// Changes the file part of an inode; the caller has checked that it is a regular file.
    pub fn change_file<T>(
        &mut self,
        ino: InodeId,
        update: impl FnOnce(&mut Inode, &mut FileBody) -> T,
    ) -> OpResult<T> {
        let changed: Result<T, FsError> = self.change(ino, |inode| {
            let mut file = std::mem::take(inode.file_mut()?);
            let result = update(inode, &mut file);
            *inode.file_mut()? = file;
            Ok(result)
        })?;
        Ok(changed?)
    }

    /// The number for a new inode in this shard; for a replay, the number that the inode had.
    pub fn new_inode_number(&self, shard: VirtualShard) -> OpResult<InodeId> {
        if let Some(original) = self.original {
            // The original execution created no inode: the name that it found is gone.
            let ino = original
                .created
                .ok_or(OpError::Refused(FsError::NotFound))?;
            let is_new = ino.shard().0 < self.shards.0
                && self.was_allocated(ino)?
                && self.get::<Inode>(&RecordKey::inode(ino))?.is_none();
            return match !is_new {
                true => Err(FsError::Malformed(format!(
                    "replay: inode {:x} is in use or was never assigned",
                    ino.0
                ))
                .into()),
                false => Ok(ino),
            };
        }
        self.numbers
            .first(shard)
            .ok_or_else(|| Prerequisite::InodeNumbers(shard).into())
    }

    /// Whether the number may have been assigned before this server started, and will not be assigned again.
    fn was_allocated(&self, ino: InodeId) -> OpResult<bool> {
        let shard = ino.shard();
        let end = match self.numbers.first(shard) {
            Some(unused) => unused.counter(),
            None => {
                let reserved = self.get::<InodeCounter>(&RecordKey::inode_counter(shard))?;
                reserved.map_or(0, |reserved| reserved.next)
            }
        };
        Ok((FIRST_INODE_COUNTER..end).contains(&ino.counter()))
    }

    /// The shard of a new directory: directories are spread over all shards, and so is the load of a tree.
    pub fn new_directory_shard(&self) -> VirtualShard {
        hash::random_shard(self.entropy, self.shards)
    }

    /// Adds an inode that `new_inode` has built.
    pub fn add_inode(&mut self, inode: Inode) {
        let ino = inode.ino;
        self.created = Some(ino);
        self.usage_delta(ino.shard(), inode.volume).inodes += 1;
        self.read.inodes.insert(
            ino,
            CachedInode {
                inode: Rc::new(inode),
                changed: true,
                bytes: 0,
            },
        );
    }

    /// Removes the inode's record; the caller has removed its other records.
    pub fn remove_inode(&mut self, inode: &Inode) {
        self.read.inodes.remove(&inode.ino);
        self.remove(RecordKey::inode(inode.ino));
        self.usage_delta(inode.ino.shard(), inode.volume).inodes -= 1;
        self.follow_ups.push(FollowUp::InodeRemoved(inode.ino));
    }

    pub fn adjust_purge_count(&mut self, shard: VirtualShard, volume: VolumeId, by: i64) {
        self.usage_delta(shard, volume).purging += by;
    }

    fn usage_delta(&mut self, shard: VirtualShard, volume: VolumeId) -> &mut UsageDelta {
        self.usage.entry((shard, volume)).or_default()
    }

    pub fn add_follow_up(&mut self, work: FollowUp) {
        self.follow_ups.push(work);
    }

    /// The number of records that this batch may still change, if the operation can continue in another batch: 0 when it is
    /// full. It bounds background operations and operations on a list of files; all other operations change a handful of
    /// records.
    pub fn remaining_records(&self) -> usize {
        if self.bytes as u64 >= BATCH_BYTES.get() {
            return 0;
        }
        BACKGROUND_BATCH.saturating_sub(self.read.changes.len() + self.changed + self.usage.len())
    }

    /// The operation has made a part of its changes, consistent by themselves: the driver applies it again for the rest.
    pub fn mark_unfinished(&mut self) {
        self.unfinished = true;
    }

    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Refuses operations that add records or bytes while only the reserve is left.
    pub fn check_growth_allowed(&self) -> OpResult<()> {
        if self.growth_allowed {
            Ok(())
        } else {
            Err(OpError::Refused(FsError::NoSpace))
        }
    }

    pub fn has_changes(&self) -> bool {
        !self.read.changes.is_empty() || self.read.inodes.values().any(|cached| cached.changed)
    }

    /// The changes to commit.
    pub fn finish(mut self) -> OpResult<OpChanges> {
        for ((shard, volume), change) in std::mem::take(&mut self.usage) {
            let key = RecordKey::usage(shard, volume);
            let before: Usage = self.get(&key)?.unwrap_or_default();
            let after = Usage {
                inodes: before.inodes.saturating_add_signed(change.inodes),
                purging: before.purging.saturating_add_signed(change.purging),
            };
            self.put(key, &after);
        }
        let ReadView {
            inodes, changes, ..
        } = &mut self.read;
        for (ino, cached) in inodes {
            if cached.changed {
                changes.insert(RecordKey::inode(*ino), Some(cached.inode.encode()));
            }
        }
        Ok(OpChanges {
            batch: self.read.changes.into_iter().collect(),
            follow_ups: self.follow_ups,
            created: self.created,
            unfinished: self.unfinished,
        })
    }
}
