use crate::driver::{FollowUp, OpResult};
use crate::key::RecordKey;
use crate::record::StoreFormat;
use crate::steps::{feature, purge, stale_members};
use crate::view::OpView;
use gupfs_proto::{Component, FsError, InodeId, Layout};

/// The file has this layout from now on: all its bytes were copied to the objects of it, on disk. The file has not changed since the driver
/// began to copy, and no session can write it. The former objects are removed, but those of components that both layouts have.
///
/// # Errors
/// `Invalid` for generations that were not reserved, or that another component of the former layout has; and for a component that stays with
/// objects that are stale or not known to be durable: their records are removed.
pub(crate) fn replace_layout(
    view: &mut OpView,
    ino: InodeId,
    layout: &Layout,
    blocks: u64,
) -> OpResult<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    let newest = file.layout.components.iter().map(|c| c.generation).max();
    let (kept, new): (Vec<&Component>, Vec<&Component>) = (layout.components.iter())
        .partition(|component| file.layout.components.contains(component));
    let is_reserved =
        |new: &&Component| Some(new.generation) > newest && new.generation.0 < file.next_generation;
    if !new.iter().all(is_reserved) || !kept.iter().all(|component| component.is_settled()) {
        return Err(FsError::Invalid.into());
    }
    if layout.is_mirrored() {
        feature::require(view, StoreFormat::MIRRORS)?;
    }
    let (mut former, number) = (file.layout.clone(), file.next_generation);
    stale_members::forget(view, ino, &former);
    // Bytes of a mirrored component may be unsynced although all its objects are present: what is recorded of the file still counts for those
    // that stay.
    if !kept.iter().any(|component| component.is_mirrored()) {
        view.remove(RecordKey::unconfirmed(ino));
    }
    former
        .components
        .retain(|component| !layout.components.contains(component));
    let has_purge = purge::remove_objects(view, &inode, number, former);
    // The batch changes the file's data as far as leases go: no session reads or writes by the former layout.
    view.change_file(ino, |inode, file| {
        file.layout = layout.clone();
        file.next_generation = number + u32::from(has_purge);
        inode.blocks = blocks;
        inode.data_version += 1;
    })?;
    view.add_follow_up(FollowUp::AwaitDurable);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKind};
    use gupfs_proto::layout::{ComponentKind, Layout};
    use gupfs_proto::lease::LeaseKey;
    use gupfs_proto::meta::AttrReport;
    use gupfs_proto::{Caller, FsError, Generation, InodeId, OstId, Presence, PresenceMap};

    /// A file with a stale member, and the layout that it is to get, on two OSTs.
    fn file_with_stale_member(server: &mut TestServer) -> (InodeId, Layout) {
        let ino = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(ino).unwrap();
        server.end_write(ino, report(9, &[(0, 0)]), false).unwrap();
        let mut layout = server.file(ino).layout;
        for component in &mut layout.components {
            component.kind = ComponentKind::Mirrored {
                copies: 2,
                version: 1,
            };
            component.targets = vec![OstId(0), OstId(1)];
            component.presence = PresenceMap::new(2);
        }
        for index in 0..2 {
            layout.components[0].presence.set(index, Presence::Present);
        }
        (ino, layout)
    }

    fn reserve(server: &mut TestServer, ino: InodeId, layout: &mut Layout) {
        let from = server.file(ino).next_generation;
        let generations = from..from + layout.components.len() as u32;
        for (component, generation) in layout.components.iter_mut().zip(generations.clone()) {
            component.generation = Generation(generation);
        }
        let op = BackgroundOp::ReserveGenerations { ino, generations };
        server.run_background(&op).unwrap();
    }

    fn replace(server: &mut TestServer, ino: InodeId, layout: &Layout) -> Result<(), FsError> {
        let op = BackgroundOp::ReplaceLayout {
            ino,
            layout: layout.clone(),
            blocks: 16,
        };
        server.run_background(&op).map(|_| ())
    }

    #[test]
    fn the_file_has_the_new_objects_and_the_former_ones_are_removed() {
        let mut server = TestServer::new(1);
        let (ino, mut layout) = file_with_stale_member(&mut server);
        let former = server.file(ino).layout;
        reserve(&mut server, ino, &mut layout);
        server.changed_leases.clear();
        replace(&mut server, ino, &layout).unwrap();
        let file = server.file(ino);
        assert_eq!(file.layout, layout);
        assert!(server.changed_leases.contains(&LeaseKey::Data(ino)));
        assert!(server.follow_ups.contains(&FollowUp::AwaitDurable));
        let purged: Vec<_> = server
            .follow_ups
            .iter()
            .filter_map(|follow_up| match follow_up {
                FollowUp::Purge { objects, .. } => Some(objects.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        let component = &former.components[0];
        assert_eq!(purged, [(component.targets[0], component.object(ino, 0))]);
        assert_eq!(server.count(RecordKind::Purge), 1);
        server.assert_clean();
        // And once more, from a layout with a stale member.
        let op = BackgroundOp::MarkStale {
            ino,
            objects: vec![(0, 1)],
        };
        server.run_background(&op).unwrap();
        assert_eq!(server.count(RecordKind::StaleMembers), 1);
        reserve(&mut server, ino, &mut layout);
        replace(&mut server, ino, &layout).unwrap();
        assert_eq!(server.count(RecordKind::StaleMembers), 0);
        assert_eq!(server.count(RecordKind::Purge), 2);
        server.assert_clean();
    }

    #[test]
    fn a_component_that_stays_keeps_its_objects_and_must_be_settled() {
        let mut server = TestServer::new(1);
        let ino = (server.create(&Caller::root(), ROOT, "f", 0o644))
            .unwrap()
            .ino;
        server.begin_write(ino).unwrap();
        let written = AttrReport {
            unsynced: vec![(0, 0)],
            ..report(9 << 20, &[(1, 0)])
        };
        server.end_write(ino, written, false).unwrap();
        let mut layout = server.file(ino).layout;
        let generation = server.file(ino).next_generation;
        layout.components[1].generation = Generation(generation);
        let op = BackgroundOp::ReserveGenerations {
            ino,
            generations: generation..generation + 1,
        };
        server.run_background(&op).unwrap();
        // Of the other component it is not known yet which objects are durable.
        assert_eq!(server.presence(ino)[0], Presence::Maybe);
        assert_eq!(replace(&mut server, ino, &layout), Err(FsError::Invalid));
        let found = vec![(0, 0, true)];
        let confirmed = BackgroundOp::ConfirmObjects { ino, found };
        server.run_background(&confirmed).unwrap();
        let former = server.file(ino).layout;
        layout.components[0] = former.components[0].clone();
        // It is another component if anything of it has changed.
        let mut other = layout.clone();
        other.components[0].targets[0] = OstId(3 - former.components[0].targets[0].0);
        assert_eq!(replace(&mut server, ino, &other), Err(FsError::Invalid));
        assert_eq!(replace(&mut server, ino, &layout), Ok(()));
        assert_eq!(server.file(ino).layout, layout);
        let purged = server.purges();
        let purged: Vec<_> = (purged.iter())
            .flat_map(|(id, purge)| purge.objects(*id))
            .map(|(ost, object, _)| (ost, object))
            .collect();
        let component = &former.components[1];
        assert_eq!(purged, [(component.targets[0], component.object(ino, 0))]);
        server.assert_clean();
    }

    #[test]
    fn unsynced_bytes_of_a_mirrored_component_that_stays_are_not_forgotten() {
        let mut server = TestServer::new(1);
        let (ino, mut layout) = file_with_stale_member(&mut server);
        reserve(&mut server, ino, &mut layout);
        replace(&mut server, ino, &layout).unwrap();
        // A session overwrites them; their presence does not tell.
        server.begin_write(ino).unwrap();
        let written = AttrReport {
            unsynced: vec![(0, 0), (0, 1)],
            ..report(9, &[])
        };
        server.end_write(ino, written, false).unwrap();
        assert_eq!(server.count(RecordKind::Unconfirmed), 1);
        let mut layout = server.file(ino).layout;
        let generation = server.file(ino).next_generation;
        let last = layout.components.len() - 1;
        assert!(last > 0 && layout.components[0].is_settled());
        layout.components[last].generation = Generation(generation);
        let op = BackgroundOp::ReserveGenerations {
            ino,
            generations: generation..generation + 1,
        };
        server.run_background(&op).unwrap();
        replace(&mut server, ino, &layout).unwrap();
        assert_eq!(server.count(RecordKind::Unconfirmed), 1);
        server.assert_clean();
    }

    #[test]
    fn generations_that_were_not_reserved_or_are_in_use_are_refused() {
        let mut server = TestServer::new(1);
        let (ino, mut layout) = file_with_stale_member(&mut server);
        let former = server.file(ino).layout;
        assert_eq!(replace(&mut server, ino, &layout), Err(FsError::Invalid));
        let next = server.file(ino).next_generation;
        for (component, generation) in layout.components.iter_mut().zip(next..) {
            component.generation = Generation(generation);
        }
        assert_eq!(replace(&mut server, ino, &layout), Err(FsError::Invalid));
        assert_eq!(server.file(ino).layout, former);
        reserve(&mut server, ino, &mut layout);
        assert_eq!(replace(&mut server, ino, &layout), Ok(()));
    }
}
