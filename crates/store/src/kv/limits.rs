//! Bounds on the memory and the pace of a store.

use std::time::Duration;

/// Memory for cached records below the overlay: about 200,000 records.
pub const CACHE_BYTES: usize = 48 << 20;

/// Memory for updates that are staged and not applied; above it, `wait_for_space` waits for the index. A burst of
/// 30,000 creates fits. Twice as much made nothing faster and took 100 MiB more memory (example `kv_rate`).
pub const OVERLAY_BYTES: usize = 32 << 20;

/// The applier starts when this many batches wait. A directory's record, which each of them updates, is then written
/// once.
pub const GROUP_BATCHES: usize = 1000;

/// ... or when the oldest batch has waited this long.
pub const GROUP_WAIT: Duration = Duration::from_millis(100);

/// Largest number of batches in one group: bounds how long the index is busy with it.
pub const GROUP_MAX: usize = 8000;

/// Largest number of bytes in one group: bounds the memory of the index.
pub const GROUP_BYTES: usize = 16 << 20;

/// Keys that move from the overlay to the cache under one hold of the store's lock: about a tenth of a millisecond.
pub const MOVE_KEYS: usize = 256;

/// Bytes of log after which the index is persisted again: bounds how much a start reads again.
pub const PERSIST_BYTES: u64 = 32 << 20;

/// Attempts to read a key from the index without the lock. A group that is applied meanwhile makes an attempt invalid;
/// after these attempts, one read holds the lock.
pub const FETCH_TRIES: usize = 3;

/// Approximate memory of a record beside its bytes: two handles and an entry in a map.
pub const RECORD_OVERHEAD: usize = 120;

/// Bytes of a part of a snapshot, if no single record is larger: a message has at most four times as many.
pub const SNAPSHOT_PART: usize = 1 << 20;

/// Records that a snapshot reads in one step.
pub const SNAPSHOT_STEP: usize = 1_024;
