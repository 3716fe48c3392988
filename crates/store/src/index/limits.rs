//! Bounds on the memory of the index. With these and those of the store (`kv::limits`), a process that creates a
//! million files at full speed stays below 300 MiB (example `kv_rate`).

use std::time::Duration;

/// Memory for cached blocks of tables and their filters.
pub const CACHE_BYTES: u64 = 32 << 20;

/// Size of a memtable before it becomes a table.
pub const MEMTABLE_BYTES: u64 = 16 << 20;

/// Disk space of the engine's journal, which is never read back. The engine allows no smaller value.
pub const JOURNAL_BYTES: u64 = 64 << 20;

/// Bounds of the number of table files that stay open. A table that is not open is opened for each lookup.
pub const OPEN_TABLES_MAX: usize = 256;
pub const OPEN_TABLES_MIN: usize = 16;

/// Descriptors beside the open tables: journals, the lock, tables that are being merged.
pub const OTHER_FILES_MAX: usize = 16;

/// One thread flushes and merges; the other CPUs are for the users of the host.
pub const WORKERS: usize = 1;

/// Interval at which `write_tables` checks whether the tables are written: a table of a full memtable takes about ten
/// of these.
pub const TABLES_PAUSE: Duration = Duration::from_millis(5);
