//! Bounds of the log, with their reasons.

use std::time::Duration;

/// Size of one segment: large enough that creating segments is rare, small enough that reading or zeroing one takes a
/// moment.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// The header has the first block of a segment to itself: appending a record never rewrites the sector of the header.
pub const HEADER_BYTES: u64 = 4096;

/// Spare segments kept ready: the log fills one while the background task zeroes the next. Two, so that removals still
/// have space when the disk is full (the owner refuses growth as soon as `Headroom` is low).
pub const SPARES: usize = 2;

/// Largest record: twice the largest batch of the metadata server.
pub const RECORD_MAX: usize = 4 << 20;
const _: () = assert!(RECORD_MAX as u64 >= 2 * gupfs_proto::limits::BATCH_BYTES_MAX.get());
const _: () = assert!((RECORD_MAX as u64) < SEGMENT_BYTES - HEADER_BYTES);

/// Greatest age of a batch that is acknowledged and not synced. A power loss takes at most the batches of this time
/// from a program that did not call fsync.
pub const SYNC_EVERY: Duration = Duration::from_millis(20);

/// Greatest number of such batches, so that clients keep no more of their changes for replay.
pub const SYNC_RECORDS: u64 = 1024;

/// Records that are read at once for a copy that lacks them: one that fails to take them costs no more time than this.
pub const CATCH_UP_BYTES: usize = 8 << 20;

/// The log writes a watermark after it was idle for this time. Until then, recovery takes damage of the last batches
/// for a torn tail, so the time is short; it is long enough that a slow sequence of batches is not synced twice.
pub const WATERMARK_WHEN_IDLE: Duration = Duration::from_secs(1);

/// Time between two attempts to create a segment on a full disk.
pub const RETRY_WHEN_FULL: Duration = Duration::from_secs(1);
