//! Steps that the driver takes by itself: finishing what an operation began, and clearing up after sessions that ended.

mod confirmed;
mod cut_done;
mod drop_session;
mod forget_orphan;
mod hold_orphan;
mod lost_found;
mod purge_done;
mod recover_writer;
mod repair;
mod reserve_numbers;

pub(crate) use confirmed::expect as expect_confirmation;
pub(crate) use forget_orphan::{FORGET_RECORDS, forget};

use crate::check::Problem;
use crate::key::PurgeId;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{InodeId, SessionId, VirtualShard};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChoreOp {
    /// The next block of inode numbers; gives `Work::Numbers`.
    ReserveNumbers { shard: VirtualShard },
    /// Every object of this cut has its length; `blocks` is the file's space over all objects now.
    CutDone { id: PurgeId, blocks: u64 },
    /// Every object of this purge is gone.
    PurgeDone { id: PurgeId },
    /// The session holds this nameless inode no more.
    ForgetOrphan { ino: InodeId, session: SessionId },
    /// The session has this file open, which has lost its last name: it stays until the session says that it is forgotten.
    HoldOrphan { ino: InodeId, session: SessionId },
    /// The session that wrote this file is gone. `found` says of every object of the layout, as (component, stripe), how it
    /// stands, None where there is none; a power cut may still take it. Cuts of the file were finished before the objects were asked.
    RecoverWriter {
        ino: InodeId,
        session: SessionId,
        found: Vec<(u32, u32, Option<ObjectStat>)>,
    },
    /// The store is an older copy, and objects of this file reach further than its record says; `found` as above.
    AsFound {
        ino: InodeId,
        found: Vec<(u32, u32, Option<ObjectStat>)>,
    },
    /// Objects that may exist of a file with an `L` record: as (component, stripe), whether it is there and survives a
    /// power cut. The file is as it was when they were asked.
    Confirmed {
        ino: InodeId,
        found: Vec<(u32, u32, bool)>,
    },
    /// Stored replies of the session in this shard, and in the first shard its registration.
    DropSession {
        session: SessionId,
        shard: VirtualShard,
    },
    /// Mends what `Check` found, if that is safe.
    Repair(Problem),
    /// Names what no name leads to in `/lost+found`, which is made if it is not there. For a salvage.
    NameInLostFound { ino: InodeId },
}

pub(crate) fn apply(view: &mut View, chore: &ChoreOp) -> Outcome<()> {
    match chore {
        ChoreOp::ReserveNumbers { shard } => reserve_numbers::reserve_numbers(view, *shard),
        ChoreOp::CutDone { id, blocks } => cut_done::cut_done(view, *id, *blocks),
        ChoreOp::PurgeDone { id } => purge_done::purge_done(view, *id),
        ChoreOp::ForgetOrphan { ino, session } => forget(view, *ino, *session),
        ChoreOp::HoldOrphan { ino, session } => hold_orphan::hold_orphan(view, *ino, *session),
        ChoreOp::RecoverWriter {
            ino,
            session,
            found,
        } => recover_writer::recover_writer(view, *ino, *session, found),
        ChoreOp::AsFound { ino, found } => recover_writer::as_found(view, *ino, found),
        ChoreOp::Confirmed { ino, found } => confirmed::confirmed(view, *ino, found),
        ChoreOp::DropSession { session, shard } => {
            drop_session::drop_session(view, *session, *shard)
        }
        ChoreOp::Repair(problem) => repair::repair(view, problem),
        ChoreOp::NameInLostFound { ino } => lost_found::name_in_lost_found(view, *ino),
    }
}
