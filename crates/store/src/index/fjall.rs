//! The index in fjall: one keyspace for the records, one for what the index knows of itself.

use super::error::IndexError;
use super::{Changes, IndexView, Range, ViewKind, limits};
use crate::log::StoreId;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use gupfs_proto::Seq;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// 1: keys and values as the log has them; `own` holds "version" and "applied" (u64), "store" (cluster u128, incarnation
/// u64), little endian.
const VERSION: u32 = 1;
const VERSION_KEY: &str = "version";
const APPLIED_KEY: &str = "applied";
const STORE_KEY: &str = "store";

pub struct FjallView {
    moment: Snapshot,
    records: Keyspace,
}

impl FjallView {
    pub fn scan(&self, range: Range, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        let mut found = Vec::with_capacity(limit.min(1024));
        for record in self.moment.range(&self.records, range).take(limit) {
            let (key, value) = record.into_inner()?;
            found.push((Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&value)));
        }
        Ok(found)
    }
}

pub struct FjallIndex {
    database: Database,
    records: Keyspace,
    own: Keyspace,
    applied: AtomicU64,
}

impl FjallIndex {
    pub fn open(dir: &Path, files: usize) -> Result<FjallIndex, IndexError> {
        let database = Database::builder(dir)
            .cache_size(limits::CACHE_BYTES)
            .max_journaling_size(limits::JOURNAL_BYTES)
            .max_cached_files(Some(files))
            .worker_threads(limits::WORKERS)
            // Our log survives the process; the journal's bytes may stay in memory until `persist`.
            .manual_journal_persist(true)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(limits::MEMTABLE_BYTES);
        let records = database.keyspace("records", options)?;
        let own = database.keyspace("own", options)?;
        match number(&own, VERSION_KEY)? {
            None => own.insert(VERSION_KEY, u64::from(VERSION).to_le_bytes())?,
            Some(found) if found <= u64::from(VERSION) => {}
            Some(found) => {
                return Err(IndexError::Version {
                    found: found as u32,
                    known: VERSION,
                });
            }
        }
        let applied = AtomicU64::new(number(&own, APPLIED_KEY)?.unwrap_or(0));
        Ok(FjallIndex {
            database,
            records,
            own,
            applied,
        })
    }

    pub fn applied(&self) -> Seq {
        Seq(self.applied.load(Ordering::Acquire))
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        // Copied, so that a small record does not keep a whole block in memory.
        Ok(self
            .records
            .get(key)?
            .map(|value| Bytes::copy_from_slice(&value)))
    }

    pub fn view(&self) -> IndexView {
        IndexView(ViewKind::Fjall(FjallView {
            moment: self.database.snapshot(),
            records: self.records.clone(),
        }))
    }

    pub fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        let mut id = store.cluster.0.to_le_bytes().to_vec();
        id.extend_from_slice(&store.incarnation.0.to_le_bytes());
        match self.own.get(STORE_KEY)? {
            None => Ok(self.own.insert(STORE_KEY, id)?),
            Some(found) if found[..] == id[..] => Ok(()),
            Some(_) => Err(IndexError::Foreign),
        }
    }

    pub fn apply(&self, seq: Seq, changes: &Changes) -> Result<(), IndexError> {
        let mut batch = self.database.batch();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(&self.records, &key[..], &value[..]),
                None => batch.remove(&self.records, &key[..]),
            }
        }
        // In the same batch, which is whole or absent: the index never forgets how far it got.
        batch.insert(&self.own, APPLIED_KEY, seq.0.to_le_bytes());
        batch.commit()?;
        self.applied.store(seq.0, Ordering::Release);
        Ok(())
    }

    pub fn persist(&self) -> Result<(), IndexError> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

fn number(own: &Keyspace, key: &str) -> Result<Option<u64>, IndexError> {
    let Some(value) = own.get(key)? else {
        return Ok(None);
    };
    let bytes = value[..]
        .try_into()
        .map_err(|_| IndexError::Engine(format!("its own record '{key}' is not a number")))?;
    Ok(Some(u64::from_le_bytes(bytes)))
}
