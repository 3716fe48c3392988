use crate::driver::{FollowUp, OpResult};
use crate::view::OpView;
use gupfs_proto::{FsError, InodeId, OstId};

/// The file's objects at these positions, as (component, object index), are on these OSTs from now on: their bytes were copied there. The
/// file has not changed since, and no session writes it.
///
/// # Errors
/// `Invalid` for a position that the layout does not have.
pub(crate) fn move_objects(
    view: &mut OpView,
    ino: InodeId,
    objects: &[(u32, u32, OstId)],
) -> OpResult<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let mut layout = inode.file()?.layout.clone();
    for (component, index, to) in objects {
        let component = layout.components.get_mut(*component as usize);
        let component = component.ok_or(FsError::Invalid)?;
        component.move_object(*index as usize, *to)?;
    }
    // The batch changes the file's data as far as leases go: no session reads or writes by the former layout.
    view.change_file(ino, |inode, file| {
        file.layout = layout;
        inode.data_version += 1;
    })?;
    // The former OST may be removed after this.
    view.add_follow_up(FollowUp::AwaitDurable);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::BackgroundOp;
    use crate::testing::*;
    use gupfs_proto::lease::LeaseKey;
    use gupfs_proto::{Caller, FsError, OstId};

    #[test]
    fn an_object_is_on_the_other_ost_and_no_session_reads_by_the_former_layout() {
        let mut server = TestServer::new(1);
        let caller = Caller::root();
        let ino = server.create(&caller, ROOT, "f", 0o644).unwrap().ino;
        server.begin_write(ino).unwrap();
        server.end_write(ino, report(9, &[(0, 0)]), false).unwrap();
        let (before, presence) = (server.file(ino).layout, server.presence(ino));
        let other = (0..4).map(OstId);
        let other = other.filter(|ost| *ost != before.components[0].targets[0]);
        let other = other.max().unwrap();
        server.changed_leases.clear();
        let moved = BackgroundOp::MoveObjects {
            ino,
            objects: vec![(0, 0, other)],
        };
        server.run_background(&moved).unwrap();
        let after = server.file(ino).layout;
        assert_eq!(after.components[0].targets[0], other);
        assert_eq!(
            after.components[0].generation,
            before.components[0].generation
        );
        assert_eq!(server.presence(ino), presence);
        assert!(server.changed_leases.contains(&LeaseKey::Data(ino)));
        server.assert_clean();
    }

    #[test]
    fn a_position_without_an_object_is_refused_and_nothing_changes() {
        let mut server = TestServer::new(1);
        let ino = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(ino).unwrap();
        server.end_write(ino, report(9, &[(0, 0)]), false).unwrap();
        let before = server.file(ino).layout;
        for (component, index) in [(99, 0), (0, 99)] {
            let moved = BackgroundOp::MoveObjects {
                ino,
                objects: vec![(0, 0, OstId(3)), (component, index, OstId(3))],
            };
            let refused = server.run_background(&moved);
            assert_eq!(refused.unwrap_err(), FsError::Invalid);
            assert_eq!(server.file(ino).layout, before);
        }
    }
}
