//! What the machine asks of its driver, and gives it.

use crate::key::{Key, KeyRange, PurgeId};
use bytes::Bytes;
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, ObjectId, OstId, Refusal, Seq, SessionId, VirtualShard};
use std::ops::Range;

/// The newest state: committed batches with the staged ones over them. All answers during one `apply` come from one state.
pub trait Records {
    /// A record if it is in memory, as it is now.
    fn get(&self, key: &Key) -> Known;

    /// The first `limit` records of a range in ascending order; None if that is not in memory now. What is given must hold
    /// all staged changes too, also those that came after the range was fetched.
    fn scan(&self, range: &KeyRange, limit: usize) -> Option<Vec<(Key, Bytes)>>;
}

/// What a driver knows of a key without waiting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// Its value, or that there is none.
    Value(Option<Bytes>),
    Unknown,
}

/// How far an operation got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Fetch this, then `apply` again. Nothing was changed.
    Need(Need),
    Done(Effects),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Need {
    Keys(Vec<Key>),
    Scan {
        range: KeyRange,
        limit: usize,
    },
    /// No inode number is left for this shard: apply `ChoreOp::ReserveNumbers`, wait until its batch is durable, then
    /// `Machine::give_numbers`. (A number that was used and forgotten by a power cut would be given twice.)
    Numbers(VirtualShard),
    /// The inode's objects are being cut: wait until `ChoreOp::CutDone` for this id was applied. Its work was given out with
    /// the truncate's batch; after a start the driver finds the `P` record.
    Cut(PurgeId),
    /// Another session holds this file for writing (`KeyRange::writers`): ask it to tell what it wrote, then note that in
    /// `Words`; or have it give the file back. Operations that want it back get their turns in the order they came.
    Word {
        ino: InodeId,
        give_back: bool,
    },
    /// Wait until those have had their turn who came before for this file to be given back.
    Turn(InodeId),
}

/// Changes to commit as one: a new value, or None to remove. Keys ascend and are unique.
pub type Batch = Vec<(Key, Option<Bytes>)>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects {
    /// Empty for what changed nothing.
    pub batch: Batch,
    /// The batch in which this request made its change, if it had been answered before.
    pub repeats: Option<Seq>,
    pub answer: Result<Answer, Refusal>,
    /// To be done once the batch is committed.
    pub work: Vec<Work>,
    /// More is to be done than one batch holds: stage this batch, then apply the operation again. What was staged stands by itself:
    /// if the server ends in between, whoever asked asks again, or the end of its session does the rest.
    pub unfinished: bool,
}

/// What the records promise to the object servers, and to the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// Cut each object to its length, then apply `CutDone`, then answer the request that caused it (applied again, it gives
    /// its stored reply with the attributes after the cut). Until then other operations on the file get `Need::Cut`.
    Cut {
        id: PurgeId,
        objects: Vec<(OstId, ObjectId, u64)>,
    },
    /// Remove the objects some time, then apply `PurgeDone`. The record says the same, so a driver may forget this and look later.
    Purge {
        id: PurgeId,
        objects: Vec<(OstId, ObjectId)>,
    },
    /// Objects of this file are to be confirmed some time. The record says the same, so a driver may forget this and look later.
    Confirm(InodeId),
    /// The answer rests on the batch's being durable.
    Durable,
    /// Inode numbers reserved: `Machine::give_numbers` when the batch is durable.
    Numbers {
        shard: VirtualShard,
        counters: Range<u64>,
    },
    /// The last name of this file went: ask the sessions but the one that took it (`by`) which of them have it open, apply
    /// `HoldOrphan` for those, then `ForgetOrphan` for `NOT_ASKED`. The record says the same, so a driver may forget this and look later.
    AskEverybody { ino: InodeId, by: SessionId },
    /// The session is over: scan `O` and `M` for it and apply `ForgetOrphan` and `RecoverWriter`, then `DropSession` for
    /// each shard.
    SessionEnded(SessionId),
    /// The inode is gone: whoever keeps something about it in memory may drop it.
    Gone(InodeId),
}

/// Why an operation stopped before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Need(Box<Need>),
    Refused(Refusal),
}

impl From<Need> for Stop {
    fn from(need: Need) -> Stop {
        Stop::Need(Box::new(need))
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

pub(crate) type Outcome<T> = Result<T, Stop>;
