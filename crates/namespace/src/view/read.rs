//! Reading: the records that the driver has in memory, with the operation's own changes over them.

use crate::driver::{CachedRecord, OpError, OpResult, Prerequisite, RecordSource};
use crate::key::{KeyRange, RecordKey};
use crate::record::{Inode, Record};
use bytes::Bytes;
use gupfs_proto::{FsError, InodeId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Reads records for one operation. Operations and checks that change nothing get only this.
pub(crate) struct ReadView<'a> {
    records: &'a dyn RecordSource,
    /// Inodes read or changed so far, decoded once.
    pub(super) inodes: BTreeMap<InodeId, CachedInode>,
    pub(super) changes: BTreeMap<RecordKey, Option<Bytes>>,
}

pub(super) struct CachedInode {
    pub inode: Rc<Inode>,
    pub changed: bool,
    /// Bytes of its record when it was read.
    pub bytes: usize,
}

impl<'a> ReadView<'a> {
    pub fn new(records: &'a dyn RecordSource) -> ReadView<'a> {
        ReadView {
            records,
            inodes: BTreeMap::new(),
            changes: BTreeMap::new(),
        }
    }

    /// An inode that must exist, because the client got its number from this server; `Stale` if it does not.
    pub fn inode(&mut self, ino: InodeId) -> OpResult<Rc<Inode>> {
        self.find_inode(ino)?
            .ok_or(OpError::Refused(FsError::Stale))
    }

    /// An inode, if it exists.
    pub fn find_inode(&mut self, ino: InodeId) -> OpResult<Option<Rc<Inode>>> {
        if let Some(cached) = self.inodes.get(&ino) {
            return Ok(Some(cached.inode.clone()));
        }
        let key = RecordKey::inode(ino);
        let Some(record) = self.value(&key)? else {
            return Ok(None);
        };
        let mut inode: Inode = decode(&key, &record)?;
        inode.ino = ino;
        let inode = Rc::new(inode);
        self.inodes.insert(
            ino,
            CachedInode {
                inode: inode.clone(),
                changed: false,
                bytes: record.len(),
            },
        );
        Ok(Some(inode))
    }

    /// Requires several records at once, so that a cold cache costs one fetch and not one per record.
    pub fn prefetch(&self, keys: impl IntoIterator<Item = RecordKey>) -> OpResult<()> {
        let unknown: Vec<RecordKey> = keys
            .into_iter()
            .filter(|key| {
                !self.changes.contains_key(key) && self.records.get(key) == CachedRecord::Unknown
            })
            .collect();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(Prerequisite::Keys(unknown).into())
        }
    }

    /// A record of the key's kind, if it exists.
    pub fn get<R: Record>(&self, key: &RecordKey) -> OpResult<Option<R>> {
        let value = self.value(key)?;
        value.map(|value| decode(key, &value)).transpose()
    }

    fn value(&self, key: &RecordKey) -> OpResult<Option<Bytes>> {
        match self.changes.get(key) {
            Some(change) => Ok(change.clone()),
            None => match self.records.get(key) {
                CachedRecord::Value(value) => Ok(value),
                CachedRecord::Unknown => Err(Prerequisite::Keys(vec![key.clone()]).into()),
            },
        }
    }

    /// The first `limit` records of a range, as they were before this operation.
    pub fn scan(&self, range: KeyRange, limit: usize) -> OpResult<Vec<(RecordKey, Bytes)>> {
        match self.records.scan(&range, limit) {
            Some(records) => Ok(records),
            None => Err(Prerequisite::Scan { range, limit }.into()),
        }
    }
}

/// Decodes the record of a key.
pub(crate) fn decode<R: Record>(key: &RecordKey, value: &Bytes) -> OpResult<R> {
    R::decode(value)
        .map_err(|error| OpError::Refused(FsError::StoreFailed(format!("record {key:?}: {error}"))))
}
