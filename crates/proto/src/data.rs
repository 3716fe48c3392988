//! Requests to object servers and their replies. They concern bytes of objects, never names or users.

use crate::capability::{CredentialTime, DataCredentials};
use crate::checksum;
use crate::error::FsError;
use crate::ids::{InodeId, MapEpoch, ObjectId, OstId, SessionId, WriteVerifier};
use crate::jobs::{CallClass, JobId};
use crate::limits::CHECKSUM_BLOCK;
use crate::time::Timestamp;
use crate::units::ObjectOffset;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataRequest {
    pub session: SessionId,
    pub map_epoch: MapEpoch,
    /// The job for which the client reads or writes, for accounting.
    pub job: JobId,
    pub ost: OstId,
    /// The credentials of the requester. The object server verifies those of requests that come from another process.
    pub credentials: DataCredentials,
    pub op: DataOp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DataOp {
    /// `checksums` holds the crc32c of each 4 KiB block that `data` covers whole, in ascending order, as `checksum::blocks`
    /// computes them; the last block may end with the data if the object has no bytes behind it. A block that `data` covers in
    /// part has none.
    Write {
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        checksums: BlockChecksums,
        existence: ObjectExistence,
        owner: ObjectOwner,
    },
    /// Returns at most `len` bytes from `at`; fewer where the object ends. `existence` decides whether an absent object is empty
    /// or lost.
    Read {
        object: ObjectId,
        at: ObjectOffset,
        len: u64,
        existence: ObjectExistence,
        checksum_check: ChecksumCheck,
    },
    /// The reply means that all earlier writes to these objects survive a power loss.
    Sync {
        objects: Vec<ObjectId>,
    },
    /// Syncs those of these objects that exist, and returns which exist, so that the file's record may mark them `Present`.
    Confirm {
        objects: Vec<ObjectId>,
    },
    /// Removes the bytes from `to` on. An absent object stays absent.
    Truncate {
        object: ObjectId,
        to: u64,
    },
    /// Reserves space for `at .. at + len`, so that writes there do not fail with `NoSpace`. Extends the object unless
    /// `keep_size`.
    Allocate {
        object: ObjectId,
        at: ObjectOffset,
        len: u64,
        keep_size: bool,
        existence: ObjectExistence,
        owner: ObjectOwner,
    },
    /// `at .. at + len` reads as zeros; it is a hole if `punch`, else allocated. Never extends the object.
    Zero {
        object: ObjectId,
        at: ObjectOffset,
        len: u64,
        punch: bool,
    },
    /// Finds the first data or hole at or after `at`; None beyond the last data (the end of the object counts as a hole).
    Seek {
        object: ObjectId,
        at: ObjectOffset,
        whence: SeekWhence,
    },
    Stat {
        object: ObjectId,
    },
    Remove {
        object: ObjectId,
    },
    /// Lists objects in ascending order after `after`, for check and scrub.
    List {
        after: Option<ObjectId>,
        limit: u32,
    },
    Space,
    /// Fences a session: after the reply no request of it takes effect at any target of the server. Only the metadata server
    /// sends this.
    Fence {
        session: SessionId,
    },
    /// As `Remove`, but the target keeps the object's bytes in its `lost+found` for a while. Only the metadata server sends this,
    /// when it has lost the file that the object belonged to.
    Quarantine {
        object: ObjectId,
    },
    /// As `Write`. A target that has executed the write with this number returns the reply that it remembers, and changes nothing:
    /// a repetition never overwrites a later write. Since version 4.
    NumberedWrite {
        number: WriteNumber,
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        checksums: BlockChecksums,
        existence: ObjectExistence,
        owner: ObjectOwner,
    },
    /// Asks the target to keep so many bytes of its free space for this session: the whole reservation, not what is added to it. The
    /// reply is `Reserved`. Since version 5.
    Reserve {
        bytes: u64,
    },
    /// As `Write`, into the space that the session has reserved, as far as that is enough. The reply is `WrittenReserved`. Since
    /// version 5.
    ReservedWrite {
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        checksums: BlockChecksums,
        existence: ObjectExistence,
        owner: ObjectOwner,
    },
    /// Fences an object: after the reply no client's change of it takes effect whose session capability is of this time or older. Only the
    /// metadata server sends this. Since version 6.
    FenceObject {
        object: ObjectId,
        newest: CredentialTime,
    },
    /// Verifies regions of an object against their checksums, on the target, and returns the digest of each: `Digests`. At most
    /// `limits::DIGEST_REGIONS_MAX`. Only the metadata server sends this. Since version 7.
    Digest {
        object: ObjectId,
        first_region: u64,
        regions: u32,
    },
    /// Writes those of these whole blocks that do not match their checksums on the target, and do in `data`: the others stay as they are,
    /// so a repair undoes no later write, whenever it arrives. The last block may end with the object. At most one region. The reply is
    /// `Repaired`. Only the metadata server sends this. Since version 7.
    Repair {
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        checksums: BlockChecksums,
    },
    /// Forgets the damage of these objects, which has been repaired, and returns the objects that are known to be damaged:
    /// `DamagedObjects`. Only the metadata server sends this. Since version 7.
    Damaged {
        repaired: Vec<ObjectId>,
    },
    /// As `Write` or `ReservedWrite`, and the object server relays the same bytes to the other members of the stripe. The reply is
    /// `WrittenMembers`. Since version 8.
    MirroredWrite {
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        checksums: BlockChecksums,
        existence: ObjectExistence,
        owner: ObjectOwner,
        /// Into the space that the session has reserved at each target.
        is_reserved: bool,
        /// At most `limits::RELAYS_MAX`.
        others: Vec<OtherMember>,
    },
    /// As `Write` or `ReservedWrite`, which another object server relays with the credentials of the client. Refused with `Stale` unless the
    /// ticket is the last one of the session's `AcceptRelays`. Since version 8.
    RelayedWrite {
        ticket: RelayTicket,
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        checksums: BlockChecksums,
        existence: ObjectExistence,
        owner: ObjectOwner,
        is_reserved: bool,
    },
    /// From now on the target executes relayed writes of this session that have this ticket, and no others. When the reply is sent, none with
    /// a former ticket is being executed. Since version 8.
    AcceptRelays {
        ticket: RelayTicket,
    },
}

/// A number by which a target recognises the relayed writes of a session that may still be executed. Each `AcceptRelays` of a session to a
/// target has a higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct RelayTicket(pub u64);

/// A member to which a write is relayed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OtherMember {
    pub ost: OstId,
    pub object: ObjectId,
    pub existence: ObjectExistence,
    /// The client's, for this member's target.
    pub credentials: DataCredentials,
    pub ticket: RelayTicket,
}

/// The number of a write, the same in each repetition. A session has at most one write under way in a slot of a target. A higher
/// number in the slot says that no request with a former one can arrive any more: its reply has arrived, or its connection has
/// ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WriteNumber {
    /// Below `limits::WRITE_SLOTS`.
    pub slot: u16,
    pub number: u64,
}

/// The row of an operation on objects, for the values in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataOperation<'a> {
    /// The name in trace spans, logs and metrics.
    pub name: &'static str,
    pub objects: NamedObjects<'a>,
    /// Whether the operation changes an object.
    pub changes: bool,
}

/// The objects that an operation names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedObjects<'a> {
    /// The requester needs a right to the file of this object.
    One(&'a ObjectId),
    /// Objects of any files.
    Many(&'a [ObjectId]),
    None,
}

impl DataOp {
    /// The version of DATA that added numbered writes.
    pub const NUMBERED_WRITE_SINCE: u8 = 4;

    /// The version of DATA that added space reservations.
    pub const RESERVE_SINCE: u8 = 5;

    /// The version of DATA that added fences of objects.
    pub const FENCE_OBJECT_SINCE: u8 = 6;

    /// The version of DATA that added digests and repairs.
    pub const DIGEST_SINCE: u8 = 7;

    /// The version of DATA that added relayed writes.
    pub const RELAY_SINCE: u8 = 8;

    /// The class in which servers count the operation.
    pub fn class(&self) -> CallClass {
        match self {
            DataOp::Read { .. } => CallClass::Read,
            DataOp::Write { .. }
            | DataOp::NumberedWrite { .. }
            | DataOp::ReservedWrite { .. }
            | DataOp::MirroredWrite { .. }
            | DataOp::RelayedWrite { .. } => CallClass::Write,
            DataOp::Sync { .. } => CallClass::Sync,
            DataOp::Truncate { .. } | DataOp::Allocate { .. } | DataOp::Zero { .. } => {
                CallClass::Change
            }
            DataOp::Seek { .. } | DataOp::Stat { .. } => CallClass::Stat,
            _ => CallClass::Client,
        }
    }

    /// The bytes that a write brings.
    pub fn bytes_written(&self) -> u64 {
        match self {
            DataOp::Write { data, .. }
            | DataOp::NumberedWrite { data, .. }
            | DataOp::ReservedWrite { data, .. }
            | DataOp::MirroredWrite { data, .. }
            | DataOp::RelayedWrite { data, .. } => data.len() as u64,
            _ => 0,
        }
    }

    /// A write whose bytes the object server relays to these members, too; any other operation as it is.
    #[must_use]
    pub fn relayed_to(self, others: Vec<OtherMember>, is_reserved: bool) -> DataOp {
        match self {
            DataOp::Write {
                object,
                at,
                data,
                checksums,
                existence,
                owner,
            } => DataOp::MirroredWrite {
                object,
                at,
                data,
                checksums,
                existence,
                owner,
                is_reserved,
                others,
            },
            other => other,
        }
    }

    /// A write into reserved space; any other operation as it is.
    #[must_use]
    pub fn into_reserved(self) -> DataOp {
        match self {
            DataOp::Write {
                object,
                at,
                data,
                checksums,
                existence,
                owner,
            } => DataOp::ReservedWrite {
                object,
                at,
                data,
                checksums,
                existence,
                owner,
            },
            other => other,
        }
    }

    /// A write with a number; any other operation as it is.
    #[must_use]
    pub fn with_number(self, number: WriteNumber) -> DataOp {
        match self {
            DataOp::Write {
                object,
                at,
                data,
                checksums,
                existence,
                owner,
            } => DataOp::NumberedWrite {
                number,
                object,
                at,
                data,
                checksums,
                existence,
                owner,
            },
            other => other,
        }
    }

    /// The table of operations on objects: one row for each.
    #[inline]
    pub fn operation(&self) -> DataOperation<'_> {
        use DataOp::*;
        use NamedObjects::{Many, One};
        let row = |name, objects, changes| DataOperation {
            name,
            objects,
            changes,
        };
        match self {
            // name, objects, changes
            Write { object, .. } => row("write", One(object), true),
            Read { object, .. } => row("read", One(object), false),
            Sync { objects } => row("sync", Many(objects), false),
            Confirm { objects } => row("confirm", Many(objects), false),
            Truncate { object, .. } => row("cut", One(object), true),
            Allocate { object, .. } => row("allocate", One(object), true),
            Zero { object, .. } => row("zero", One(object), true),
            Seek { object, .. } => row("seek", One(object), false),
            Stat { object } => row("stat", One(object), false),
            Remove { object } => row("remove", One(object), true),
            List { .. } => row("list", NamedObjects::None, false),
            Space => row("space", NamedObjects::None, false),
            Fence { .. } => row("fence", NamedObjects::None, false),
            Quarantine { object } => row("set_aside", One(object), true),
            NumberedWrite { object, .. } => row("numbered_write", One(object), true),
            Reserve { .. } => row("reserve", NamedObjects::None, false),
            ReservedWrite { object, .. } => row("reserved_write", One(object), true),
            FenceObject { object, .. } => row("fence_object", One(object), false),
            Digest { object, .. } => row("digest", One(object), false),
            Repair { object, .. } => row("repair", One(object), true),
            Damaged { repaired } => row("damaged", Many(repaired), false),
            MirroredWrite { object, .. } => row("mirrored_write", One(object), true),
            RelayedWrite { object, .. } => row("relayed_write", One(object), true),
            AcceptRelays { .. } => row("accept_relays", NamedObjects::None, false),
        }
    }

    /// The inode to which the operation's object belongs; None for operations on objects of several inodes or on none.
    pub fn ino(&self) -> Option<InodeId> {
        match self.operation().objects {
            NamedObjects::One(object) => Some(object.ino),
            NamedObjects::Many(_) | NamedObjects::None => None,
        }
    }

    /// The inode of the first object that the operation names.
    pub fn first_ino(&self) -> Option<InodeId> {
        match self.operation().objects {
            NamedObjects::One(object) => Some(object.ino),
            NamedObjects::Many(objects) => objects.first().map(|object| object.ino),
            NamedObjects::None => None,
        }
    }

    /// The object that the operation changes.
    pub fn changed_object(&self) -> Option<ObjectId> {
        match self.operation() {
            DataOperation {
                objects: NamedObjects::One(object),
                changes: true,
                ..
            } => Some(*object),
            _ => None,
        }
    }

    /// Whether the operation changes an object.
    pub fn changes(&self) -> bool {
        self.operation().changes
    }

    pub fn name(&self) -> &'static str {
        self.operation().name
    }
}

/// Whether the object must exist, as far as the requester knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ObjectExistence {
    /// The object may be absent: a read returns a hole, a write creates the object.
    MayExist,
    /// The object was created: if it is absent it is lost, and the reply is `ObjectDamaged`.
    MustExist,
}

/// The side that verifies whole blocks against their checksums. The target always verifies a block of which the requester gets
/// only a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChecksumCheck {
    ByRequester,
    /// The target verifies them before the requester does: the requester got bytes that did not match, and needs to know whether
    /// the disk or the network damaged them. The target records the damage that it finds.
    ByBoth,
}

/// Checksums of consecutive whole blocks, and the number of the first block in the object.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BlockChecksums {
    pub first_block: u64,
    /// None where the server has no checksum (a block written in parts and not yet read again).
    pub checksums: Vec<Option<u32>>,
}

impl BlockChecksums {
    /// The checksums of these bytes, which begin at a block boundary.
    pub fn of_blocks(at: u64, bytes: &[u8]) -> BlockChecksums {
        BlockChecksums {
            first_block: at / CHECKSUM_BLOCK,
            checksums: checksum::blocks(bytes).into_iter().map(Some).collect(),
        }
    }

    /// Whether each known one of these checksums is that of its block, for bytes that begin at a block boundary.
    pub fn match_bytes(&self, at: u64, bytes: &[u8]) -> bool {
        let right = checksum::blocks(bytes).into_iter();
        let is_right = |(right, known): (u32, &Option<u32>)| known.is_none_or(|it| it == right);
        self.first_block == at / CHECKSUM_BLOCK && right.zip(&self.checksums).all(is_right)
    }
}

/// Owner of the file that the object belongs to, stored with the object: a rebuild of the name space from objects alone needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectOwner {
    pub uid: u32,
    pub gid: u32,
    pub project: u32,
    pub volume: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SeekWhence {
    Data,
    Hole,
}

pub type DataReply = Result<DataReplyBody, FsError>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DataReplyBody {
    Done,
    /// To a write, truncate, allocate or zero: the object's new state. The change is valid as long as the target keeps this
    /// verifier.
    Written(ObjectStat, WriteVerifier),
    /// To a removal: as above. To a sync: it covers the writes whose replies had the same verifier.
    DoneWithVerifier(WriteVerifier),
    Data {
        data: Bytes,
        checksums: BlockChecksums,
    },
    Position(Option<ObjectOffset>),
    /// To `Confirm`: for each object, in the same order, whether it exists.
    Confirmed(Vec<bool>),
    /// None: no such object.
    Stat(Option<ObjectStat>),
    Objects(Vec<(ObjectId, ObjectStat)>),
    Space(TargetCapacity),
    Reserved(SpaceReservation),
    /// As `Written`, and what is left of the reservation.
    WrittenReserved(ObjectStat, WriteVerifier, SpaceReservation),
    /// None: no such object. Where there are fewer than requested, the object has no bytes behind them.
    Digests(Option<Vec<RegionDigest>>),
    Repaired(RepairedBlocks),
    /// Not all, if there are very many.
    DamagedObjects(Vec<ObjectId>),
    /// To `MirroredWrite`.
    WrittenMembers {
        own: Result<MemberWritten, FsError>,
        /// In the order of the request.
        others: Vec<RelayOutcome>,
    },
}

/// As the reply to a `Write`, and to a `ReservedWrite` with what is left of the reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberWritten {
    pub stat: ObjectStat,
    pub verifier: WriteVerifier,
    pub reservation: Option<SpaceReservation>,
}

impl MemberWritten {
    /// What the reply to a write says; None for any other reply.
    pub fn of(reply: DataReplyBody) -> Option<MemberWritten> {
        let (stat, verifier, reservation) = match reply {
            DataReplyBody::Written(stat, verifier) => (stat, verifier, None),
            DataReplyBody::WrittenReserved(stat, verifier, left) => (stat, verifier, Some(left)),
            _ => return None,
        };
        Some(MemberWritten {
            stat,
            verifier,
            reservation,
        })
    }
}

/// What an object server knows of a write that it was to relay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RelayOutcome {
    Written(MemberWritten),
    /// It is not being executed there, and will not be.
    Refused(FsError),
    /// There was no reply in time: the target may execute it, also later.
    Unknown,
}

/// What a target has found in a region of an object: 1 MiB, or less at the object's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RegionDigest {
    /// No byte but zeros; there may be a hole.
    Zeros,
    /// The BLAKE3 hash of the bytes without the zeros at their end. All that have a known checksum match it.
    Hash([u8; 32]),
    /// Bytes are missing, cannot be read or do not match their checksums.
    Damaged,
}

impl RegionDigest {
    /// The digest of a region with these bytes.
    pub fn of(bytes: &[u8]) -> RegionDigest {
        let end = bytes.iter().rposition(|byte| *byte != 0);
        let Some(last) = end else {
            return RegionDigest::Zeros;
        };
        RegionDigest::Hash(*blake3::hash(&bytes[..=last]).as_bytes())
    }
}

/// What a repair has done with the damaged blocks among those it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RepairedBlocks {
    pub repaired: u32,
    /// Damaged blocks whose given bytes do not match the checksum either.
    pub left: u32,
}

/// The space that a target keeps for a session: for `limits::RESERVATION_TERM` after it has received the session's last `Reserve` or
/// `ReservedWrite`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SpaceReservation {
    /// One start of the target: the next one has forgotten all reservations.
    pub instance: u64,
    /// Of two replies of an instance, the one with the higher number is newer.
    pub number: u64,
    /// A write takes those of all blocks of 4 KiB in which it has a byte, unless they are allocated.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectStat {
    /// End of the object's last byte.
    pub size: u64,
    /// Space in use, in units of 512 bytes.
    pub blocks: u64,
    pub mtime: Timestamp,
}

/// Space of a target. Writers may use `available`; the target reserves the rest of `free` for removal and eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TargetCapacity {
    /// Targets with the same number are on one file system and share its free space.
    pub volume: u64,
    pub total: u64,
    pub free: u64,
    pub available: u64,
    pub objects: u64,
}
