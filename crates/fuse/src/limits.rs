//! Every bound of the door, with its reason and its relation to the others.

/// The major version of the protocol that this crate speaks.
pub const MAJOR: u32 = 7;

/// The newest minor version whose messages are known here; a newer kernel is answered with this number.
pub const MINOR: u32 = 45;

/// The oldest minor version accepted: 7.36 brought `flags2`, and with it everything above bit 31.
pub const MINOR_MIN: u32 = 36;
const _: () = assert!(MINOR_MIN <= MINOR);

/// Bytes of the header of every request.
pub const IN_HEADER: usize = 40;

/// Bytes of the header of every answer and notification.
pub const OUT_HEADER: usize = 16;

/// Header and fixed part of WRITE (and of NOTIFY_REPLY): what precedes the payload.
pub const BEFORE_PAYLOAD: usize = IN_HEADER + 40;

/// Payloads start on such a boundary in memory, so that they can go to a device with O_DIRECT.
pub const ALIGN: usize = 4096;
const _: () = assert!(BEFORE_PAYLOAD <= ALIGN);

/// The kernel refuses to hand out requests into a smaller buffer; also holds the largest SETXATTR (64 KiB and its name).
pub const PAYLOAD_MIN: usize = 128 * 1024;

/// The longest small answer: header and `fuse_statx_out`. Longer ones carry their bytes apart.
pub const SMALL_ANSWER: usize = OUT_HEADER + 288;

/// writev takes at most 1,024 pieces, one of which is the header.
pub const PIECES_MAX: usize = 1023;

/// Memory that names are collected in begins with this at most, however much room the kernel has: what it asks for today is
/// less (1 MiB and a page, `max_pages`).
pub const DIRENTS_RESERVED: usize = 2 << 20;

/// Free buffers that one reactor keeps. More are out only while handlers hold on to payloads; those are given back to
/// the allocator.
pub const BUFFERS_KEPT: usize = 8;

/// Interrupts that came before their request went to sleep, per shard of the registry. Uniques are never used again,
/// so an entry of a request that was answered meanwhile is only garbage; the oldest goes first.
pub const EARLY_INTERRUPTS: usize = 64;

/// Shards of the registry of waiting requests.
pub const INTERRUPT_SHARDS: usize = 16;

/// A thread looks so often after requests that wait, at the longest ...
pub const WATCH_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// ... and so often while one is waiting whose program got a signal: it may be the next one that ends it.
pub const WATCH_INTERRUPTED: std::time::Duration = std::time::Duration::from_millis(50);
const _: () = assert!(WATCH_INTERRUPTED.as_millis() < WATCH_EVERY.as_millis());

/// A deadline is missed by this part of it at most; and who comes behind something that is past its deadline waits only such a
/// part: else each of many that a directory's lock in the kernel lets through one after the other would wait it all.
pub const OVERDUE_PARTS: u32 = 20;

/// Requests that go on after they were answered, of the whole mount. With more, nothing begins but what ends something. One
/// counts as several if it has a payload: together they keep 256 MiB at most, besides what waited at the same time.
pub const LATE_MAX: usize = 4096;
pub const LATE_PAYLOAD: usize = 64 << 10;
const _: () = assert!(LATE_MAX * LATE_PAYLOAD == 256 << 20);

/// ... and of one node: who asks the same again and again waits for the former.
pub const LATE_OF_NODE_MAX: usize = 16;
const _: () = assert!(LATE_OF_NODE_MAX < LATE_MAX);

/// Reactors when the configuration does not say: two a CPU, so that one may wait in a disk read.
pub const REACTORS_MIN: usize = 4;
/// Above this the kernel's one queue lock costs more than another reader brings.
pub const REACTORS_MAX: usize = 8;
const _: () = assert!(REACTORS_MIN <= REACTORS_MAX);

/// Threads that serve rings; queues beyond share them.
pub const RING_REACTORS_MAX: usize = 256;

/// Device readers beside rings: forgetting and interrupts still come that way.
pub const REACTORS_BESIDE_RINGS: usize = 1;

/// Places of each queue of a ring when it begins: requests of one CPU that are answered at a time. They cost address space
/// until they are used.
pub const PLACES_AT_FIRST: usize = 64;

/// ... and at most: half of them may wait long (for locks, for a server). Memory of a place is one page until it is used.
pub const PLACES_MAX: usize = 1024;
const _: () = assert!(PLACES_MAX >= 2 * PLACES_AT_FIRST);

/// Commands that a ring takes at a time; more are submitted in between.
pub const RING_ENTRIES: u32 = 256;

/// So often in a row the kernel may refuse the commands of a ring, with a pause in between: some seconds. Then the session ends,
/// because whoever waits for an answer would wait for ever.
pub const RING_REFUSALS_MAX: u32 = 2000;
pub const RING_REFUSED_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// After so long without a request a ring gives memory back ...
pub const RING_QUIET: std::time::Duration = std::time::Duration::from_secs(2);

/// ... of all places but a few, which keep this much of their payload.
pub const RING_TOUCHED: usize = 64 * 1024;
pub const RING_PLACES_KEPT: usize = 2;
