//! Memory and pace of a store, by bounds.

use std::time::Duration;

/// Records kept below the overlay: some 200,000 of them.
pub const CACHE_BYTES: usize = 48 << 20;

/// What is staged and not applied, in the overlay or waiting: beyond, `room` waits for the index. A burst of 30,000 creates
/// fits; twice as much made nothing faster and took 100 MiB more of the process (example `kv_rate`).
pub const OVERLAY_BYTES: usize = 32 << 20;

/// A group goes to the index when so many batches wait: a directory's record, changed by each of them, is then written once.
pub const GROUP_BATCHES: usize = 1000;

/// ... or when the oldest has waited so long.
pub const GROUP_WAIT: Duration = Duration::from_millis(100);

/// Most batches of one group: bounds how long the index is busy with it.
pub const GROUP_MAX: usize = 8000;

/// ... and their bytes: bounds its memory.
pub const GROUP_BYTES: usize = 16 << 20;

/// Keys that leave the overlay while the store's lock is held once: about a tenth of a millisecond.
pub const LEAVE_KEYS: usize = 256;

/// Log behind the last `persist` of the index: bounds how much is read again at a start.
pub const PERSIST_BYTES: u64 = 32 << 20;

/// Reads of the index that a moving index may spoil before one is made under the lock.
pub const FETCH_TRIES: usize = 3;

/// Memory of a key and value beside their bytes, about: two handles, a place in a map.
pub const RECORD_OVERHEAD: usize = 120;
