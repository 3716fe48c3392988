use crate::driver::{FollowUp, OpResult};
use crate::key::RecordKey;
use crate::steps::stale_members;
use crate::view::OpView;
use gupfs_proto::InodeId;

/// Marks members as stale; nothing happens if the file is gone.
pub(crate) fn mark_stale(view: &mut OpView, ino: InodeId, objects: &[(u32, u32)]) -> OpResult<()> {
    match view.find_inode(ino)? {
        Some(_) => stale_members::mark(view, ino, objects),
        None => Ok(()),
    }
}

/// Records that stale members have every byte of their stripes. The driver has compared them while no session had a write lease.
pub(crate) fn members_synced(
    view: &mut OpView,
    ino: InodeId,
    objects: &[(u32, u32)],
) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "members_synced");
    let Some(inode) = view.find_inode(ino)? else {
        view.remove(RecordKey::stale_members(ino));
        return Ok(());
    };
    let mut layout = inode.file()?.layout.clone();
    for (component, index) in objects {
        if let Some(component) = layout.components.get_mut(*component as usize) {
            component.mark_full(*index as usize);
        }
    }
    if !layout.has_stale_member() {
        view.remove(RecordKey::stale_members(ino));
    }
    if layout != inode.file()?.layout {
        view.change_file(ino, |inode, file| {
            file.layout = layout;
            inode.data_version += 1;
        })?;
        // Sessions may change the members from the reply on: a start after a power loss must not find them stale and older than that.
        view.add_follow_up(FollowUp::AwaitDurable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKind};
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::layout::{DefaultLayout, Redundancy};
    use gupfs_proto::meta::{AttrReport, MetaOp, MetaReplyBody};
    use gupfs_proto::{Caller, FsError, InodeId, Presence, Timestamp};

    /// A file of one component with two copies, and one stripe, that a session writes.
    fn mirrored_file() -> (TestServer, InodeId) {
        let mut server = TestServer::new(1);
        let caller = Caller::root();
        let ino = server.create(&caller, ROOT, "f", 0o644).unwrap().ino;
        let mut layout = DefaultLayout::default();
        layout.components.remove(0);
        layout.components[0].count = 1;
        layout.components[0].redundancy = Redundancy::Mirror(2);
        let layout = Some(layout);
        let op = MetaOp::SetDefaultLayout { ino, layout };
        server.request(&caller, &op).unwrap();
        server.begin_write(ino).unwrap();
        (server, ino)
    }

    fn mark_stale(server: &mut TestServer, ino: InodeId, index: u32) -> Result<(), FsError> {
        let objects = vec![(0, index)];
        let op = MetaOp::MarkStale { ino, objects };
        match server.request(&Caller::root(), &op)? {
            MetaReplyBody::Opened(opened) => {
                let presence = opened.layout.components[0].presence.get(index as usize);
                assert_eq!(presence, Presence::Stale);
                Ok(())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn writes_go_on_without_a_stale_member_until_it_is_synced() {
        let (mut server, ino) = mirrored_file();
        assert_eq!(server.presence(ino), [Presence::Maybe; 2]);
        mark_stale(&mut server, ino, 0).unwrap();
        assert!(server.follow_ups.contains(&FollowUp::AwaitDurable));
        assert_eq!(server.count(RecordKind::StaleMembers), 1);
        assert_eq!(mark_stale(&mut server, ino, 1), Err(FsError::Invalid));
        server
            .end_write(ino, report(9, &[(0, 0), (0, 1)]), false)
            .unwrap();
        assert_eq!(server.presence(ino), [Presence::Stale, Presence::Present]);
        server.assert_clean();
        let objects = vec![(0, 0)];
        let synced = BackgroundOp::MembersSynced { ino, objects };
        server.run_background(&synced).unwrap();
        assert_eq!(server.presence(ino), [Presence::Present; 2]);
        assert_eq!(server.count(RecordKind::StaleMembers), 0);
        server.assert_clean();
    }

    #[test]
    fn a_member_that_a_power_loss_has_discarded_is_stale_and_no_hole() {
        let (mut server, ino) = mirrored_file();
        let unsynced = AttrReport {
            unsynced: vec![(0, 0), (0, 1)],
            ..report(9, &[])
        };
        server.end_write(ino, unsynced, false).unwrap();
        assert_eq!(server.presence(ino), [Presence::Maybe; 2]);
        let found = vec![(0, 0, true), (0, 1, false)];
        let confirmed = BackgroundOp::ConfirmObjects { ino, found };
        server.run_background(&confirmed).unwrap();
        assert_eq!(server.presence(ino), [Presence::Present, Presence::Stale]);
        assert_eq!(server.count(RecordKind::StaleMembers), 1);
        server.assert_clean();
    }

    #[test]
    fn only_the_lease_holder_marks_members() {
        let (mut server, ino) = mirrored_file();
        server.end_write(ino, report(0, &[]), false).unwrap();
        assert_eq!(server.presence(ino), [Presence::Never; 2]);
        let refused = mark_stale(&mut server, ino, 0);
        assert!(matches!(refused, Err(FsError::Malformed(_))), "{refused:?}");
        server.assert_clean();
    }

    #[test]
    fn a_write_lease_leaves_out_members_on_targets_that_are_down() {
        let (mut server, ino) = mirrored_file();
        server
            .end_write(ino, report(9, &[(0, 0), (0, 1)]), false)
            .unwrap();
        let second = server.file(ino).layout.components[0].targets[1];
        for target in &mut server.targets {
            target.is_up = target.ost != second;
            target.usable = target.is_up;
        }
        server.begin_write(ino).unwrap();
        assert_eq!(server.presence(ino), [Presence::Present, Presence::Stale]);
        assert_eq!(server.count(RecordKind::StaleMembers), 1);
        server.end_write(ino, report(9, &[]), false).unwrap();
        // With no member up all stay, and the session waits.
        let first = server.file(ino).layout.components[0].targets[0];
        server
            .targets
            .iter_mut()
            .for_each(|target| target.is_up &= target.ost != first);
        server.begin_write(ino).unwrap();
        assert_eq!(server.presence(ino), [Presence::Present, Presence::Stale]);
        server.assert_clean();
    }

    #[test]
    fn of_a_dead_writers_file_the_member_that_was_written_last_counts() {
        let (mut server, ino) = mirrored_file();
        let stat = |size, secs| {
            Some(ObjectStat {
                size,
                blocks: 8,
                mtime: Timestamp::new(secs, 0),
            })
        };
        let recover = |server: &TestServer, found| BackgroundOp::RecoverWriteLease {
            ino,
            session: server.session,
            found,
        };
        // No OST of a member has answered.
        let op = recover(&server, vec![]);
        assert!(server.run_background(&op).is_err());
        let op = recover(
            &server,
            vec![(0, 0, stat(100, 5_000)), (0, 1, stat(70, 5_001))],
        );
        server.run_background(&op).unwrap();
        assert_eq!(server.presence(ino), [Presence::Stale, Presence::Maybe]);
        let attr = server.getattr(ino).unwrap();
        assert_eq!((attr.size, attr.blocks), (70, 8));
        assert_eq!(server.count(RecordKind::StaleMembers), 1);
        server.assert_clean();
    }

    #[test]
    fn a_power_loss_that_discards_one_member_makes_it_stale() {
        let (mut server, ino) = mirrored_file();
        let unsynced = gupfs_proto::meta::AttrReport {
            unsynced: vec![(0, 0), (0, 1)],
            ..report(9, &[])
        };
        server.end_write(ino, unsynced, false).unwrap();
        let found = vec![(0, 0, false), (0, 1, true)];
        let op = BackgroundOp::ConfirmObjects { ino, found };
        server.run_background(&op).unwrap();
        assert_eq!(server.presence(ino), [Presence::Stale, Presence::Present]);
        assert_eq!(server.count(RecordKind::StaleMembers), 1);
        server.assert_clean();
    }

    #[test]
    fn a_removed_file_leaves_no_record_of_stale_members() {
        let (mut server, ino) = mirrored_file();
        mark_stale(&mut server, ino, 1).unwrap();
        server.end_write(ino, report(9, &[(0, 0)]), false).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        let op = MetaOp::Forget { inodes: vec![ino] };
        server.request(&Caller::root(), &op).unwrap();
        assert_eq!(server.count(RecordKind::StaleMembers), 0);
        server.assert_clean();
    }
}
