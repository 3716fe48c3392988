//! What an object server is asked and answers: bytes of objects, never names or users.

use crate::capability::Warrant;
use crate::ids::{InodeId, MapEpoch, ObjectId, OstId, OstLife, SessionId};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::units::ObjectOffset;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    pub session: SessionId,
    pub map_epoch: MapEpoch,
    pub job: u64,
    pub ost: OstId,
    /// By what right. Looked at where requests of other processes come in.
    pub warrant: Warrant,
    pub op: Op,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Op {
    /// `sums` holds the crc32c of each block of 4 KiB that `data` covers whole (first the lowest), as `checksum::blocks` makes
    /// them; the last block may end with the data if nothing of the object lies behind it. Edges that cover a block in part have none.
    Write {
        object: ObjectId,
        at: ObjectOffset,
        data: Bytes,
        sums: BlockSums,
        existing: Existing,
        owner: Owner,
    },
    /// At most `len` bytes from `at`; fewer where the object ends. An absent object is empty or lost, as `existing` says.
    Read {
        object: ObjectId,
        at: ObjectOffset,
        len: u64,
        existing: Existing,
        checked: Checked,
    },
    /// Everything written to these objects before survives a power cut when this is answered.
    Sync {
        objects: Vec<ObjectId>,
    },
    /// The same for those of these objects that are there, and which they are: a file's record may call them present.
    Confirm {
        objects: Vec<ObjectId>,
    },
    /// Bytes from `to` on go. An absent object stays absent.
    Cut {
        object: ObjectId,
        to: u64,
    },
    /// Space for `at .. at + len`, so that writes there do not meet NoSpace. Extends the object unless `keep_size`.
    Allocate {
        object: ObjectId,
        at: ObjectOffset,
        len: u64,
        keep_size: bool,
        existing: Existing,
        owner: Owner,
    },
    /// `at .. at + len` reads zeros; a hole if `punch`, else allocated. Never extends the object.
    Zero {
        object: ObjectId,
        at: ObjectOffset,
        len: u64,
        punch: bool,
    },
    /// The first data or hole at or after `at`; None beyond the last data (a hole is found at the object's end).
    Seek {
        object: ObjectId,
        at: ObjectOffset,
        what: Seek,
    },
    Stat {
        object: ObjectId,
    },
    Remove {
        object: ObjectId,
    },
    /// Objects in ascending order after one of them, for check and scrub.
    List {
        after: Option<ObjectId>,
        limit: u32,
    },
    Space,
    /// Nothing that this session asks takes effect any more when this is answered, at any target of the server. Asked by
    /// the metadata server alone.
    Fence {
        session: SessionId,
    },
    /// As Remove, but the object's bytes are kept in the target's `lost+found` for a while. Asked by the metadata server
    /// alone, when it lost what the object belonged to.
    SetAside {
        object: ObjectId,
    },
}

impl Op {
    /// The file whose objects it is about; None for lists of objects of several, and for what is about none.
    pub fn file(&self) -> Option<InodeId> {
        match self {
            Op::Write { object, .. }
            | Op::Read { object, .. }
            | Op::Cut { object, .. }
            | Op::Allocate { object, .. }
            | Op::Zero { object, .. }
            | Op::Seek { object, .. }
            | Op::Stat { object }
            | Op::Remove { object }
            | Op::SetAside { object } => Some(object.ino),
            Op::Sync { .. }
            | Op::Confirm { .. }
            | Op::List { .. }
            | Op::Space
            | Op::Fence { .. } => None,
        }
    }

    /// Whether it changes an object.
    pub fn changes(&self) -> bool {
        match self {
            Op::Write { .. }
            | Op::Cut { .. }
            | Op::Allocate { .. }
            | Op::Zero { .. }
            | Op::Remove { .. }
            | Op::SetAside { .. } => true,
            Op::Read { .. }
            | Op::Sync { .. }
            | Op::Confirm { .. }
            | Op::Seek { .. }
            | Op::Stat { .. }
            | Op::List { .. }
            | Op::Space
            | Op::Fence { .. } => false,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Op::Write { .. } => "write",
            Op::Read { .. } => "read",
            Op::Sync { .. } => "sync",
            Op::Confirm { .. } => "confirm",
            Op::Cut { .. } => "cut",
            Op::Allocate { .. } => "allocate",
            Op::Zero { .. } => "zero",
            Op::Seek { .. } => "seek",
            Op::Stat { .. } => "stat",
            Op::Remove { .. } => "remove",
            Op::List { .. } => "list",
            Op::Space => "space",
            Op::Fence { .. } => "fence",
            Op::SetAside { .. } => "set_aside",
        }
    }
}

/// What the asker knows of the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Existing {
    /// It may not exist: reading gives a hole, writing makes it.
    Perhaps,
    /// It was made: if it is absent it is lost, and the answer is `ObjectDamaged`.
    Certain,
}

/// Who compares whole blocks with their checksums. Blocks of which the asker gets a part are compared by the target always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Checked {
    ByAsker,
    /// And by the target before: the asker got bytes that did not match, and wants to know where they went wrong. The
    /// target lists what it finds damaged.
    ByBoth,
}

/// Checksums of whole blocks, and which block of the object the first is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BlockSums {
    pub first_block: u64,
    /// None where the server does not know (a block written in parts and not yet read again).
    pub sums: Vec<Option<u32>>,
}

/// For whom the object keeps its space: what a rebuild of the name space from objects alone would need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
    pub project: u32,
    pub volume: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Seek {
    Data,
    Hole,
}

pub type Reply = Result<Answer, Refusal>;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    /// After a write, cut, allocate or zero: how the object stands now. What was done counts while the target lives on.
    Written(ObjectStat, OstLife),
    /// After a removal, as above; after a sync: of what was answered in another life, it says nothing.
    DoneIn(OstLife),
    Data {
        data: Bytes,
        sums: BlockSums,
    },
    Found(Option<ObjectOffset>),
    /// To Confirm: which of the objects, in their order, are there.
    There(Vec<bool>),
    /// None: no such object.
    Stat(Option<ObjectStat>),
    Objects(Vec<(ObjectId, ObjectStat)>),
    Space(Space),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectStat {
    /// Where its last byte ends.
    pub size: u64,
    /// Space in use, in units of 512 bytes.
    pub blocks: u64,
    pub mtime: Timestamp,
}

/// A target's room. `available` is what writers may still take; the rest of `free` is kept for removal and eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Space {
    /// Targets with the same number lie on one file system and share its room.
    pub volume: u64,
    pub total: u64,
    pub free: u64,
    pub available: u64,
    pub objects: u64,
}
