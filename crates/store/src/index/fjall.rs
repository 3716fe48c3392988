//! The index in fjall: one keyspace for the records and the last applied batch, one for the identity of the store.
//!
//! Only fjall's tables count after a start. fjall syncs a table, and the list of tables, before it uses either, each
//! through the descriptor that wrote it, so a table in that list is on the disk. The journal is the one file that fjall
//! reads back without having synced it: after a failed sync the page cache still shows bytes that are on no disk, and a
//! power loss leaves an arbitrary subset of its pages. So each start empties the journal first, `persist` writes
//! everything applied into tables, and the log, which keeps its segments until then, replays the rest.

use super::error::IndexError;
use super::verify::verify;
use super::{IndexUpdates, IndexView, KeyBounds, PartialScan, RangeEnd, ViewKind, journal, limits};
use crate::log::StoreId;
use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use gupfs_platform::panics::catch_panic;
use gupfs_proto::Seq;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// 1: keys and values as in the log; the keyspace `own` holds "version" and "applied" (u64), "store" (cluster u128,
/// incarnation u64), little-endian.
/// 2: "applied" is among the records, so that each table with records of a batch also has the number of that batch.
const VERSION: u32 = 2;
const VERSION_KEY: &str = "version";
const STORE_KEY: &str = "store";

/// The key of the last applied batch in version 1, in the keyspace `own`.
const V1_APPLIED_KEY: &str = "applied";

/// No key of a store is this short: those begin with two bytes of a shard, or with a letter.
const APPLIED_KEY: &[u8] = &[0];

/// fjall panics on some damaged files. After the first such panic all further calls fail, because the panic may have
/// interrupted a change.
#[derive(Clone, Default)]
struct PanicGuard(Arc<OnceLock<IndexError>>);

impl PanicGuard {
    fn call<T>(&self, operation: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
        if let Some(error) = self.0.get() {
            return Err(error.clone());
        }
        catch_panic(operation).unwrap_or_else(|panic| {
            let error = IndexError::from(panic);
            let _ = self.0.set(error.clone());
            Err(error)
        })
    }
}

pub struct FjallView {
    guard: PanicGuard,
    snapshot: Snapshot,
    records: Keyspace,
}

impl FjallView {
    pub fn scan(&self, range: KeyBounds, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        match self.scan_readable(range, limit, RangeEnd::First) {
            (found, None) => Ok(found),
            (_, Some(failure)) => Err(failure),
        }
    }

    pub fn scan_readable(&self, range: KeyBounds, limit: usize, from: RangeEnd) -> PartialScan {
        let records = || self.snapshot.range(&self.records, range);
        let read = self.guard.call(|| {
            Ok(match from {
                RangeEnd::First => read(records(), limit),
                RangeEnd::Last => read(records().rev(), limit),
            })
        });
        read.unwrap_or_else(|failure| (Vec::new(), Some(failure)))
    }
}

/// Stops at the first failure: after it fjall would continue with older values.
fn read(records: impl Iterator<Item = ::fjall::Guard>, limit: usize) -> PartialScan {
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
    guard: PanicGuard,
    /// None only during the drop.
    engine: Option<FjallEngine>,
    applied: AtomicU64,
}

struct FjallEngine {
    database: Database,
    records: Keyspace,
    meta: Keyspace,
}

/// Closing the engine takes locks that a panic may have poisoned.
impl Drop for FjallIndex {
    fn drop(&mut self) {
        let engine = self.engine.take();
        if let Err(panic) = catch_panic(move || drop(engine)) {
            tracing::error!(%panic, "the index's engine panicked while it was closed");
        }
    }
}

impl FjallIndex {
    pub fn open(dir: &Path, files: usize) -> Result<FjallIndex, IndexError> {
        // Before `verify`: a journal that is not used need not be verified.
        if journal::is_unused(dir)? {
            journal::empty(dir)?;
        }
        verify(dir)?;
        let guard = PanicGuard::default();
        let (engine, applied) = guard.call(|| FjallEngine::open(dir, files))?;
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
            snapshot: engine.database.snapshot(),
            records: engine.records.clone(),
        }))
    }

    pub fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        let mut id = store.cluster.0.to_le_bytes().to_vec();
        id.extend_from_slice(&store.incarnation.0.to_le_bytes());
        self.call(|engine| match engine.meta.get(STORE_KEY)? {
            None => {
                engine.meta.insert(STORE_KEY, id)?;
                engine.write_tables(&engine.meta)
            }
            Some(found) if found[..] == id[..] => Ok(()),
            Some(_) => Err(IndexError::OtherStore),
        })
    }

    pub fn apply(&self, seq: Seq, updates: &IndexUpdates) -> Result<(), IndexError> {
        self.call(|engine| {
            let mut batch = engine.database.batch();
            for (key, value) in updates {
                match value {
                    Some(value) => batch.insert(&engine.records, &key[..], &value[..]),
                    None => batch.remove(&engine.records, &key[..]),
                }
            }
            // In the same batch and keyspace as the records: a table has all of a batch or nothing of it, and tables
            // are written in order, so the newest table always states correctly how far the tables go.
            batch.insert(&engine.records, APPLIED_KEY, seq.0.to_le_bytes());
            batch.commit()?;
            Ok(())
        })?;
        self.applied.store(seq.0, Ordering::Release);
        Ok(())
    }

    pub fn persist(&self) -> Result<(), IndexError> {
        self.call(|engine| engine.write_tables(&engine.records))
    }

    #[cfg(test)]
    pub fn flush_to_tables(&self) {
        let engine = self.engine();
        for keyspace in [&engine.records, &engine.meta] {
            keyspace.rotate_memtable_and_wait().unwrap();
        }
    }

    fn engine(&self) -> &FjallEngine {
        self.engine
            .as_ref()
            .expect("the engine is there until the drop")
    }

    fn call<T>(
        &self,
        operation: impl FnOnce(&FjallEngine) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.guard.call(|| operation(self.engine()))
    }
}

impl FjallEngine {
    /// Opens the engine; returns it and the last applied batch.
    fn open(dir: &Path, files: usize) -> Result<(FjallEngine, u64), IndexError> {
        let database = Database::builder(dir)
            .cache_size(limits::CACHE_BYTES)
            .max_journaling_size(limits::JOURNAL_BYTES)
            .max_cached_files(Some(files))
            .worker_threads(limits::WORKERS)
            // The store's log survives the process, so the journal's bytes may stay in memory until `persist`.
            .manual_journal_persist(true)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(limits::MEMTABLE_BYTES);
        let records = database.keyspace("records", options)?;
        let meta = database.keyspace("own", options)?;
        let engine = FjallEngine {
            database,
            records,
            meta,
        };
        let version = read_number(&engine.meta, VERSION_KEY)?;
        if let Some(found) = version
            && found > u64::from(VERSION)
        {
            return Err(IndexError::UnknownVersion {
                found: found as u32,
                known: VERSION,
            });
        }
        if version != Some(u64::from(VERSION)) {
            engine.upgrade()?;
        }
        // Last, because each later start empties the journal.
        journal::note_unused(dir)?;
        let applied = read_number(&engine.records, APPLIED_KEY)?.unwrap_or(0);
        Ok((engine, applied))
    }

    /// Upgrades a new index, or one of version 1, to this version. Version 1 kept its last batches in the journal only,
    /// so this start still reads the journal.
    fn upgrade(&self) -> Result<(), IndexError> {
        if let Some(applied) = read_number(&self.meta, V1_APPLIED_KEY)? {
            self.records.insert(APPLIED_KEY, applied.to_le_bytes())?;
            self.write_tables(&self.records)?;
        }
        self.meta
            .insert(VERSION_KEY, u64::from(VERSION).to_le_bytes())?;
        self.write_tables(&self.meta)
    }

    /// Returns when everything that was written to a keyspace before is in tables, synced.
    fn write_tables(&self, keyspace: &Keyspace) -> Result<(), IndexError> {
        keyspace.rotate_memtable()?;
        while keyspace.sealed_memtable_count() > 0 {
            // If a worker failed, it writes no more tables; this call then returns the error. It syncs nothing.
            self.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(limits::TABLES_PAUSE);
        }
        // A worker that failed after the last table has poisoned the engine: then this returns an error and nothing is
        // acknowledged.
        Ok(self.database.persist(PersistMode::Buffer)?)
    }
}

fn read_number(keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<u64>, IndexError> {
    let key = key.as_ref();
    let Some(value) = keyspace.get(key)? else {
        return Ok(None);
    };
    let bytes = value[..].try_into().map_err(|_| {
        let key = key.escape_ascii();
        IndexError::Engine(format!(
            "the record '{key}' of the index itself is not a number"
        ))
    })?;
    Ok(Some(u64::from_le_bytes(bytes)))
}
