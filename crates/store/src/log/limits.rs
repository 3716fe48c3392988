//! Every bound of the log, with its reason.

use std::time::Duration;

/// One segment: large enough that making the next ones is rare, small enough that it is read and zeroed in a moment.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// The first block of a segment is its header's: appending never touches the sector the header lies in.
pub const HEADER_BYTES: u64 = 4096;

/// Segments kept ready: one is used up while the next is being zeroed. Two, so that removals still have room when the
/// disk is full (the owner refuses growth at the first sign of it, `Headroom`).
pub const SPARES: usize = 2;

/// Largest record: the largest batch of the metadata server twice.
pub const RECORD_MAX: usize = 4 << 20;
const _: () = assert!(RECORD_MAX as u64 >= 2 * gupfs_proto::limits::BATCH_BYTES_MAX.get());
const _: () = assert!((RECORD_MAX as u64) < SEGMENT_BYTES - HEADER_BYTES);

/// What was answered and not synced is at most this old: what a power cut may take from a program that did not ask
/// for more.
pub const SYNC_EVERY: Duration = Duration::from_millis(20);

/// ... and at most this many records, so that clients keep no more of their changes for replay.
pub const SYNC_RECORDS: u64 = 1024;

/// How long the log must be idle before it says what was durable last, for whoever finds it damaged: short, since
/// until then damage of the last batches looks like a tear; long enough that a trickle of batches is not synced twice.
pub const MARK_WHEN_IDLE: Duration = Duration::from_secs(1);

/// How long to wait before asking a full disk again.
pub const RETRY_FULL: Duration = Duration::from_secs(1);
