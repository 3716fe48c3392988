//! The index in fjall: one keyspace for the records and how far they go, one for whose they are.
//!
//! Only fjall's tables are believed. It syncs a table, and the list of tables, before it uses either, each through the
//! descriptor that wrote it, so a table in that list is on the disk. Its journal is the one file that it reads back without
//! having synced it: after a failed sync the page cache goes on showing bytes that no disk has, and a power cut leaves any of
//! its pages. So each start empties the journal first, `persist` makes tables of all that was applied, and the log, which
//! keeps its segments until then, gives the rest again.

use super::error::IndexError;
use super::verify::verify;
use super::{Changes, End, IndexView, Range, ReadableRecords, ViewKind, journal, limits};
use crate::log::StoreId;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use gupfs_platform::panics::caught;
use gupfs_proto::Seq;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

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

/// fjall panics on some damaged files. After the first such panic nothing more is asked of it: what it was changing may be
/// half changed.
#[derive(Clone, Default)]
struct Guard(Arc<OnceLock<IndexError>>);

impl Guard {
    fn call<T>(&self, ask: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
        if let Some(given_up) = self.0.get() {
            return Err(given_up.clone());
        }
        caught(ask).unwrap_or_else(|panic| {
            let error = IndexError::from(panic);
            let _ = self.0.set(error.clone());
            Err(error)
        })
    }
}

pub struct FjallView {
    guard: Guard,
    moment: Snapshot,
    records: Keyspace,
}

impl FjallView {
    pub fn scan(&self, range: Range, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        match self.scan_readable(range, limit, End::First) {
            (found, None) => Ok(found),
            (_, Some(failure)) => Err(failure),
        }
    }

    pub fn scan_readable(&self, range: Range, limit: usize, from: End) -> ReadableRecords {
        let records = || self.moment.range(&self.records, range);
        let read = self.guard.call(|| {
            Ok(match from {
                End::First => read(records(), limit),
                End::Last => read(records().rev(), limit),
            })
        });
        read.unwrap_or_else(|failure| (Vec::new(), Some(failure)))
    }
}

/// Nothing more is asked for behind a failure: fjall would go on with older values.
fn read(records: impl Iterator<Item = ::fjall::Guard>, limit: usize) -> ReadableRecords {
    let mut found = Vec::with_capacity(limit.min(1024));
    for record in records {
        let (key, value) = match record.into_inner() {
            Ok(record) => record,
            Err(failure) => return (found, Some(failure.into())),
        };
        if key[..] == *APPLIED_KEY {
            continue;
        }
        found.push((Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&value)));
        if found.len() == limit {
            break;
        }
    }
    (found, None)
}

pub struct FjallIndex {
    guard: Guard,
    /// None only while it is dropped.
    engine: Option<Engine>,
    applied: AtomicU64,
}

struct Engine {
    database: Database,
    records: Keyspace,
    own: Keyspace,
}

/// Closing takes locks that a panic may have poisoned.
impl Drop for FjallIndex {
    fn drop(&mut self) {
        let engine = self.engine.take();
        if let Err(panic) = caught(move || drop(engine)) {
            tracing::error!(%panic, "the index did not close in order");
        }
    }
}

impl FjallIndex {
    pub fn open(dir: &Path, files: usize) -> Result<FjallIndex, IndexError> {
        // First: what is not believed needs no looking at.
        if journal::is_unused(dir)? {
            journal::empty(dir)?;
        }
        verify(dir)?;
        let guard = Guard::default();
        let (engine, applied) = guard.call(|| Engine::open(dir, files))?;
        Ok(FjallIndex {
            guard,
            engine: Some(engine),
            applied: AtomicU64::new(applied),
        })
    }

    pub fn applied(&self) -> Seq {
        Seq(self.applied.load(Ordering::Acquire))
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        self.call(|engine| {
            // Copied, so that a small record does not keep a whole block in memory.
            let value = engine.records.get(key)?;
            Ok(value.map(|value| Bytes::copy_from_slice(&value)))
        })
    }

    pub fn view(&self) -> IndexView {
        let engine = self.engine();
        IndexView(ViewKind::Fjall(FjallView {
            guard: self.guard.clone(),
            moment: engine.database.snapshot(),
            records: engine.records.clone(),
        }))
    }

    pub fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        let mut id = store.cluster.0.to_le_bytes().to_vec();
        id.extend_from_slice(&store.incarnation.0.to_le_bytes());
        self.call(|engine| match engine.own.get(STORE_KEY)? {
            None => {
                engine.own.insert(STORE_KEY, id)?;
                engine.make_tables(&engine.own)
            }
            Some(found) if found[..] == id[..] => Ok(()),
            Some(_) => Err(IndexError::Foreign),
        })
    }

    pub fn apply(&self, seq: Seq, changes: &Changes) -> Result<(), IndexError> {
        self.call(|engine| {
            let mut batch = engine.database.batch();
            for (key, value) in changes {
                match value {
                    Some(value) => batch.insert(&engine.records, &key[..], &value[..]),
                    None => batch.remove(&engine.records, &key[..]),
                }
            }
            // In the same batch and keyspace: a table has all of a batch or nothing, and tables are made in order, so whatever
            // tables there are, they say truly how far they go.
            batch.insert(&engine.records, APPLIED_KEY, seq.0.to_le_bytes());
            batch.commit()?;
            Ok(())
        })?;
        self.applied.store(seq.0, Ordering::Release);
        Ok(())
    }

    pub fn persist(&self) -> Result<(), IndexError> {
        self.call(|engine| engine.make_tables(&engine.records))
    }

    #[cfg(test)]
    pub fn flush_to_tables(&self) {
        let engine = self.engine();
        for keyspace in [&engine.records, &engine.own] {
            keyspace.rotate_memtable_and_wait().unwrap();
        }
    }

    fn engine(&self) -> &Engine {
        self.engine
            .as_ref()
            .expect("it is there until it is dropped")
    }

    fn call<T>(&self, ask: impl FnOnce(&Engine) -> Result<T, IndexError>) -> Result<T, IndexError> {
        self.guard.call(|| ask(self.engine()))
    }
}

impl Engine {
    /// The engine, and how far it got.
    fn open(dir: &Path, files: usize) -> Result<(Engine, u64), IndexError> {
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
        let engine = Engine {
            database,
            records,
            own,
        };
        let version = number(&engine.own, VERSION_KEY)?;
        if let Some(found) = version
            && found > u64::from(VERSION)
        {
            return Err(IndexError::Version {
                found: found as u32,
                known: VERSION,
            });
        }
        if version != Some(u64::from(VERSION)) {
            engine.bring_up_to_date()?;
        }
        // Last: from now on the journal is emptied at each start.
        journal::note_unused(dir)?;
        let applied = number(&engine.records, APPLIED_KEY)?.unwrap_or(0);
        Ok((engine, applied))
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
