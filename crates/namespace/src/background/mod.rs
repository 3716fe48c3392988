//! Operations that the driver starts itself: they finish what a client operation began, and clean up after sessions that ended.

use crate::context::OpContext;
mod confirm_objects;
mod drop_session;
mod expect_objects;
mod lost_found;
mod members_synced;
mod move_objects;
mod purge_done;
mod record_orphan;
mod recover_write_lease;
mod repair;
mod replace_layout;
mod replace_members;
mod reserve_generations;
mod reserve_inode_numbers;
mod truncate_done;

use crate::check::Problem;
use crate::driver::OpResult;
use crate::key::PurgeId;
use crate::steps::orphan;
use crate::view::OpView;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{InodeId, Layout, OstId, SessionId, VirtualShard};
use std::ops::Range;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackgroundOp {
    /// Reserve the next block of inode numbers; returns `FollowUp::InodeNumbers`.
    ReserveInodeNumbers { shard: VirtualShard },
    /// Every object of this truncate has its new length; `blocks` is the file's space over all objects now.
    TruncateDone { id: PurgeId, blocks: u64 },
    /// Every object of this purge was removed.
    PurgeDone { id: PurgeId },
    /// The session does not use this unlinked inode any more.
    ForgetOrphan { ino: InodeId, session: SessionId },
    /// The session has this unlinked file open: it stays until the session forgets it.
    RecordOrphan { ino: InodeId, session: SessionId },
    /// The session that had the write lease of this file has ended. `found` has the state of every object of the layout, as
    /// (component, stripe), None where there is none; a power loss may still discard an object. The driver finished pending
    /// truncates of the file before it queried the objects.
    RecoverWriteLease {
        ino: InodeId,
        session: SessionId,
        found: Vec<(u32, u32, Option<ObjectStat>)>,
    },
    /// The store is an older copy, and objects of this file reach beyond the size in its record; `found` as in
    /// `RecoverWriteLease`.
    UpdateFromObjects {
        ino: InodeId,
        found: Vec<(u32, u32, Option<ObjectStat>)>,
    },
    /// Objects that may exist of a file with an `L` record: as (component, stripe), whether the object exists and survives a
    /// power loss. The file has not changed since the driver queried them.
    ConfirmObjects {
        ino: InodeId,
        found: Vec<(u32, u32, bool)>,
    },
    /// Members of mirrored stripes, as (component, object index), could not be changed: they are stale from now on.
    MarkStale {
        ino: InodeId,
        objects: Vec<(u32, u32)>,
    },
    /// An older copy of this OST is about to serve: objects there that may exist count as present, so that a read of one that the copy lacks is
    /// an error.
    ExpectObjects { ino: InodeId, ost: OstId },
    /// These stale members, as (component, object index), have every byte of their stripes, on disk. The file has not changed since the
    /// driver compared them, and no session can write it.
    MembersSynced {
        ino: InodeId,
        objects: Vec<(u32, u32)>,
    },
    /// The file's members on this OST get other OSTs and are stale there: the OST is lost, or only those that are stale already are to be
    /// replaced. Members without a replacement or a full member that is up stay; so do all while the file is written.
    ReplaceMembers {
        ino: InodeId,
        ost: OstId,
        only_stale: bool,
    },
    /// Objects of the file, as (component, object index), were copied to these OSTs, with every byte, on disk: they are there from now on. The
    /// file has not changed since the driver began to copy, and no session can write it.
    MoveObjects {
        ino: InodeId,
        objects: Vec<(u32, u32, OstId)>,
    },
    /// The file's objects with these generations are the server's to make: it is about to copy the file's bytes to them.
    ReserveGenerations {
        ino: InodeId,
        generations: Range<u32>,
    },
    /// The file's bytes were copied to the objects of this layout, on disk, and take so many blocks of 512 bytes there: it is the file's from
    /// now on, and the former objects are removed, but those of components that both layouts have. The file has not changed since the driver
    /// began to copy, and no session can write it.
    ReplaceLayout {
        ino: InodeId,
        layout: Layout,
        blocks: u64,
    },
    /// Remove the session's stored replies in this shard, and in the first shard its `S` record.
    DropSession {
        session: SessionId,
        shard: VirtualShard,
    },
    /// Repair a problem that `NamespaceCheck` found, if that is safe.
    Repair(Problem),
    /// Link an inode without a name in `/lost+found`, which is created if it does not exist. For a salvage.
    LinkInLostFound { ino: InodeId },
}

pub(crate) fn apply(view: &mut OpView, ctx: &OpContext, op: &BackgroundOp) -> OpResult<()> {
    match op {
        BackgroundOp::ReserveInodeNumbers { shard } => {
            reserve_inode_numbers::reserve_inode_numbers(view, *shard)
        }
        BackgroundOp::TruncateDone { id, blocks } => {
            truncate_done::truncate_done(view, *id, *blocks)
        }
        BackgroundOp::PurgeDone { id } => purge_done::purge_done(view, *id),
        BackgroundOp::ForgetOrphan { ino, session } => orphan::forget_orphan(view, *ino, *session),
        BackgroundOp::RecordOrphan { ino, session } => {
            record_orphan::record_orphan(view, *ino, *session)
        }
        BackgroundOp::RecoverWriteLease {
            ino,
            session,
            found,
        } => recover_write_lease::recover_write_lease(view, *ino, *session, found),
        BackgroundOp::UpdateFromObjects { ino, found } => {
            recover_write_lease::update_from_objects(view, *ino, found)
        }
        BackgroundOp::ConfirmObjects { ino, found } => {
            confirm_objects::confirm_objects(view, *ino, found)
        }
        BackgroundOp::MarkStale { ino, objects } => members_synced::mark_stale(view, *ino, objects),
        BackgroundOp::ExpectObjects { ino, ost } => {
            expect_objects::expect_objects(view, *ino, *ost)
        }
        BackgroundOp::MembersSynced { ino, objects } => {
            members_synced::members_synced(view, *ino, objects)
        }
        BackgroundOp::ReplaceMembers {
            ino,
            ost,
            only_stale,
        } => replace_members::replace_members(view, ctx.targets, *ino, *ost, *only_stale),
        BackgroundOp::MoveObjects { ino, objects } => {
            move_objects::move_objects(view, *ino, objects)
        }
        BackgroundOp::ReserveGenerations { ino, generations } => {
            reserve_generations::reserve_generations(view, *ino, generations)
        }
        BackgroundOp::ReplaceLayout {
            ino,
            layout,
            blocks,
        } => replace_layout::replace_layout(view, *ino, layout, *blocks),
        BackgroundOp::DropSession { session, shard } => {
            drop_session::drop_session(view, *session, *shard)
        }
        BackgroundOp::Repair(problem) => repair::repair(view, ctx.caller, problem),
        BackgroundOp::LinkInLostFound { ino } => {
            lost_found::link_in_lost_found(view, ctx.caller, ctx.entropy, *ino)
        }
    }
}
