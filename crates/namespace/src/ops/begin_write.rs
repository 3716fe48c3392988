use crate::context::OpContext;
use crate::driver::{OpError, OpResult, Prerequisite};
use crate::record::{Inode, StoreFormat, WriteLeaseMode};
use crate::requester::RequestingSession;
use crate::steps::write_lease_grant::{self, LeaseGrant};
use crate::steps::{
    default_layout, feature, orphan, privileges, stale_members, truncation, write_lease,
};
use crate::view::OpView;
use crate::{flag_checks, generations, placement};
use gupfs_proto::layout::Component;
use gupfs_proto::meta::{MetaReplyBody, PlacementTarget};
use gupfs_proto::{Caller, FsError, InodeId, Layout, OwnerEpoch};

/// The inputs of a new layout besides the file.
pub(crate) struct PlacementContext<'a> {
    pub owner_epoch: OwnerEpoch,
    /// State of the OSTs as last reported.
    pub targets: &'a [PlacementTarget],
    /// For a replay: the layout that the original execution assigned, if it assigned one.
    pub original: Option<&'a Layout>,
}

impl<'a> PlacementContext<'a> {
    pub fn from_context(ctx: &OpContext<'a>) -> PlacementContext<'a> {
        PlacementContext {
            owner_epoch: ctx.owner_epoch,
            targets: ctx.targets,
            original: ctx.replay.and_then(|original| original.layout.as_ref()),
        }
    }
}

/// A session acquires the write lease of a file, exclusively: the driver revokes the lease of an earlier holder. The session gets
/// the layout, which is created now if there is none; from now on it is the authority for size, mtime and presence. Every object
/// may exist from now on, whatever happens to the session. This record is durable before the first object exists, unless no
/// server could ever assign the new layout's generations again (`generations`). Inline bytes stay until `SpillInline`.
///
/// # Errors
/// `Busy` if the session has a concurrent write lease: `UpgradeWrite` makes that exclusive.
pub(crate) fn begin_write(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    context: &PlacementContext,
    ino: InodeId,
    kill_privileges: bool,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "begin_write");
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    orphan::check_orphan_user(view, session, &inode, false)?;
    flag_checks::check_contents(&inode)?;
    let mode = write_lease::mode_of(view, session.id, ino)?;
    match mode {
        // The lease holder's own operation never waits for the lease.
        Some(WriteLeaseMode::Exclusive) => {}
        Some(WriteLeaseMode::Concurrent) => return Err(FsError::Busy.into()),
        None if session.must_queue => return Err(Prerequisite::LeaseQueue(ino).into()),
        None => write_lease::require_revoked(view, session, &inode)?,
    }
    truncation::check_no_unfinished_truncate(file, ino)?;
    let is_new_layout = file.layout.is_empty();
    let mut layout = match is_new_layout {
        true => new_layout(view, context, &inode, file.next_generation)?,
        false => file.layout.clone(),
    };
    // The session does not wait for servers that are known to be down.
    let has_new_stale = stale_members::mark_members_down(&mut layout, context.targets);
    // The `M` record must be durable, too: if a power loss discarded it, the server would not query the objects for the file's size,
    // and bytes that they have beyond its end would become visible when it grows.
    let must_be_durable = has_new_stale
        || !is_new_layout
        || !generations::are_in_owner_window(&layout, context.owner_epoch);
    let grant = LeaseGrant {
        mode: WriteLeaseMode::Exclusive,
        layout,
        must_be_durable,
    };
    write_lease_grant::grant(view, session.id, ino, grant)?;
    privileges::kill_after_client_write(view, caller, ino, kill_privileges)?;
    Ok(MetaReplyBody::Opened(view.inode(ino)?.open_info(false)))
}

/// The same for a file that the session has just created. Returns whether the session has the lease: not if no layout can be made now, and
/// not if its record must be durable first. The creation succeeds without it.
pub(crate) fn begin_new(
    view: &mut OpView,
    session: &RequestingSession,
    context: &PlacementContext,
    ino: InodeId,
) -> OpResult<bool> {
    if session.is_replay && context.original.is_none() {
        return Ok(false);
    }
    let inode = view.inode(ino)?;
    let mut layout = match new_layout(view, context, &inode, inode.file()?.next_generation) {
        Err(OpError::Refused(_)) if !session.is_replay => return Ok(false),
        layout => layout?,
    };
    let has_stale = stale_members::mark_members_down(&mut layout, context.targets);
    let is_in_window = generations::are_in_owner_window(&layout, context.owner_epoch);
    let must_be_durable = has_stale || !is_in_window;
    if must_be_durable && !session.is_replay {
        return Ok(false);
    }
    let grant = LeaseGrant {
        mode: WriteLeaseMode::Exclusive,
        layout,
        must_be_durable,
    };
    write_lease_grant::grant(view, session.id, ino, grant)?;
    Ok(true)
}

/// The layout of a file that has none: its components get generations from `next_generation` on.
fn new_layout(
    view: &mut OpView,
    context: &PlacementContext,
    inode: &Inode,
    next_generation: u32,
) -> OpResult<Layout> {
    if let Some(original) = context.original {
        let layout = replayed_layout(original, next_generation)?;
        if layout.is_mirrored() {
            // The session says so; the store may have lost the default layout that recorded the feature.
            feature::require(view, StoreFormat::MIRRORS)?;
        }
        return Ok(layout);
    }
    let (default_layout, _) = default_layout::of_inode(view, inode)?;
    let first = generations::first_generation(next_generation, context.owner_epoch);
    Ok(placement::choose_layout(
        &default_layout,
        context.targets,
        inode.ino,
        first,
    )?)
}

/// Returns the layout that the original execution assigned, as the lease holder sent it. Its objects may exist on their OSTs.
fn replayed_layout(original: &Layout, next_generation: u32) -> OpResult<Layout> {
    let is_new = |component: &Component| component.generation.0 >= next_generation;
    original.check()?;
    if !original.components.iter().all(is_new) {
        let why = "replay: the layout has generations that were assigned before";
        return Err(FsError::Malformed(why.into()).into());
    }
    Ok(original.clone())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{FollowUp, RecordKind};
    use gupfs_proto::meta::{AccessMode, MetaOp, WritePosition};
    use gupfs_proto::{Caller, FsError, OstId, Presence};

    #[test]
    fn the_first_begin_write_creates_the_layout_and_the_next_keeps_it() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        let begun = server.begin_write(file).unwrap();
        assert_eq!((begun.inline, begun.layout.components.len()), (None, 2));
        assert_eq!(server.presence(file), [Presence::Maybe; 5]);
        assert_eq!(
            (
                server.count(RecordKind::WriteLease),
                server.file(file).write_leases
            ),
            (1, 1)
        );
        let again = server.begin_write(file).unwrap();
        assert_eq!((again.layout, server.batch.len()), (begun.layout, 0));
        server.assert_clean();
    }

    #[test]
    fn the_final_attr_report_determines_which_objects_exist() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        let last_report = report(5 << 20, &[(0, 0), (1, 0)]);
        let attr = server.end_write(file, last_report.clone(), true).unwrap();
        assert_eq!((attr.size, attr.blocks), (5 << 20, 10 << 10));
        let (maybe, present, never) = (Presence::Maybe, Presence::Present, Presence::Never);
        assert_eq!(
            server.presence(file),
            [present, present, maybe, maybe, maybe]
        );
        server.end_write(file, last_report.clone(), false).unwrap();
        assert_eq!(
            server.presence(file),
            [present, present, never, never, never]
        );
        assert_eq!(server.count(RecordKind::WriteLease), 0);
        assert!(matches!(
            server.end_write(file, last_report, false),
            Err(FsError::Malformed(_))
        ));
        // A session that writes again may create any of them.
        server.begin_write(file).unwrap();
        assert_eq!(
            server.presence(file),
            [present, present, maybe, maybe, maybe]
        );
        let bad = report(1, &[(2, 0)]);
        assert!(matches!(
            server.end_write(file, bad, false),
            Err(FsError::Malformed(_))
        ));
        server.assert_clean();
    }

    #[test]
    fn inline_bytes_stay_until_they_are_spilled() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        let begun = server.begin_write(file).unwrap();
        assert_eq!(begun.inline.as_deref(), Some(&b"bytes"[..]));
        let spilled = MetaOp::SpillInline {
            ino: file,
            report: report(5, &[(0, 0)]),
        };
        assert_eq!(
            attr(server.request(&Caller::root(), &spilled))
                .unwrap()
                .size,
            5
        );
        let opened = server
            .open(&Caller::root(), file, AccessMode::READ)
            .unwrap();
        assert_eq!(
            (opened.inline, server.presence(file)[0]),
            (None, Presence::Present)
        );
        server.assert_clean();
    }

    #[test]
    fn only_changes_that_a_power_loss_must_not_discard_are_durable_before_the_reply() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        assert!(
            !server.follow_ups.contains(&FollowUp::AwaitDurable),
            "a new layout"
        );
        server
            .end_write(file, report(100, &[(0, 0)]), false)
            .unwrap();
        // Its other objects were never created; from now on they may be, and that must survive a power loss.
        server.begin_write(file).unwrap();
        assert!(
            server.follow_ups.contains(&FollowUp::AwaitDurable),
            "an old layout"
        );
        // The session is recorded as the lease holder: nothing new must survive a power loss.
        server.begin_write(file).unwrap();
        assert!(
            !server.follow_ups.contains(&FollowUp::AwaitDurable),
            "the same lease holder"
        );
        let all = [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)];
        server.end_write(file, report(100, &all), false).unwrap();
        // All objects exist, and the session acquires the lease again: that record must survive a power loss, too.
        server.begin_write(file).unwrap();
        assert!(
            server.follow_ups.contains(&FollowUp::AwaitDurable),
            "a new write lease"
        );
    }

    #[test]
    fn begin_write_without_a_usable_target_fails_with_no_space() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server
            .targets
            .iter_mut()
            .for_each(|target| target.usable = target.ost == OstId(9));
        assert_eq!(server.begin_write(file), Err(FsError::NoSpace));
    }

    #[test]
    fn a_replayed_mirrored_layout_keeps_older_programs_out() {
        use crate::{Record, RecordKey, StoreFormat};
        use gupfs_proto::layout::ComponentKind;
        let mut server = TestServer::new(2);
        let caller = Caller::root();
        let file = server.create(&caller, ROOT, "f", 0o644).unwrap().ino;
        let other = server.create(&caller, ROOT, "other", 0o644).unwrap().ino;
        let mut layout = server.begin_write(other).unwrap().layout;
        layout.components[1].kind = ComponentKind::Mirrored {
            copies: 2,
            version: 1,
        };
        let features = |server: &TestServer| {
            let format = server.records.get(&RecordKey::format()).unwrap();
            StoreFormat::decode(format).unwrap().features
        };
        assert_eq!(features(&server), 0);
        let original = crate::OriginalResult {
            created: None,
            layout: Some(layout),
        };
        let op = MetaOp::BeginWrite {
            ino: file,
            kill_privileges: false,
        };
        (server.original, server.replays) = (Some(original), false);
        server.request(&caller, &op).unwrap();
        assert_eq!(features(&server), StoreFormat::MIRRORS);
        server.assert_clean();
    }
}
