//! Every bound with its reason and its relation to the others.

use crate::units::ByteCount;
use std::time::Duration;

/// NAME_MAX of Linux: what readdir and every program expect.
pub const NAME_MAX: usize = 255;

/// PATH_MAX of Linux without its NUL: the longest target a symbolic link can hold.
pub const SYMLINK_MAX: usize = 4095;

/// A file ends at most here: Linux's `loff_t` is signed.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Hard links of one inode. ext4 has 65,000; a 32-bit st_nlink is the real limit, and one file with more names than this is a mistake.
pub const LINK_MAX: u32 = 1 << 20;

/// Longest name of an extended attribute, with its namespace (XATTR_NAME_MAX of Linux).
pub const XATTR_NAME_MAX: usize = 255;

/// Largest value of an extended attribute (XATTR_SIZE_MAX of Linux).
pub const XATTR_VALUE_MAX: usize = 64 << 10;

/// All names of one inode's attributes together, each with its NUL (XATTR_LIST_MAX of Linux).
pub const XATTR_LIST_MAX: usize = 64 << 10;

/// Bytes that are checksummed together: the page size, so that a page-cache read is checked whole.
pub const CHECKSUM_BLOCK: u64 = 4 << 10;

/// Bytes that are marked dirty together and whose checksums form one record (FORMATS, "Marks").
pub const REGION: u64 = 1 << 20;
const _: () = assert!(REGION.is_multiple_of(CHECKSUM_BLOCK));
/// Checksums in the record of one region.
pub const REGION_BLOCKS: usize = (REGION / CHECKSUM_BLOCK) as usize;

/// Unit of the default layout: one FUSE request (max_write) falls into at most two objects.
pub const STRIPE_UNIT_DEFAULT: ByteCount = ByteCount::mib(1);
/// A unit is a multiple of the checksum block, so that no block is split over objects.
pub const STRIPE_UNIT_MIN: ByteCount = ByteCount::kib(64);
pub const STRIPE_UNIT_MAX: ByteCount = ByteCount::gib(1);
const _: () = assert!(STRIPE_UNIT_MIN.get().is_multiple_of(CHECKSUM_BLOCK));

/// The default layout keeps the first bytes of a file in one object: most files need no more.
pub const FIRST_COMPONENT: ByteCount = ByteCount::mib(4);
/// And stripes the rest over this many OSTs (or all, if there are fewer).
pub const STRIPE_COUNT_DEFAULT: u32 = 4;
/// Most objects of one component: presence bits and targets stay inside one inode record.
pub const STRIPE_COUNT_MAX: u32 = 512;
/// Most components of one layout.
pub const COMPONENTS_MAX: usize = 16;

/// Files up to here live inside their inode record and never touch an OST.
pub const INLINE_MAX: ByteCount = ByteCount::kib(4);

/// Largest payload of one data message: the kernel's largest write, so a write(2) of one object is one message.
pub const PAYLOAD_MAX: ByteCount = ByteCount::mib(4);
const _: () = assert!(PAYLOAD_MAX.get() >= STRIPE_UNIT_DEFAULT.get());

/// Largest body of one message: the longest are listings (1,024 entries of 255 bytes with attributes), extended attributes and
/// lists of objects.
pub const BODY_MAX: ByteCount = ByteCount::mib(1);
const _: () = assert!(BODY_MAX.get() >= 2 * XATTR_VALUE_MAX as u64);
const _: () = assert!(BODY_MAX.get() >= READDIR_ENTRIES_MAX as u64 * (NAME_MAX as u64 + 256));

/// Inode numbers a shard reserves at a time; one synced record per block.
pub const INODE_BLOCK: u64 = 65_536;

/// Virtual shards made at initialisation: enough to spread over tens of servers, few enough to list.
pub const VIRTUAL_SHARDS_DEFAULT: u16 = 64;

/// Entries one readdir answer may carry: a scan's step over committed state.
pub const READDIR_ENTRIES_MAX: usize = 1_024;

/// Records a chore changes in one batch, so that it never holds up what people wait for.
pub const CHORE_BATCH: usize = 512;

/// Bytes after which work that can go on in another batch does: forgetting many files, removing many attributes. Applying it to the
/// index takes some milliseconds.
pub const BATCH_BYTES: ByteCount = ByteCount::mib(1);

/// Largest batch of any operation: what forgets many files ends its batch behind the file that fills it, and no other operation changes as
/// much. The longest inode records (two access lists, 8,192 stripes) have a sixth of a MiB, and a rename changes four inodes.
/// Nothing larger is staged (`store`), and `names` tries each operation at its largest.
pub const BATCH_BYTES_MAX: ByteCount = ByteCount::mib(2);
const _: () = assert!(BATCH_BYTES_MAX.get() >= 2 * BATCH_BYTES.get());

/// Values read while attributes of a removed file are removed: 4 MiB of them.
pub const ATTRIBUTES_AT_ONCE: usize = 64;
const _: () = assert!(ATTRIBUTES_AT_ONCE <= CHORE_BATCH);
const _: () = assert!((ATTRIBUTES_AT_ONCE * XATTR_VALUE_MAX) as u64 <= 4 << 20);

/// Inodes in one `Forgotten`: each batch of it begins by looking at all of them.
pub const FORGOTTEN_MAX: usize = CHORE_BATCH;

/// Slots (lanes) of a session: changing requests it may have under way at once. The last answer of each is stored, in every
/// shard, until the session ends.
pub const SLOTS: u16 = 64;
const _: () = assert!(SLOTS as usize <= CHORE_BATCH);

/// Longest name of a session, for people: a host and a mount point. It is stored, and kept in memory.
pub const SESSION_NAME_MAX: usize = 256;

/// Sessions that one process has at once. It needs one, and while it is ended here and not yet there, another.
pub const SESSIONS_OF_ONE: usize = 4;

/// Sessions at once, over all clients: four times the connections that a server takes, since a session outlives its
/// connection by a term. Each has some hundred bytes, and answers of its slots.
pub const SESSIONS_OF_ALL: usize = 65_536;

/// Supplementary groups of a caller (NGROUPS_MAX of Linux).
pub const GROUPS_MAX: usize = 65_536;

/// Longest address of a server, "host:port": the name of a host has 253 bytes at most.
pub const ADDRESS_MAX: usize = 260;

/// Changes in one `Return`.
pub const KEPT_PART: usize = 1_024;

/// Locks in one `Return`: some 40 bytes each.
pub const LOCKS_PART: usize = 4_096;
const _: () = assert!(LOCKS_PART as u64 * 64 <= BODY_MAX.get());

/// Proofs of open files with one request: every lock of a `Return` may be on a file of its own. Some 27 bytes each.
pub const PROOFS_MAX: usize = LOCKS_PART;
const _: () = assert!(LOCKS_PART as u64 * 64 + PROOFS_MAX as u64 * 32 <= BODY_MAX.get());

/// How often a client that shares files says that it lives.
pub const RENEW_EVERY: Duration = Duration::from_secs(5);
/// How long it counts on its session after the last answered word of it was *sent*: three renewals may get lost.
pub const CLIENT_TERM: Duration = Duration::from_secs(20);
const _: () = assert!(4 * RENEW_EVERY.as_millis() <= CLIENT_TERM.as_millis());
/// How long the server waits after it *answered*: the client's term, by a clock that runs one in a hundred faster, and what a
/// request that was sent in time may be on its way.
pub const SERVER_TERM: Duration = Duration::from_millis(22_200);
const _: () = assert!(SERVER_TERM.as_millis() == CLIENT_TERM.as_millis() * 101 / 100 + 2_000);
/// How long OSTs believe a session after the metadata server *answered* it: no shorter than the client counts on it, and over
/// before the server gives to others what the session held.
pub const PASS_TERM: Duration = Duration::from_millis(21_200);
const _: () = assert!(PASS_TERM.as_millis() >= CLIENT_TERM.as_millis() * 101 / 100);
const _: () = assert!(PASS_TERM.as_millis() < SERVER_TERM.as_millis());

/// Targets that one object server may tell of: a large server has a hundred disks.
pub const TARGETS_MAX: usize = 1024;
