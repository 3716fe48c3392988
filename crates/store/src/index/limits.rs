//! Memory of the index, by bounds. With these and the store's own (`kv::limits`) a process that makes a million files as fast
//! as it can stays below 300 MiB (example `kv_rate`).

use std::time::Duration;

/// Blocks of tables kept in memory, with their filters.
pub const CACHE_BYTES: u64 = 32 << 20;

/// What is gathered in memory before it becomes a table.
pub const MEMTABLE_BYTES: u64 = 16 << 20;

/// The engine's own journal, which nobody reads again: it takes so much of the disk. The engine takes no less.
pub const JOURNAL_BYTES: u64 = 64 << 20;

/// Table files that are kept open, at most and at least: one that is not is opened for each question.
pub const FILES_MOST: usize = 256;
pub const FILES_LEAST: usize = 16;

/// Descriptors beside them: journals, the lock, tables that are being merged.
pub const FILES_BESIDE: usize = 16;

/// One thread flushes and merges: the machine is for its users.
pub const WORKERS: usize = 1;

/// How often one that waits for tables looks whether they are there: a table of a full memtable takes some ten of these.
pub const TABLES_PAUSE: Duration = Duration::from_millis(5);
