//! Every limit of this crate, with its reason and its relation to other limits.

/// The major version of the protocol that this crate speaks.
pub const MAJOR: u32 = 7;

/// The newest minor version whose messages this crate knows; a newer kernel gets this number in the reply to INIT.
pub const MINOR: u32 = 45;

/// The oldest minor version accepted: 7.36 brought `flags2`, and with it everything above bit 31.
pub const MINOR_MIN: u32 = 36;
const _: () = assert!(MINOR_MIN <= MINOR);

/// Bytes of the header of every request.
pub const IN_HEADER: usize = 40;

/// Bytes of the header of every reply and notification.
pub const OUT_HEADER: usize = 16;

/// Header and fixed part of WRITE (and of NOTIFY_REPLY): what precedes the payload.
pub const BEFORE_PAYLOAD: usize = IN_HEADER + 40;

/// Payloads are aligned to this boundary in memory, so that they can be written to a disk with O_DIRECT.
pub const ALIGN: usize = 4096;
const _: () = assert!(BEFORE_PAYLOAD <= ALIGN);

/// The kernel rejects a read with a smaller buffer; it also holds the largest SETXATTR (64 KiB and its name).
pub const PAYLOAD_MIN: usize = 128 * 1024;

/// The longest fixed part of a reply: header and `fuse_statx_out`. Variable-length data is kept separately.
pub const FIXED_REPLY_MAX: usize = OUT_HEADER + 288;

/// writev(2) takes at most 1,024 slices, one of which is the header.
pub const DATA_SLICES_MAX: usize = 1023;

/// Largest initial allocation for a listing, whatever size the kernel requests: today it requests less (1 MiB and a page,
/// `max_pages`).
pub const DIRENTS_RESERVED: usize = 2 << 20;

/// Free buffers that one worker keeps. More exist only while handlers keep payloads; those buffers are freed when they are
/// dropped.
pub const FREE_BUFFERS_MAX: usize = 8;

/// Interrupts per shard that arrived before their request was registered. Unique numbers are never reused, so an entry for a
/// request that was replied to meanwhile has no effect; the oldest is dropped first.
pub const EARLY_INTERRUPTS_MAX: usize = 64;

/// Shards of the registry of pending requests.
pub const PENDING_SHARDS: usize = 16;

/// Longest interval between two scans of the pending requests ...
pub const SCAN_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// ... and the interval while a request is pending whose caller received a signal: the next signal may be the one that ends it.
pub const SCAN_INTERVAL_INTERRUPTED: std::time::Duration = std::time::Duration::from_millis(50);
const _: () = assert!(SCAN_INTERVAL_INTERRUPTED.as_millis() < SCAN_INTERVAL.as_millis());

/// A deadline is exceeded by at most this fraction of it. A request that waits behind an overdue one gets only this fraction:
/// otherwise each of many requests that the kernel's directory lock admits one after the other would wait the full deadline.
pub const DEADLINE_PARTS: u32 = 20;

/// Late handlers of the entire mount. Above this only requests that release something begin. A request with a payload counts as
/// several: together they keep at most 256 MiB, besides the payloads of requests that were pending at the same time.
pub const LATE_HANDLERS_MAX: usize = 4096;
pub const LATE_PAYLOAD_UNIT: usize = 64 << 10;
const _: () = assert!(LATE_HANDLERS_MAX * LATE_PAYLOAD_UNIT == 256 << 20);

/// ... and of one node: a program that repeats a request waits for the earlier ones.
pub const LATE_HANDLERS_PER_NODE_MAX: usize = 16;
const _: () = assert!(LATE_HANDLERS_PER_NODE_MAX < LATE_HANDLERS_MAX);

/// Device workers if the configuration does not set them: two per CPU, so that one may wait in a disk read.
pub const DEVICE_WORKERS_MIN: usize = 4;
/// Above this the contention on the kernel's single queue lock costs more than another worker gains.
pub const DEVICE_WORKERS_MAX: usize = 8;
const _: () = assert!(DEVICE_WORKERS_MIN <= DEVICE_WORKERS_MAX);

/// Threads that serve rings; with more queues the queues share threads.
pub const RING_WORKERS_MAX: usize = 256;

/// Device workers beside rings: FORGET and INTERRUPT still arrive over the device.
pub const DEVICE_WORKERS_WITH_RINGS: usize = 1;

/// Initial entries of each queue of a ring: requests of one CPU in progress at a time. They cost address space until they are
/// used.
pub const INITIAL_RING_ENTRIES: usize = 64;

/// ... and the maximum: half of them may wait long (for locks, for a server). An entry uses one page of memory until it carries
/// a payload.
pub const RING_ENTRIES_MAX: usize = 1024;
const _: () = assert!(RING_ENTRIES_MAX >= 2 * INITIAL_RING_ENTRIES);

/// Size of a ring's submission queue; when it is full, the ring submits.
pub const SUBMISSION_QUEUE_SIZE: u32 = 256;

/// Consecutive failed submissions of a ring before the session ends, with a pause between them: some seconds in total. The
/// session must end, because programs would wait for replies that no thread can send.
pub const RING_RETRIES_MAX: u32 = 2000;
pub const RING_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// Idle time after which a ring releases memory ...
pub const RING_IDLE: std::time::Duration = std::time::Duration::from_secs(2);

/// ... of all entries except `KEPT_RING_ENTRIES`, which keep this many bytes of their payload.
pub const KEPT_ENTRY_BYTES: usize = 64 * 1024;
pub const KEPT_RING_ENTRIES: usize = 2;
