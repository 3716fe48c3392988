//! Bounds of the object store, with their reasons.

use gupfs_proto::limits::{PAYLOAD_MAX, REGION};
use std::time::Duration;

/// Bytes of one segment file. ext4's largest file has 16 TiB with blocks of 4 KiB and 4 TiB with blocks of 1 KiB; an
/// object may reach 8 EiB, so it is a row of files.
pub const SEGMENT: u64 = 4 << 40;
const _: () = assert!(SEGMENT.is_multiple_of(REGION) && SEGMENT > PAYLOAD_MAX.get());

/// Consecutive inode numbers whose objects share a directory: what was made together lies together, so a burst of
/// creations touches few directory blocks, and a directory stays small enough to list for one answer.
pub const INODES_PER_DIR: u64 = 1 << DIR_SHIFT;
pub(super) const DIR_SHIFT: u32 = 12;

/// Files of objects that a target has open at most, where descriptors allow: more would save few openings.
pub const OPEN_FILES_MOST: usize = 1024;

/// And at least: of those some tens are in use, or unsynced, and cannot be closed.
pub const OPEN_FILES_LEAST: usize = 64;
const _: () = assert!(OPEN_FILES_LEAST / 2 >= SYNC_WHOLE_FROM);

/// Objects whose state (size, open files) is remembered without being in use; about 300 bytes each.
pub const OBJECTS_KEPT: usize = 32 << 10;
const _: () = assert!(OBJECTS_KEPT >= OPEN_FILES_MOST);

/// Writers stop when less than this part of the disk is free…
pub const RESERVE_PART: u64 = 100;
/// …or less than this, whichever is more: removal, records and the metadata log on the same disk go on.
pub const RESERVE_BYTES: u64 = 512 << 20;
/// But never keep more than this part back: a small disk is there to be used.
pub const RESERVE_AT_MOST_PART: u64 = 10;

/// The system is asked again how much is free after this time, since others write to the same disk too…
pub const SPACE_AGE: Duration = Duration::from_secs(1);
/// …and after this part of the last known room has been written.
pub const SPACE_STEP_PART: u64 = 8;
/// Below this much room it is asked at each write.
pub const SPACE_STEP_MIN: u64 = 4 << 20;

/// Writes of other ranges a reader remembers while it reads; when more began meanwhile, it takes none of the sums it
/// knew before for granted.
pub const WRITES_REMEMBERED: usize = 64;

/// Objects in one answer to List: each costs a stat.
pub const LIST_MAX: usize = 1024;

/// Damaged objects that status names; further ones are counted.
pub const DAMAGE_LISTED: usize = 256;

/// Data files synced at a time: enough to share the journal's commits, few enough to leave the device to readers.
pub const SYNCS_AT_ONCE: usize = 32;

/// Unsynced files for which the whole file system is synced when they settle: each by itself costs a cache flush of the
/// device, together they cost one.
pub const SYNC_WHOLE_FROM: usize = 32;

/// A region becomes clean when nobody has written it for so long: rewriting is over then, mostly, and what a crash would
/// leave unverified stays small.
pub const SETTLE_IDLE: Duration = Duration::from_secs(5);

/// An object that is written without a pause has its idle regions settled this often.
pub const SETTLE_OLDEST: Duration = Duration::from_secs(30);
const _: () = assert!(SETTLE_OLDEST.as_secs() > SETTLE_IDLE.as_secs());

/// How often the settling chore looks.
pub const SETTLE_EVERY: Duration = Duration::from_secs(1);

/// Objects settled side by side: their syncs share the journal's commits.
pub const SETTLES_AT_ONCE: usize = 16;

/// Objects whose settling shares one sync of the file system.
pub const SETTLES_TOGETHER: usize = 1024;

/// Regions whose records are staged at once: a quarter of a megabyte of log.
pub const REGIONS_SETTLED_AT_ONCE: usize = 256;

/// Dirty regions whose sums are in memory, about 1.2 KiB each: 64 GiB of data in 80 MiB. Beyond it writers settle
/// before they write.
pub const UNSETTLED_MAX: usize = 64 << 10;

/// Clean regions whose sums are kept in memory, beside those of dirty ones; others are looked up.
pub const CLEAN_KEPT: usize = 32 << 10;

/// Regions marked ahead of a writer that goes through clean ones in order: one sync of the log for each 16 MiB.
pub const MARK_AHEAD: u64 = 16;

/// Regions of one zeroed range that are remembered one by one; of a larger one the records are deleted.
pub const REGIONS_ZEROED: u64 = 1024;

/// How long a clean stop settles before it leaves regions marked: they are summed again later.
pub const STOP_SETTLES: Duration = Duration::from_secs(10);

/// The stamp rises this often while something changes.
pub const STAMP_EVERY: Duration = Duration::from_secs(60);

/// What a scrub reads between two pauses.
pub const SCRUB_STEP: u64 = 16 << 20;

/// A segment of the log of records: three of them are allocated on every target, however small.
pub const LOG_SEGMENT: u64 = 8 << 20;

/// How old records may be that nobody has asked to be durable: the sums of settled regions, which are read anew if they
/// are lost. Often enough for the index behind the log, seldom enough for the device.
pub const RECORDS_SYNCED_EVERY: Duration = Duration::from_millis(250);

/// Memory for records that were read or written lately; the sums of clean regions are kept beside it.
pub const RECORDS_CACHED: usize = 8 << 20;

/// How far an object that is read in order is read ahead: first, and at most. The most keeps a disk at its work while a
/// gigabyte a second is sent; a file lies on several targets, and each reads ahead.
pub const AHEAD_FIRST: u64 = 1 << 20;
pub const AHEAD_MOST: u64 = 4 << 20;

/// Reads so near to each other are one run: one request comes as several, in any order.
pub const AHEAD_NEAR: u64 = 1 << 20;

/// What is written in order goes to the device in stretches of this: a few of its largest transfers, and more than small files
/// have, which may be removed or written again before anybody needs them to be durable.
pub const BEHIND_STEP: u64 = 8 << 20;

/// How long objects are kept that were set aside: time to notice that a backup of the metadata was the wrong one, and to bring
/// the right one.
pub const SET_ASIDE_DAYS: u32 = 30;

/// How often it is looked for those whose time is over.
pub const LOST_FOUND_EVERY: Duration = Duration::from_secs(3600);
