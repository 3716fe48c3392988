use crate::driver::{FollowUp, OpResult};
use crate::placement::choose_replacement_of;
use crate::steps::stale_members;
use crate::view::OpView;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{InodeId, OstId, Presence};

/// Gives the file's members on `ost` other OSTs, where they are stale; the resync task fills them. Nothing happens while a session writes the
/// file, because it knows the members from when it got its lease.
pub(crate) fn replace_members(
    view: &mut OpView,
    targets: &[PlacementTarget],
    ino: InodeId,
    ost: OstId,
    only_stale: bool,
) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "replace_members");
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    if file.write_leases > 0 || file.truncating.is_some() {
        return Ok(());
    }
    let mut layout = file.layout.clone();
    let mirrored = (layout.components.iter_mut()).filter(|component| component.is_mirrored());
    for component in mirrored {
        for index in 0..component.targets.len() {
            let is_stale = component.presence.get(index) == Presence::Stale;
            if component.targets[index] != ost || (only_stale && !is_stale) {
                continue;
            }
            if let Some(other) = choose_replacement_of(component, index, targets, ino) {
                component.replace_member(index, other)?;
            }
        }
    }
    if layout == file.layout {
        return Ok(());
    }
    view.change_file(ino, |inode, file| {
        file.layout = layout;
        inode.data_version += 1;
    })?;
    stale_members::request_resync(view, ino);
    // The object at the former OST is not the member any more: a start after a power loss must not find it as the member again, and older
    // than what was written meanwhile.
    view.add_follow_up(FollowUp::AwaitDurable);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKind};
    use gupfs_proto::layout::{DefaultLayout, Redundancy};
    use gupfs_proto::lease::LeaseKey;
    use gupfs_proto::meta::MetaOp;
    use gupfs_proto::{Caller, InodeId, OstId, Presence};

    /// A file of one component with two copies that was written, and the OSTs of its members.
    fn mirrored_file(server: &mut TestServer) -> (InodeId, [OstId; 2]) {
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
        let written = report(9, &[(0, 0), (0, 1)]);
        server.end_write(ino, written, false).unwrap();
        let osts = members(server, ino);
        (ino, osts)
    }

    fn members(server: &TestServer, ino: InodeId) -> [OstId; 2] {
        let layout = server.file(ino).layout;
        layout.components[0].targets.clone().try_into().unwrap()
    }

    fn replace(server: &mut TestServer, ino: InodeId, ost: OstId, only_stale: bool) {
        let op = BackgroundOp::ReplaceMembers {
            ino,
            ost,
            only_stale,
        };
        server.run_background(&op).unwrap();
        server.assert_clean();
    }

    fn lose(server: &mut TestServer, ost: OstId) {
        server.targets.retain(|target| target.ost != ost);
    }

    #[test]
    fn a_member_on_a_lost_ost_moves_to_another_domain_and_is_stale() {
        for lost in 0..2 {
            let mut server = TestServer::new(1);
            let (ino, before) = mirrored_file(&mut server);
            let kept = before[1 - lost];
            // All others but one share the domain of the kept member.
            let only = (0..4).map(OstId).find(|ost| !before.contains(ost)).unwrap();
            for target in &mut server.targets {
                target.domain = if target.ost == only { 2 } else { 1 };
            }
            lose(&mut server, before[lost]);
            server.changed_leases.clear();
            replace(&mut server, ino, before[lost], false);
            let after = members(&server, ino);
            assert_eq!((after[lost], after[1 - lost]), (only, kept));
            let presence = server.presence(ino);
            assert_eq!(presence[lost], Presence::Stale);
            assert_eq!(presence[1 - lost], Presence::Present);
            assert_eq!(server.count(RecordKind::StaleMembers), 1);
            assert!(server.follow_ups.contains(&FollowUp::Resync(ino)));
            assert!(server.follow_ups.contains(&FollowUp::AwaitDurable));
            // No session reads by the former layout.
            assert!(server.changed_leases.contains(&LeaseKey::Data(ino)));
        }
    }

    #[test]
    fn without_another_domain_or_a_full_member_that_is_up_nothing_changes() {
        let mut server = TestServer::new(1);
        let (ino, before) = mirrored_file(&mut server);
        lose(&mut server, before[0]);
        for target in &mut server.targets {
            target.domain = 1;
        }
        replace(&mut server, ino, before[0], false);
        assert_eq!(members(&server, ino), before);
        assert_eq!(server.presence(ino), [Presence::Present; 2]);
        for target in &mut server.targets {
            target.domain = u32::from(target.ost.0);
            target.is_up = target.ost != before[1];
        }
        replace(&mut server, ino, before[0], false);
        assert_eq!(members(&server, ino), before);
        // Both OSTs are lost: the bytes are, too.
        lose(&mut server, before[1]);
        replace(&mut server, ino, before[0], false);
        replace(&mut server, ino, before[1], false);
        assert_eq!(members(&server, ino), before);
        assert_eq!(server.presence(ino), [Presence::Present; 2]);
    }

    #[test]
    fn a_file_that_is_written_keeps_its_members() {
        let mut server = TestServer::new(1);
        let (ino, before) = mirrored_file(&mut server);
        server.begin_write(ino).unwrap();
        lose(&mut server, before[0]);
        replace(&mut server, ino, before[0], false);
        assert_eq!(members(&server, ino), before);
        server.end_write(ino, report(9, &[]), false).unwrap();
        replace(&mut server, ino, before[0], false);
        assert_ne!(members(&server, ino), before);
    }

    #[test]
    fn of_an_ost_that_may_return_only_stale_members_are_replaced() {
        let mut server = TestServer::new(1);
        let (ino, before) = mirrored_file(&mut server);
        for target in &mut server.targets {
            target.is_up = target.ost != before[1];
            target.usable = target.is_up;
        }
        replace(&mut server, ino, before[1], true);
        assert_eq!(members(&server, ino), before);
        // The next write leaves the member out.
        server.begin_write(ino).unwrap();
        server.end_write(ino, report(9, &[(0, 0)]), false).unwrap();
        replace(&mut server, ino, before[1], true);
        let after = members(&server, ino);
        assert!(
            after[0] == before[0] && !before.contains(&after[1]),
            "{after:?}"
        );
        let objects = vec![(0, 1)];
        let synced = BackgroundOp::MembersSynced { ino, objects };
        server.run_background(&synced).unwrap();
        assert_eq!(server.presence(ino), [Presence::Present; 2]);
        server.assert_clean();
    }
}
