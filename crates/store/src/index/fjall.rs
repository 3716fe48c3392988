//! The index in fjall: one keyspace for the records and how far they go, one for whose they are.
//!
//! Only fjall's tables are believed. It syncs a table, and the list of tables, before it uses either, each through the
//! descriptor that wrote it, so a table in that list is on the disk. Its journal is the one file that it reads back without
//! having synced it: after a failed sync the page cache goes on showing bytes that no disk has, and a power cut leaves any of
//! its pages. So each start empties the journal first, `persist` makes tables of all that was applied, and the log, which
//! keeps its segments until then, gives the rest again.

use super::error::IndexError;
use super::{Changes, IndexView, Range, ViewKind, journal, limits};
use crate::log::StoreId;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use gupfs_proto::Seq;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// 1: keys and values as the log has them; `own` holds "version" and "applied" (u64), "store" (cluster u128, incarnation
/// u64), little endian.
/// 2: "applied" lies among the records, so that each table that holds records of a batch holds how far they go.
const VERSION: u32 = 2;
const VERSION_KEY: &str = "version";
const STORE_KEY: &str = "store";

/// Where version 1 has it, in `own`.
const FORMER_APPLIED_KEY: &str = "applied";

/// Of all keys of stores, which begin with two bytes of a shard or with a letter, none is so short.
const APPLIED_KEY: &[u8] = &[0];

pub struct FjallView {
    moment: Snapshot,
    records: Keyspace,
}

impl FjallView {
    pub fn scan(&self, range: Range, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        let mut found = Vec::with_capacity(limit.min(1024));
        for record in self.moment.range(&self.records, range) {
            if found.len() == limit {
                break;
            }
            let (key, value) = record.into_inner()?;
            if key[..] == *APPLIED_KEY {
                continue;
            }
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
        if journal::is_unused(dir)? {
            journal::empty(dir)?;
        }
        let database = Database::builder(dir)
            .cache_size(limits::CACHE_BYTES)
            .max_journaling_size(limits::JOURNAL_BYTES)
            .max_cached_files(Some(files))
            .worker_threads(limits::WORKERS)
            // Nobody reads it again.
            .manual_journal_persist(true)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(limits::MEMTABLE_BYTES);
        let records = database.keyspace("records", options)?;
        let own = database.keyspace("own", options)?;
        let index = FjallIndex {
            database,
            records,
            own,
            applied: AtomicU64::new(0),
        };
        let version = number(&index.own, VERSION_KEY)?;
        if let Some(found) = version
            && found > u64::from(VERSION)
        {
            return Err(IndexError::Version {
                found: found as u32,
                known: VERSION,
            });
        }
        if version != Some(u64::from(VERSION)) {
            index.bring_up_to_date()?;
        }
        // Last: from now on the journal is emptied at each start.
        journal::note_unused(dir)?;
        let applied = number(&index.records, APPLIED_KEY)?.unwrap_or(0);
        index.applied.store(applied, Ordering::Release);
        Ok(index)
    }

    /// Makes a new index, or one of version 1, one of this version. Version 1 kept what it was given last in the journal
    /// alone, so this start still believed it.
    fn bring_up_to_date(&self) -> Result<(), IndexError> {
        if let Some(applied) = number(&self.own, FORMER_APPLIED_KEY)? {
            self.records.insert(APPLIED_KEY, applied.to_le_bytes())?;
            self.make_tables(&self.records)?;
        }
        self.own
            .insert(VERSION_KEY, u64::from(VERSION).to_le_bytes())?;
        self.make_tables(&self.own)
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
            None => {
                self.own.insert(STORE_KEY, id)?;
                self.make_tables(&self.own)
            }
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
        // In the same batch and keyspace: a table has all of a batch or nothing, and tables are made in order, so whatever tables
        // there are, they say truly how far they go.
        batch.insert(&self.records, APPLIED_KEY, seq.0.to_le_bytes());
        batch.commit()?;
        self.applied.store(seq.0, Ordering::Release);
        Ok(())
    }

    pub fn persist(&self) -> Result<(), IndexError> {
        self.make_tables(&self.records)
    }

    /// Returns when all that a keyspace was given before lies in tables, synced.
    fn make_tables(&self, keyspace: &Keyspace) -> Result<(), IndexError> {
        keyspace.rotate_memtable()?;
        while keyspace.sealed_memtable_count() > 0 {
            // A worker that failed makes none any more, and this says so. It syncs nothing.
            self.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(limits::TABLES_PAUSE);
        }
        // One that failed behind the last table has poisoned the engine: nothing more may be promised.
        Ok(self.database.persist(PersistMode::Buffer)?)
    }
}

fn number(keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<u64>, IndexError> {
    let key = key.as_ref();
    let Some(value) = keyspace.get(key)? else {
        return Ok(None);
    };
    let bytes = value[..].try_into().map_err(|_| {
        let key = key.escape_ascii();
        IndexError::Engine(format!("its own record '{key}' is not a number"))
    })?;
    Ok(Some(u64::from_le_bytes(bytes)))
}
