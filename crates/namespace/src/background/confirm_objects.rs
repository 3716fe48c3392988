use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::steps::stale_members;
use crate::view::OpView;
use gupfs_proto::{Component, InodeId, Presence};

/// Records which objects of a file that was closed without a sync exist and survive a power loss. The others were never created,
/// or a power loss discarded them before a sync: they are holes, unless a session has the write lease and may be creating them
/// now.
pub(crate) fn confirm_objects(
    view: &mut OpView,
    ino: InodeId,
    found: &[(u32, u32, bool)],
) -> OpResult<()> {
    view.remove(RecordKey::unconfirmed(ino));
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let mut layout = inode.file()?.layout.clone();
    let is_written = inode.file()?.write_leases > 0;
    for (component, index, there) in found {
        if let Some(component) = layout.components.get_mut(*component as usize)
            && *there
            && component.presence.get(*index as usize) == Presence::Maybe
        {
            component.presence.set(*index as usize, Presence::Present);
        }
    }
    let mut has_new_stale = false;
    for (component, index, there) in found {
        if let Some(component) = layout.components.get_mut(*component as usize)
            && !there
            && !is_written
        {
            has_new_stale |= note_absent(component, *index as usize);
        }
    }
    if layout != inode.file()?.layout {
        view.change_file(ino, |_, file| file.layout = layout)?;
    }
    if has_new_stale {
        stale_members::request_resync(view, ino);
    }
    Ok(())
}

/// A `Maybe` object does not exist: it is a hole, unless it is a member of a stripe of which another member exists. Then a power loss has
/// discarded it, and it is stale: returns true.
fn note_absent(component: &mut Component, index: usize) -> bool {
    let presence = component.presence.get(index);
    if !matches!(presence, Presence::Maybe | Presence::Present) {
        return false;
    }
    let mut full = component.full_members(component.stripe_of(index));
    let is_elsewhere =
        full.any(|member| member != index && component.presence.get(member) == Presence::Present);
    drop(full);
    if is_elsewhere {
        return component.mark_stale(index).is_ok();
    }
    // A present object that is missing is lost: reads report it.
    if presence == Presence::Maybe {
        component.presence.set(index, Presence::Never);
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKind};
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::meta::{AttrReport, MetaOp};
    use gupfs_proto::{Caller, InodeId, Presence, Timestamp};

    fn presence(server: &TestServer, ino: InodeId) -> Vec<Presence> {
        let layout = server.file(ino).layout;
        layout.objects(ino).map(|(.., presence)| presence).collect()
    }

    fn unsynced(size: u64, objects: &[(u32, u32)]) -> AttrReport {
        AttrReport {
            unsynced: objects.to_vec(),
            ..report(size, &[])
        }
    }

    /// A file that was closed without a sync: two of its objects exist.
    fn file_closed_without_sync(server: &mut TestServer) -> InodeId {
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server.begin_write(file).unwrap();
        let report = unsynced(5 << 20, &[(0, 0), (1, 0)]);
        server.end_write(file, report, false).unwrap();
        assert!(server.follow_ups.contains(&FollowUp::Confirm(file)));
        file
    }

    #[test]
    fn unsynced_objects_are_maybe_until_they_are_confirmed() {
        let mut server = TestServer::new(2);
        let file = file_closed_without_sync(&mut server);
        let (maybe, present, never) = (Presence::Maybe, Presence::Present, Presence::Never);
        assert_eq!(presence(&server, file), [maybe, maybe, never, never, never]);
        assert_eq!(server.count(RecordKind::Unconfirmed), 1);
        server.assert_clean();
        // A power loss has discarded one of them.
        let found = vec![(0, 0, true), (1, 0, false)];
        let confirmed = BackgroundOp::ConfirmObjects { ino: file, found };
        server.run_background(&confirmed).unwrap();
        assert_eq!(
            presence(&server, file),
            [present, never, never, never, never]
        );
        assert_eq!(server.count(RecordKind::Unconfirmed), 0);
        server.assert_clean();
        server.run_background(&confirmed).unwrap();
    }

    #[test]
    fn a_missing_object_of_a_file_with_a_write_lease_stays_maybe() {
        let mut server = TestServer::new(2);
        let file = file_closed_without_sync(&mut server);
        server.begin_write(file).unwrap();
        let found = vec![(0, 0, true), (1, 0, false)];
        server
            .run_background(&BackgroundOp::ConfirmObjects { ino: file, found })
            .unwrap();
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Present, Presence::Maybe]
        );
    }

    #[test]
    fn the_last_end_write_keeps_objects_that_another_session_left_unconfirmed() {
        let mut server = TestServer::new(2);
        let file = file_closed_without_sync(&mut server);
        server.begin_write(file).unwrap();
        server
            .end_write(file, report(5 << 20, &[(0, 0)]), false)
            .unwrap();
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Present, Presence::Maybe]
        );
        assert_eq!(server.count(RecordKind::Unconfirmed), 1);
    }

    #[test]
    fn a_present_object_does_not_become_maybe_again() {
        let mut server = TestServer::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        for report in [report(9, &[(0, 0)]), unsynced(9, &[(0, 0)])] {
            server.begin_write(file).unwrap();
            server.end_write(file, report, false).unwrap();
        }
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Present, Presence::Never]
        );
        assert_eq!(server.count(RecordKind::Unconfirmed), 0);
    }

    #[test]
    fn a_removed_file_leaves_no_unconfirmed_record() {
        let mut server = TestServer::new(2);
        let file = file_closed_without_sync(&mut server);
        server.truncate(file, 0).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        let op = MetaOp::Forget { inodes: vec![file] };
        server.request(&Caller::root(), &op).unwrap();
        assert_eq!(
            (
                server.count(RecordKind::Unconfirmed),
                server.count(RecordKind::Inode)
            ),
            (0, 1)
        );
        server.assert_clean();
        let confirm = BackgroundOp::ConfirmObjects {
            ino: file,
            found: vec![],
        };
        server.run_background(&confirm).unwrap();
    }

    #[test]
    fn objects_of_a_dead_lease_holder_are_maybe() {
        let mut server = TestServer::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server.begin_write(file).unwrap();
        let stat = ObjectStat {
            size: 9,
            blocks: 8,
            mtime: Timestamp::new(1, 0),
        };
        let recover = BackgroundOp::RecoverWriteLease {
            ino: file,
            session: server.session,
            found: vec![(0, 0, Some(stat)), (1, 0, None)],
        };
        server.run_background(&recover).unwrap();
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Maybe, Presence::Never]
        );
        assert!(server.follow_ups.contains(&FollowUp::Confirm(file)));
        server.assert_clean();
    }
}
