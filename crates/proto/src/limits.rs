//! Every bound with its reason and its relation to the others.

use crate::units::ByteCount;
use std::time::Duration;

/// NAME_MAX of Linux, which readdir and all programs expect.
pub const NAME_MAX: usize = 255;

/// PATH_MAX of Linux without its NUL: the longest target a symbolic link can hold.
pub const SYMLINK_MAX: usize = 4095;

/// Largest size of a file: Linux's `loff_t` is signed.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Most hard links of one inode. ext4 allows 65,000; a 32-bit st_nlink is the hard limit, and a file with more names than this
/// is a mistake.
pub const LINK_MAX: u32 = 1 << 20;

/// Longest name of an extended attribute, with its namespace (XATTR_NAME_MAX of Linux).
pub const XATTR_NAME_MAX: usize = 255;

/// Largest value of an extended attribute (XATTR_SIZE_MAX of Linux).
pub const XATTR_VALUE_MAX: usize = 64 << 10;

/// Total length of the names of one inode's extended attributes, each with its NUL (XATTR_LIST_MAX of Linux).
pub const XATTR_LIST_MAX: usize = 64 << 10;

/// Bytes of one checksum block: the page size, so that a page-cache read is verified whole.
pub const CHECKSUM_BLOCK: u64 = 4 << 10;

/// Bytes of one region: the unit of the dirty-region record, and of one record of checksums (docs/formats/object.md).
pub const REGION: u64 = 1 << 20;
const _: () = assert!(REGION.is_multiple_of(CHECKSUM_BLOCK));
/// Checksums in the record of one region.
pub const REGION_BLOCKS: usize = (REGION / CHECKSUM_BLOCK) as usize;

/// Regions of one request for digests: a disk of 100 MB/s reads them in a fifth of a second.
pub const DIGEST_REGIONS_MAX: u32 = 16;

/// Stripe unit of the default layout: one FUSE request (max_write) falls into at most two objects.
pub const STRIPE_UNIT_DEFAULT: ByteCount = ByteCount::mib(1);
/// The same of mirrored files: each write of 1 MiB loads all targets of the stripes equally, so that clients do not wait for the same pair of
/// them while others have nothing to do.
pub const MIRRORED_UNIT_DEFAULT: ByteCount = ByteCount::kib(256);
/// A stripe unit is a multiple of the checksum block, so that no block is split over objects.
pub const STRIPE_UNIT_MIN: ByteCount = ByteCount::kib(64);
pub const STRIPE_UNIT_MAX: ByteCount = ByteCount::gib(1);
const _: () = assert!(STRIPE_UNIT_MIN.get().is_multiple_of(CHECKSUM_BLOCK));

/// The default layout stores the first bytes of a file in one object: most files are not longer.
pub const FIRST_COMPONENT_SIZE: ByteCount = ByteCount::mib(4);
/// The default layout stripes the rest of a file over this many OSTs (or all, if there are fewer).
pub const STRIPE_COUNT_DEFAULT: u32 = 4;
/// Most objects of one component, so that its presence bits and targets fit into the inode record.
pub const STRIPE_COUNT_MAX: u32 = 512;
/// Members of a mirrored stripe. Each costs a message with every write; more than four protect against nothing that an archive does not.
pub const MIRROR_COPIES_MIN: usize = 2;
pub const MIRROR_COPIES_MAX: usize = 4;

/// How long an object server waits for another one to which it relays a write. A client that waits for both learns of a silent one within 5 s
/// all the same: it asks the members itself meanwhile.
pub const RELAY_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a write that an object server relays.
pub const RELAYED_BYTES_MAX: ByteCount = ByteCount::kib(256);

/// Members to which an object server relays one write: all but its own.
pub const RELAYS_MAX: usize = MIRROR_COPIES_MAX - 1;
/// Most components of one layout.
pub const COMPONENTS_MAX: usize = 16;

/// Files up to this size are stored inside their inode record and use no OST.
pub const INLINE_MAX: ByteCount = ByteCount::kib(4);

/// Largest payload of one data message: the kernel's largest write, so that a write(2) to one object is one message.
pub const PAYLOAD_MAX: ByteCount = ByteCount::mib(4);
const _: () = assert!(PAYLOAD_MAX.get() >= STRIPE_UNIT_DEFAULT.get());

/// Largest body of one message: the longest are listings (1,024 entries of 255 bytes with attributes), extended attributes and
/// lists of objects.
pub const BODY_MAX: ByteCount = ByteCount::mib(1);
const _: () = assert!(BODY_MAX.get() >= 2 * XATTR_VALUE_MAX as u64);
const _: () = assert!(BODY_MAX.get() >= READDIR_ENTRIES_MAX as u64 * (NAME_MAX as u64 + 256));

/// Inode numbers that a shard reserves at a time; it syncs one record per block.
pub const INODE_BLOCK: u64 = 65_536;

/// Virtual shards made at initialisation: enough to spread over tens of servers, few enough to list.
pub const VIRTUAL_SHARDS_DEFAULT: u16 = 64;

/// Most entries of one readdir reply: one step of a scan over committed state.
pub const READDIR_ENTRIES_MAX: usize = 1_024;

/// Records that a background task changes in one batch, so that it does not delay the requests of clients.
pub const BACKGROUND_BATCH: usize = 512;

/// Batch size at which an operation that can be split continues in another batch: forgetting many files, removing many
/// attributes. Applying a batch of this size to the index takes some milliseconds.
pub const BATCH_BYTES: ByteCount = ByteCount::mib(1);

/// Largest batch of any operation. An operation that forgets many files ends its batch after the file that fills it, and no other
/// operation changes as much. The longest inode records (two access lists, 8,192 stripes) have a sixth of a MiB, and a rename
/// changes four inodes. The crate `store` stages nothing larger, and a test in `namespace` runs each operation at its largest.
pub const BATCH_BYTES_MAX: ByteCount = ByteCount::mib(2);
const _: () = assert!(BATCH_BYTES_MAX.get() >= 2 * BATCH_BYTES.get());

/// Attribute values that one batch reads while it removes the attributes of a removed file: 4 MiB at most.
pub const XATTRS_PER_BATCH: usize = 64;
const _: () = assert!(XATTRS_PER_BATCH <= BACKGROUND_BATCH);
const _: () = assert!((XATTRS_PER_BATCH * XATTR_VALUE_MAX) as u64 <= 4 << 20);

/// Most inodes in one `Forget`: each of its batches first reads all of them.
pub const FORGET_MAX: usize = BACKGROUND_BATCH;

/// Slots of a session: changing requests that it may have under way at once. Each shard stores the last reply of each slot until
/// the session ends.
pub const SLOTS: u16 = 64;
const _: () = assert!(SLOTS as usize <= BACKGROUND_BATCH);

/// Slots of numbered writes of one session at a target: the messages of one client that a target works on at the same time. A write of
/// PAYLOAD_MAX is 16 messages of 256 KiB, so that many writes are under way before one waits for a slot.
pub const WRITE_SLOTS: u16 = 256;

/// How long a target keeps space for a session after it has received its last request about reserved space: a client writes behind
/// while programs write, and sends the bytes within a second.
pub const RESERVATION_TERM: Duration = Duration::from_secs(10);
/// How long a client takes bytes for it, after it *sent* the last such request that was answered: the rest of the term is for sending
/// them.
pub const RESERVATION_CLIENT_TERM: Duration = Duration::from_secs(5);
const _: () = assert!(
    RESERVATION_CLIENT_TERM.as_millis() * 101 / 100 + 4_000 <= RESERVATION_TERM.as_millis()
);

/// Most leases that one reply grants: a page of a listing with attributes has one for each name and each inode.
pub const GRANTS_MAX: usize = 2 * READDIR_ENTRIES_MAX + 8;

/// Most leases that one callback revokes: some 12 bytes each.
pub const REVOKED_KEYS_MAX: usize = 4_096;
const _: () = assert!(REVOKED_KEYS_MAX as u64 * 32 <= BODY_MAX.get());

/// Longest name of a session, for operators: a host and a mount point. The server stores it and keeps it in memory.
pub const SESSION_NAME_MAX: usize = 256;

/// Most sessions of one client process. It needs one, and a second one while the server has not yet ended a session that the
/// client has given up.
pub const SESSIONS_PER_CLIENT_MAX: usize = 4;

/// Most sessions of all clients together: four times the connections that a server accepts, since a session outlives its
/// connection by a term. Each takes some hundred bytes, and the replies of its slots.
pub const SESSIONS_MAX: usize = 65_536;

/// Most supplementary groups of a caller (NGROUPS_MAX of Linux).
pub const GROUPS_MAX: usize = 65_536;

/// Longest address of a server, "host:port": a host name has at most 253 bytes.
pub const ADDRESS_MAX: usize = 260;

/// Most replayed changes in one `Replay`.
pub const REPLAY_RECORDS_MAX: usize = 1_024;

/// Most locks in one `Replay`: some 40 bytes each.
pub const REPLAY_LOCKS_MAX: usize = 4_096;
const _: () = assert!(REPLAY_LOCKS_MAX as u64 * 64 <= BODY_MAX.get());

/// Most open capabilities with one request: each lock of a `Replay` may be on a different file. Some 27 bytes each.
pub const OPEN_CAPABILITIES_MAX: usize = REPLAY_LOCKS_MAX;
const _: () =
    assert!(REPLAY_LOCKS_MAX as u64 * 64 + OPEN_CAPABILITIES_MAX as u64 * 32 <= BODY_MAX.get());

/// Interval at which a client renews its session.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which a client considers its session valid after it *sent* the last request that the server replied to: three
/// renewals may get lost.
pub const CLIENT_TERM: Duration = Duration::from_secs(20);
const _: () = assert!(4 * RENEW_INTERVAL.as_millis() <= CLIENT_TERM.as_millis());
/// Time after its last *reply* to a session after which the server may end the session: the client's term by a clock that runs
/// one percent slower than the server's, and 2 s for a request that the client sent in time.
pub const SERVER_TERM: Duration = Duration::from_millis(22_200);
const _: () = assert!(SERVER_TERM.as_millis() == CLIENT_TERM.as_millis() * 101 / 100 + 2_000);
/// Time for which OSTs accept a session capability after the metadata server's *reply*: not shorter than the client's term, and
/// shorter than the server's, so that it expires before the server grants the session's leases and locks to other sessions.
pub const SESSION_CAPABILITY_TERM: Duration = Duration::from_millis(21_200);
const _: () = assert!(SESSION_CAPABILITY_TERM.as_millis() >= CLIENT_TERM.as_millis() * 101 / 100);
const _: () = assert!(SESSION_CAPABILITY_TERM.as_millis() < SERVER_TERM.as_millis());

/// Most targets in the report of one object server: a large server has a hundred disks.
pub const TARGETS_MAX: usize = 1024;
