//! Every bound of this crate with its reason.

use gupfs_proto::ByteCount;
use gupfs_proto::limits::{
    BACKGROUND_BATCH, CHECKSUM_BLOCK, PAYLOAD_MAX, RELAYED_BYTES_MAX, RESERVATION_CLIENT_TERM,
    SLOTS,
};
use std::time::Duration;

/// How often a stat of a file that others write, too, asks for its size again because this client's own writes have moved the end meanwhile,
/// before it holds these writes back.
pub const GROWTH_TRIES: u32 = 16;

/// Inodes in one `Forgotten`: the server removes them in one batch, which is no longer than a background task's batch.
pub const FORGET_BATCH: usize = BACKGROUND_BATCH;

/// How long a forgotten orphan waits for more to fill its batch: `rm -r` forgets hundreds in this time, and no user notices
/// that the space becomes free that much later.
pub const FORGET_DELAY: Duration = Duration::from_millis(5);

/// Objects of closed files that were written and not synced. Above it the client syncs them in the background, so that
/// neither the list nor the time of the next `syncfs` grows without bound.
pub const CLOSED_UNSYNCED_MAX: usize = 16_384;

/// Bytes of one message to a target on another host: while the target processes one message, the next is in transit and the
/// client checks the one before. Large enough that the cost per message is small.
pub const REMOTE_MESSAGE_MAX: ByteCount = ByteCount::kib(256);
const _: () = assert!(
    REMOTE_MESSAGE_MAX.get().is_multiple_of(CHECKSUM_BLOCK)
        && REMOTE_MESSAGE_MAX.get() <= PAYLOAD_MAX.get()
);

/// Bytes of a write that the client appends to the inline data when it moves that data to an object: one message instead of
/// two, for the price of a copy.
pub const PIGGYBACK_MAX: usize = 64 << 10;

/// Objects in one `Sync`: the reply for one object should not wait for tens of thousands of others.
pub const SYNC_BATCH: usize = 1_024;

/// Slots that requests which may wait for a callback to another client do not use: attribute reports go through them, and
/// operations on files with a write lease.
pub const RESERVED_SLOTS: u16 = 16;
const _: () = assert!(RESERVED_SLOTS < SLOTS);

/// How long a write waits for the renewal of the session, and a new call for a new session. The same as the server's deadline.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Changes in the replay log that are not known to be durable: beyond this the client first requests a sync. The server
/// syncs by itself every 20 ms.
pub const REPLAY_LOG_MAX: usize = 8_192;

/// Pause before the client presents new credentials to a target that refused the former ones: the target receives the metadata
/// server's state every second.
pub const CAPABILITY_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Pause between two tries to open a new session.
pub const SESSION_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Bytes that `copy_range` moves at a time: large enough that round trips do not dominate, small enough to hold in memory.
pub const COPY_STEP: ByteCount = ByteCount::mib(1);
const _: () = assert!(COPY_STEP.get() <= PAYLOAD_MAX.get());

/// Files that `sync_all` syncs concurrently: enough to keep disks busy, few enough to leave capacity to other clients.
pub const SYNC_FILES_MAX: usize = 16;

/// Files that the status lists one by one; its counts include all files.
pub const STATUS_FILES: usize = 100;

/// What this client keeps by leases: inodes' attributes, names, and files' layouts with inline data (an entry with many bytes counts
/// several times); and names in complete listings. The server grants a session no more leases than this many of all kinds.
pub const LEASED_INODES_MAX: usize = 1 << 16;
pub const LEASED_NAMES_MAX: usize = 1 << 16;
pub const LEASED_DATA_MAX: usize = 1 << 16;
pub const LISTED_NAMES_MAX: usize = 1 << 16;

/// Bytes of files that a client keeps by leases unless its options say otherwise, with the memory for keeping them: enough for what one program reads again and again, little
/// beside the memory of a host that computes.
pub const DATA_CACHE_MAX: usize = 256 << 20;

/// Reads that follow each other in an open file are read ahead: so far at first, and at most. The largest is what a
/// stream of 32 Gbit/s has under way in a round trip of 1 ms.
pub const READ_AHEAD_FIRST: u64 = 128 << 10;
pub const READ_AHEAD_MAX: u64 = 4 << 20;

/// What one task reads ahead, in whole multiples of it.
pub const READ_AHEAD_PIECE: u64 = 1 << 20;
const _: () = assert!(READ_AHEAD_MAX.is_multiple_of(READ_AHEAD_PIECE));

/// Pieces that tasks of a client read ahead at the same time. Above it nothing more is read ahead.
pub const READ_AHEAD_PIECES: usize = 64;

/// A file is contended for so long after this client has given up its write lease for another client: if it writes the file again, both
/// get concurrent leases. A program that has finished its part does not write again so soon.
pub const CONTENTION: Duration = Duration::from_secs(1);

/// The turn of a client that writes a file without a pause while others wait for its exclusive write lease, as they do when several append
/// to one file; and how often it looks whether it still writes.
pub const WRITE_TURN: Duration = Duration::from_millis(10);
pub const WRITE_TURN_CHECK: Duration = Duration::from_millis(1);

/// A program writes without a pause if its last write into this client's memory is no older: twice as long as such a write takes, and less
/// than another client's request needs to come here after a program has learnt of the write.
pub const WRITE_PAUSE_MAX: Duration = Duration::from_micros(60);

/// The longest write that a client keeps in memory before it sends it: a longer one is worth messages of its own, and the copy would cost
/// more than the wait.
pub const WRITE_BEHIND_MAX: usize = 64 << 10;

/// Unsent bytes of a file, and of all files of a client: as long as more would come, writes go through. The end of this process loses them.
pub const UNSENT_FILE_MAX: usize = 16 << 20;
pub const UNSENT_TOTAL_MAX: usize = 128 << 20;

/// A client sends written bytes when a file has this many, or after this time: long enough for hundreds of small writes, short beside what the
/// crash of a host may lose.
pub const FLUSH_BYTES: usize = 1 << 20;
pub const FLUSH_DELAY: Duration = Duration::from_millis(20);

/// The space that a client asks a target for at first: enough for the records of some programs in 20 ms. It asks for twice as much when half of
/// it is charged; and at most for all bytes that it keeps.
pub const RESERVATION_FIRST: u64 = 8 << 20;
pub const RESERVATION_WANTED_MAX: u64 = UNSENT_TOTAL_MAX as u64;

/// Pause after a request for space until a target is asked again that did not give all.
pub const RESERVE_PAUSE: Duration = Duration::from_millis(500);

/// A client that goes on to write asks again for the same space when its last answered request is so old.
pub const RESERVE_AGAIN_AFTER: Duration = Duration::from_secs(2);
const _: () = assert!(2 * RESERVE_AGAIN_AFTER.as_millis() < RESERVATION_CLIENT_TERM.as_millis());
const _: () = assert!(FLUSH_DELAY.as_millis() < RESERVE_PAUSE.as_millis());

/// How long a change of a mirrored stripe waits for a member before it asks whether the member's target is alive, and a read before it asks
/// another member, too.
pub const MEMBER_PATIENCE: Duration = Duration::from_millis(1500);
pub const READ_PATIENCE: Duration = Duration::from_secs(1);

/// A write of fewer bytes is sent to each member: a relay would take longer, and its bytes hardly matter to the link.
pub const RELAY_MIN: ByteCount = ByteCount::kib(16);

/// Bytes of one message that a server relays: it passes one on while the next is in transit, so a write of 1 MiB takes 1/16 longer than to one member.
pub const RELAY_MESSAGE_MAX: ByteCount = ByteCount::kib(64);
const _: () = assert!(
    RELAY_MESSAGE_MAX.get().is_multiple_of(CHECKSUM_BLOCK)
        && REMOTE_MESSAGE_MAX.get() <= RELAYED_BYTES_MAX.get()
        && RELAY_MESSAGE_MAX.get() <= REMOTE_MESSAGE_MAX.get()
        && RELAY_MESSAGE_MAX.get() >= RELAY_MIN.get()
);

/// How long this client relays nothing by a server, or to a target, after a relay without a reply.
pub const RELAY_PAUSE: Duration = Duration::from_secs(30);

/// How long a target that is about to be stopped counts as silent although it still answers.
pub const STOP_TIME: Duration = Duration::from_secs(2);

/// How long a change waits for a member whose target is known not to answer, and how often that target is asked whether it answers again.
pub const SILENT_PATIENCE: Duration = Duration::from_millis(20);
pub const SILENT_CHECK: Duration = Duration::from_secs(1);

/// Pause before a flush tries a target again that was down, and how long it tries: the metadata server ends the session of a client that does
/// not answer a callback for 20 s.
pub const FLUSH_RETRY_PAUSE: Duration = Duration::from_millis(500);
pub const FLUSH_RETRY_MAX: Duration = Duration::from_secs(10);

/// How long a client has a concurrent write lease before it asks for the exclusive one, or releases a lease that it does not use; and the
/// longest pause between such requests, which doubles while others write the file.
pub const CONCURRENT_LEASE_CHECKS: [Duration; 2] =
    [Duration::from_secs(1), Duration::from_secs(64)];

/// How long a task may read ahead: nothing waits longer for it if an object server is down.
pub const READ_AHEAD_TIME_MAX: Duration = Duration::from_secs(1);

/// Places of an open file at which programs read in order, at the same time.
pub const READ_STREAMS: usize = 8;

/// Inodes whose attributes the kernel has with a lifetime: no more than this client keeps, since only those are current for certain.
pub const KERNEL_ATTRIBUTES_MAX: usize = LEASED_INODES_MAX;

/// Entries of a listing that are read with attributes although no program has asked for them: a longer listing would displace too much of
/// what else is leased.
pub const LISTED_ATTRIBUTES_MAX: usize = LEASED_INODES_MAX / 4;

/// How long the kernel may use the attributes of a file that a program has just created: until open(2) has checked permissions. The kernel
/// counts in ticks of up to 10 ms, and rounds up.
pub const NEW_FILE_ATTRIBUTES_LIFETIME: Duration = Duration::from_millis(5);

/// Files of which the kernel may have pages in its cache: above it the pages of others are dropped.
pub const KERNEL_PAGES_MAX: usize = LEASED_DATA_MAX;

/// How long the kernel may wait for a page that a waiting READ is to fill, before that READ is answered. The kernel drops pages within
/// microseconds.
pub const PAGES_HELD_MAX: Duration = Duration::from_millis(5);

/// How long the kernel keeps pages although another client asks for the write lease: a program must get to use a page once, or two that
/// store into one page would take it from each other for ever.
pub const PAGES_KEPT_MIN: Duration = Duration::from_millis(10);

/// How long a client tries to have the kernel drop pages. Afterwards the metadata server has ended its session anyway.
pub const PAGES_DROP_MAX: Duration = Duration::from_secs(20);

/// How long a READ waits for a lock of the file while the file is closed.
pub const CLOSING_LOCK_MAX: Duration = Duration::from_millis(200);

/// How long a READ waits for an object server while the file is closed. The metadata server ends the session of a client that does not answer
/// a revocation for 20 s.
pub const CLOSING_READ_MAX: Duration = Duration::from_secs(8);

/// How long a client waits for all pages to be dropped before it tells a restarted metadata server that it is back: a READ for one of
/// them may itself wait for that server.
pub const PAGES_RESTART_MAX: Duration = Duration::from_secs(1);

/// The shortest and the longest pause between two requests for a lease on data that the server did not grant; and after which time the
/// kernel gets the bytes without one, and drops them again.
pub const PAGE_LEASE_PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
pub const PAGE_LEASE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest listing of a directory that is kept: a longer one would displace all others.
pub const LISTING_MAX: usize = LISTED_NAMES_MAX / 4;

/// Buckets of attribute versions, by inode: two inodes share a bucket in about one of 4,096 cases, which costs one more
/// GETATTR.
pub const ATTR_VERSION_BUCKETS: usize = 4_096;
const _: () = assert!(ATTR_VERSION_BUCKETS.is_power_of_two());

/// Jobs whose names a client keeps, to tell them to a restarted metadata server: more than run on one host at a time.
pub const JOB_LABELS_MAX: usize = 4096;

/// How long a client waits before it tells the metadata server the name of a new job: jobs begin together, and a request is for many.
pub const JOB_LABELS_DELAY: Duration = Duration::from_millis(50);

/// How long statfs waits for a target's reply about its free space.
pub const SPACE_WAIT: Duration = Duration::from_secs(3);

/// Another client has just removed the last name of a file that is open here: the client retries the open until the server
/// knows that the file is open here. That takes one callback and its reply, so milliseconds; some seconds if the server restarts.
pub const REOPEN_REMOVED_PAUSE: Duration = Duration::from_millis(20);
pub const REOPEN_REMOVED_TRIES: u32 = 500;

/// A lock request that conflicts with a lock of another program of this mount is retried once after this time: close(2) and
/// exit(2) return before the kernel sends RELEASE, with which the client frees the flock of the open file.
pub const RELEASE_DELAY: Duration = Duration::from_millis(5);

/// How long a close waits for the server's reply that locks are freed. A signal does not end that wait, so it is short; most
/// replies arrive in a thousandth of it.
pub const CLOSE_UNLOCK_WAIT: Duration = Duration::from_millis(500);

/// Pause between two tries to free a lock when the server's store has failed and did not free it.
pub const UNLOCK_RETRY_PAUSE: Duration = Duration::from_secs(1);
