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
