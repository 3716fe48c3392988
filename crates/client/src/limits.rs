//! Every bound of this room with its reason.

use gupfs_proto::limits::{CHECKSUM_BLOCK, CHORE_BATCH, PAYLOAD_MAX, SLOTS};
use std::time::Duration;

/// Inodes in one `Forgotten`: the server removes them in one batch, and a batch is no longer than a chore's.
pub const FORGET_BATCH: usize = CHORE_BATCH;

/// How long a forgotten orphan may wait for company: `rm -r` gives hundreds within it, and nobody sees space come
/// back later.
pub const FORGET_DELAY: Duration = Duration::from_millis(5);

/// Objects of closed files that were written and not synced. Above it a background sync writes them out, so that
/// neither the list nor the time of the next `syncfs` grows without end.
pub const LEFT_UNSYNCED_MAX: usize = 16_384;

/// Bytes of one message to a target on another host: while it works on one, the next is on its way, and the one before is
/// checked here. Large enough that the messages themselves do not count.
pub const PIECE: u64 = 256 << 10;
const _: () = assert!(PIECE.is_multiple_of(CHECKSUM_BLOCK) && PIECE <= PAYLOAD_MAX.get());

/// Bytes of a write that are copied behind those of the inode when these move to an object: one message instead of two, for the
/// price of a copy.
pub const ALONG_MOST: usize = 64 << 10;

/// Objects in one `Sync`: the answer to one of them should not wait for tens of thousands.
pub const SYNC_BATCH: usize = 1_024;

/// Lanes that no request takes that may wait for another client: words to the server go through them, and what is done to
/// files that are held.
pub const LANES_FOR_WORDS: u16 = 16;
const _: () = assert!(LANES_FOR_WORDS < SLOTS);

/// How long a write waits for a session to be renewed, and a new call for a session; the server's own deadline.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Changes kept that are not known to be durable: beyond them the server is asked to sync first. It syncs every 20 ms.
pub const KEPT_MOST: usize = 8_192;

/// Before a target is shown anew what it did not believe: it hears the metadata server every second.
pub const PERMIT_PAUSE: Duration = Duration::from_millis(100);

/// Between two tries to open a new session.
pub const REOPEN_PAUSE: Duration = Duration::from_millis(500);

/// What `copy_range` moves at a time: large enough that trips do not count, small enough to hold in memory.
pub const COPY_STEP: u64 = 1 << 20;
const _: () = assert!(COPY_STEP <= PAYLOAD_MAX.get());

/// Files that `sync_all` syncs beside each other: enough to keep disks busy, few enough to be fair to others.
pub const SYNC_FILES: usize = 16;

/// Files that a status lists one by one; the numbers count all.
pub const STATUS_FILES: usize = 100;

/// Where a dropped file leaves its stamp: two files share one in few of 4,096 cases, which costs a second question.
pub const STAMPS: usize = 4_096;
const _: () = assert!(STAMPS.is_power_of_two());

/// How long a target's word on its room is waited for.
pub const SPACE_WAIT: Duration = Duration::from_secs(3);

/// A file that is open here and has just lost its last name elsewhere is opened anew when the server has heard that it is
/// open: a question and its answer away, so a moment; with a server that starts again, some seconds.
pub const REMOVED_PAUSE: Duration = Duration::from_millis(20);
pub const REMOVED_TRIES: u32 = 500;

/// Who cannot have a lock because of another program of this mount asks again after this: close(2), and the end of a process, return
/// before we are told that an open file is gone, and its flock with it.
pub const RELEASE_COMES: Duration = Duration::from_millis(5);

/// How long a close waits until the server has heard that locks are free. Nothing ends that wait, so it is short; most answers come
/// in a thousandth of it.
pub const CLOSE_WAITS: Duration = Duration::from_millis(500);

/// Between two tries to free what a server whose store has failed did not free.
pub const FREE_AGAIN: Duration = Duration::from_secs(1);
