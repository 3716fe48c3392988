//! Bounds of the object store, with their reasons.

use gupfs_proto::limits::{PAYLOAD_MAX, REGION, WRITE_SLOTS};
use std::time::Duration;

/// Size of one segment file. ext4's largest file has 16 TiB with blocks of 4 KiB and 4 TiB with blocks of 1 KiB; an
/// object may have up to 8 EiB, so it is a series of files.
pub const SEGMENT: u64 = 4 << 40;
const _: () = assert!(SEGMENT.is_multiple_of(REGION) && SEGMENT > PAYLOAD_MAX.get());

/// Consecutive inode numbers whose objects share a directory. Files that are created together are close to each other,
/// so a burst of creations dirties few directory blocks, and a directory stays small enough to list in one reply.
pub const INODES_PER_DIR: u64 = 1 << DIR_SHIFT;
pub(super) const DIR_SHIFT: u32 = 12;

/// Largest number of object files that a target keeps open, if the process has enough descriptors: more would save few
/// opens.
pub const OPEN_FILES_MAX: usize = 1024;

/// The smallest such number: some tens of these files are in use, or unsynced, and cannot be closed.
pub const OPEN_FILES_MIN: usize = 64;
const _: () = assert!(OPEN_FILES_MIN / 2 >= SYNC_WHOLE_FROM);

/// Unused objects whose state (size, open files) stays in memory; about 300 bytes each.
pub const OBJECTS_CACHED: usize = 32 << 10;
const _: () = assert!(OBJECTS_CACHED >= OPEN_FILES_MAX);

/// Writes fail when less than this part of the disk is free (1/100)…
pub const RESERVE_PART: u64 = 100;
/// …or less than this, whichever is more: removals, records and the metadata log on the same disk still work.
pub const RESERVE_BYTES: u64 = 512 << 20;
/// But the reserve is never more than this part of the disk (1/10), so that a small disk is usable.
pub const RESERVE_AT_MOST_PART: u64 = 10;

/// The free space is read again from the file system after this time, since other processes write to the same disk too…
pub const SPACE_AGE: Duration = Duration::from_secs(1);
/// …and after this part of the last known space was written (1/8).
pub const SPACE_STEP_PART: u64 = 8;
/// With less space than this it is read at each write.
pub const SPACE_STEP_MIN: u64 = 4 << 20;

/// The largest space reservation of a session: twice what a client keeps unsent. A session gets no more at a time than this part of what
/// no session has reserved (1/4), so that the first one leaves space to the next.
pub const RESERVATION_MAX: u64 = 256 << 20;
pub const RESERVATION_PART: u64 = 4;
/// All sessions together reserve at most this part of the free space (1/2), so that writes of any length go on.
pub const RESERVED_AT_MOST_PART: u64 = 2;
/// Where several targets share a file system, none reserves more below this much free space: none knows what the others reserve.
pub const SHARED_RESERVABLE_FROM: u64 = 1 << 30;
/// Sessions with a reservation at one target: as many as clients that write to it within ten seconds. Some 60 bytes each.
pub const RESERVATIONS_MAX: usize = 4_096;

/// Changes that an object remembers for its readers. If more began during a read, the reader drops all checksums that
/// it had before.
pub const CHANGES_REMEMBERED: usize = 64;

/// Objects in one List reply: each costs a stat.
pub const LIST_MAX: usize = 1024;

/// Damaged objects that the status lists; further ones are only counted.
pub const DAMAGE_LISTED: usize = 256;

/// Data files synced concurrently: enough to share the commits of the file system's journal, few enough to leave the
/// device to readers.
pub const SYNCS_AT_ONCE: usize = 32;

/// Number of unsynced files from which on a checksum flush syncs the whole file system: each file's own sync costs a
/// cache flush of the device, together they cost one.
pub const SYNC_WHOLE_FROM: usize = 32;

/// A region becomes clean when it was not written for this time: usually rewriting is over then, and the data that a
/// crash leaves unverified stays little.
pub const CHECKSUM_FLUSH_IDLE: Duration = Duration::from_secs(5);

/// The idle regions of an object that is written without a pause are flushed this often.
pub const CHECKSUM_FLUSH_OLDEST: Duration = Duration::from_secs(30);
const _: () = assert!(CHECKSUM_FLUSH_OLDEST.as_secs() > CHECKSUM_FLUSH_IDLE.as_secs());

/// Interval of the background checksum flush.
pub const CHECKSUM_FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Objects flushed concurrently: their syncs share the commits of the file system's journal.
pub const CHECKSUM_FLUSHES_AT_ONCE: usize = 16;

/// Objects whose checksum flush shares one sync of the file system.
pub const CHECKSUM_FLUSHES_PER_SYNC: usize = 1024;

/// Regions whose records are staged together: a quarter of a megabyte of log.
pub const REGIONS_PER_CHECKSUM_FLUSH: usize = 256;

/// Dirty regions whose checksums are in memory, about 1.2 KiB each: 64 GiB of data in 80 MiB. Above it, writers flush
/// checksums before they write.
pub const DIRTY_REGIONS_MAX: usize = 64 << 10;

/// Clean regions whose checksums stay in memory, beside those of dirty regions; those of others are loaded.
pub const CLEAN_REGIONS_CACHED: usize = 32 << 10;

/// Regions made dirty ahead of a client that overwrites clean regions in order: one sync of the log for each 16 MiB.
pub const REGIONS_DIRTIED_AHEAD: u64 = 16;

/// Regions of one zeroed range that stay in memory; the records of a larger range are only deleted.
pub const REGIONS_ZEROED_IN_MEMORY: u64 = 1024;

/// How long a clean stop flushes checksums before it leaves regions dirty; their checksums are computed after the next
/// start.
pub const STOP_FLUSH_TIME: Duration = Duration::from_secs(10);

/// The stamp rises this often while the target changes.
pub const STAMP_EVERY: Duration = Duration::from_secs(60);

/// Bytes that a scrub reads between two pauses.
pub const SCRUB_STEP: u64 = 16 << 20;

/// Numbered writes that a target remembers: the last one of each slot of a session. A client uses as many slots as it has messages
/// under way at a target, and needs an entry only until the reply arrives, so this is enough for 65,536 writes that wait for their
/// replies at the same time. The file has 8 MiB then. When all entries are used, the least recently used one is given to another
/// slot: its write was answered long ago, or its client has been silent while 65,536 other writes were executed.
pub const WRITE_SLOT_ENTRIES: u32 = 64 << 10;
const _: () = assert!(WRITE_SLOT_ENTRIES >= 256 * WRITE_SLOTS as u32);

/// Segment size of the records' log: each target, however small, allocates three segments.
pub const LOG_SEGMENT: u64 = 8 << 20;

/// Greatest age of unsynced records that no operation waits for: checksums of flushed regions, which are computed again
/// if they are lost. Short enough for the index behind the log, long enough for the device.
pub const RECORDS_SYNCED_EVERY: Duration = Duration::from_millis(250);

/// Memory for recently read or written records; the checksums of clean regions are kept beside it.
pub const RECORDS_CACHED: usize = 8 << 20;

/// How far a sequentially read object is read ahead: at first, and at most. The maximum keeps a disk busy while the
/// server sends a gigabyte a second; a file is striped over several targets, and each reads ahead.
pub const READ_AHEAD_FIRST: u64 = 1 << 20;
pub const READ_AHEAD_MAX: u64 = 4 << 20;

/// Reads this close to each other belong to one sequential run: one request arrives as several, in any order.
pub const READ_AHEAD_NEAR: u64 = 1 << 20;

/// Sequential writes go to the device in ranges of this size: a few of its largest transfers, and more than a small
/// file has, which may be removed or rewritten before it must be durable.
pub const EARLY_WRITE_BACK_STEP: u64 = 8 << 20;

/// Days that quarantined objects are kept: time for the administrator to notice that a wrong backup of the metadata was
/// restored, and to restore the right one.
pub const QUARANTINE_DAYS: u32 = 30;

/// Interval at which expired quarantined objects are removed.
pub const QUARANTINE_CHECK_EVERY: Duration = Duration::from_secs(3600);
