use crate::driver::{OpResult, Prerequisite};
use crate::key::{PurgeId, RecordKey};
use crate::record::{FileBody, Inode, UnfinishedTruncate, WriteLease};
use crate::view::OpView;
use crate::{flag_checks, ops, orphan, permission, purge, write_lease};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AccessMode, MetaReplyBody};
use gupfs_proto::{FsError, InodeId, Layout};

/// truncate(2), ftruncate(2): the file ends at `to`; added bytes read as zeros. mtime and ctime are updated even if the size does
/// not change. Needs write permission; `by_handle` only needs that the session has the file open for writing (`rights`).
pub(crate) fn truncate(
    view: &mut OpView,
    ino: InodeId,
    to: u64,
    by_handle: bool,
    kill_privileges: bool,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    orphan::check_orphan_user(view, &inode, !by_handle)?;
    if !by_handle {
        permission::check_access(&inode, view.ctx.caller, AccessMode::WRITE)?;
    }
    flag_checks::check_size(&inode)?;
    if to > FILE_SIZE_MAX {
        return Err(FsError::TooLarge.into());
    }
    write_lease::require_revoked(view, &inode)?;
    check_no_unfinished_truncate(file, ino)?;
    truncate_file(view, ino, to)?;
    ops::kill_privileges::after_write(view, ino, kill_privileges)?;
    let opened = ops::open_reply(&*view.inode(ino)?, false);
    Ok(MetaReplyBody::Opened(opened))
}

/// Any access to a file's bytes waits until an unfinished truncate of its objects is done.
pub(crate) fn check_no_unfinished_truncate(file: &FileBody, ino: InodeId) -> OpResult<()> {
    match file.truncating {
        None => Ok(()),
        Some(UnfinishedTruncate { number, .. }) => {
            Err(Prerequisite::Truncate(PurgeId { ino, number }).into())
        }
    }
}

/// Truncates the file to `to`. No truncate of its objects is unfinished.
///
/// A truncate to zero is one batch whatever the file's size: the file loses its layout, the objects are removed later, and the
/// next write creates objects of other generations. This is not possible while other sessions may have the file open, because
/// they would continue to read the old objects. In a truncate to another size, the objects are truncated to their lengths before
/// any session reads or writes again: otherwise old bytes would become visible when the file grows again.
pub(crate) fn truncate_file(view: &mut OpView, ino: InodeId, to: u64) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    let number = file.next_generation;
    let (mut drops_layout, mut unfinished) = (false, None);
    if to == 0 && view.ctx.is_only_session && !file.layout.is_empty() {
        drops_layout = true;
        purge::remove_objects(view, &inode, number, file.layout.clone());
    } else if needs_object_truncate(view, &inode, to)?
        && purge::truncate_objects(view, &inode, number, &file.layout, to)
    {
        unfinished = Some(UnfinishedTruncate { to, number });
    }
    let lease = RecordKey::write_lease(ino, view.ctx.session);
    // A lease holder of the old objects has nothing to report any more: its lease ends, and its next write acquires a new one.
    let ends_lease =
        drops_layout && file.write_leases > 0 && view.get::<WriteLease>(&lease)?.is_some();
    if ends_lease {
        view.remove(lease);
    }
    let now = view.ctx.now;
    view.change_file(ino, |inode, file| {
        inode.touch_mtime(now);
        // Until the objects are truncated, other sessions see the old size: those that have the layout can still read the bytes.
        if unfinished.is_none() {
            inode.size = to;
        }
        inode.data_version += 1;
        let keep = file
            .inline
            .len()
            .min(usize::try_from(to).unwrap_or(usize::MAX));
        file.inline.truncate(keep);
        if drops_layout {
            file.layout = Layout::default();
            file.next_generation = number + 1;
            file.write_leases -= u32::from(ends_lease);
            inode.blocks = 0;
        }
        if unfinished.is_some() {
            file.truncating = unfinished;
            file.next_generation = number + 1;
        }
    })
}

/// Whether objects may hold bytes beyond `to`. If `to` is the file's size, they may when the request comes from the lease holder:
/// an OST stored bytes beyond the end of file in a write that failed, and then failed to truncate them.
fn needs_object_truncate(view: &OpView, inode: &Inode, to: u64) -> OpResult<bool> {
    if to != inode.size || inode.file()?.write_leases == 0 {
        return Ok(to < inode.size);
    }
    let lease = RecordKey::write_lease(inode.ino, view.ctx.session);
    Ok(view.get::<WriteLease>(&lease)?.is_some())
}

#[cfg(test)]
mod tests {
    use crate::rights::OpenRights;
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, PurgeAction, PurgeId, RecordKind};
    use gupfs_proto::capability::Rights;
    use gupfs_proto::limits::FILE_SIZE_MAX;
    use gupfs_proto::meta::{AccessMode, MetaOp, OpenMode};
    use gupfs_proto::{Caller, FsError, InodeId};

    fn striped(server: &mut TestServer, size: u64) -> InodeId {
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, report(size, &[(0, 0), (1, 0), (1, 1)]), false)
            .unwrap();
        file
    }

    #[test]
    fn truncate_to_zero_is_one_batch_and_the_objects_are_removed_later() {
        for shards in [1, 64] {
            let mut server = TestServer::new(shards);
            let file = striped(&mut server, 6 << 20);
            let old = server.file(file).layout;
            let truncated = server.truncate(file, 0).unwrap();
            assert_eq!(
                (
                    truncated.attr.size,
                    truncated.attr.blocks,
                    truncated.layout.is_empty()
                ),
                (0, 0, true)
            );
            assert_eq!(truncated.inline.as_deref(), Some(&b""[..]));
            let [FollowUp::Purge { id, objects }] = &server.follow_ups.clone()[..] else {
                panic!("{:?}", server.follow_ups)
            };
            assert_eq!(objects.len(), 3);
            assert_eq!(server.statfs().purging, 1);
            let new = server.begin_write(file).unwrap().layout;
            assert_ne!(new.components[0].generation, old.components[0].generation);
            server.assert_clean();
            server
                .run_background(&BackgroundOp::PurgeDone { id: *id })
                .unwrap();
            assert_eq!(
                (server.statfs().purging, server.count(RecordKind::Purge)),
                (0, 0)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn after_a_truncate_opens_wait_until_the_objects_are_truncated() {
        let mut server = TestServer::new(2);
        let file = striped(&mut server, 6 << 20);
        server.truncates_at_once = false;
        let to = (4 << 20) + 5;
        assert_eq!(server.truncate(file, to).unwrap().attr.size, to);
        let [FollowUp::Truncate { id, objects }] = &server.follow_ups.clone()[..] else {
            panic!("{:?}", server.follow_ups)
        };
        let lengths: Vec<u64> = objects.iter().map(|(.., to)| *to).collect();
        assert_eq!(lengths, [4 << 20, 5, 0]);
        server.assert_clean();
        // An open waits for the truncate (the test's driver finishes it when it is needed).
        server
            .open(&Caller::root(), file, AccessMode::READ)
            .unwrap();
        assert_eq!(
            (
                server.pending_truncates.len(),
                server.count(RecordKind::Purge)
            ),
            (0, 0)
        );
        assert_eq!(server.getattr(file).unwrap().blocks, 8);
        let after = PurgeId {
            number: id.number + 1,
            ..*id
        };
        server
            .run_background(&BackgroundOp::TruncateDone {
                id: *id,
                blocks: 99,
            })
            .unwrap();
        server.truncate(file, 1).unwrap();
        assert_eq!(server.pending_truncates, [after]);
        server.truncate(file, 0).unwrap();
        server.assert_clean();
    }

    #[test]
    fn a_truncate_outlives_its_file() {
        let mut server = TestServer::new(2);
        let file = striped(&mut server, 6 << 20);
        server.truncates_at_once = false;
        server.truncate(file, 7).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        server.forget(file);
        assert_eq!(
            (server.count(RecordKind::Purge), server.getattr(file)),
            (2, Err(FsError::Stale))
        );
        server.finish_truncate(server.pending_truncates[0]);
        assert_eq!(server.count(RecordKind::Purge), 1);
        let actions: Vec<PurgeAction> = server
            .purges()
            .into_iter()
            .map(|(_, purge)| purge.action)
            .collect();
        assert_eq!(actions, [PurgeAction::Remove]);
        server.assert_clean();
    }

    #[test]
    fn truncate_to_zero_ends_the_write_lease() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, report(100, &[(0, 0)]), true)
            .unwrap();
        let how = OpenMode {
            access: AccessMode::empty(),
            truncate: true,
            kill_privileges: false,
        };
        let truncated = opened(server.request(
            &Caller::root(),
            &MetaOp::Open {
                ino: file,
                open: how,
            },
        ))
        .unwrap();
        assert!(truncated.layout.is_empty());
        assert_eq!(
            (
                server.count(RecordKind::WriteLease),
                server.file(file).write_leases
            ),
            (0, 0)
        );
        let late = server.end_write(file, report(100, &[(0, 0)]), false);
        assert!(matches!(late, Err(FsError::Malformed(_))));
        server.assert_clean();
    }

    #[test]
    fn growing_changes_only_the_size() {
        let mut server = TestServer::new(1);
        let file = striped(&mut server, 6 << 20);
        let grown = server.truncate(file, FILE_SIZE_MAX).unwrap();
        assert_eq!(
            (grown.attr.size, server.follow_ups.len()),
            (FILE_SIZE_MAX, 0)
        );
        assert_eq!(
            server.truncate(file, FILE_SIZE_MAX + 1),
            Err(FsError::TooLarge)
        );
    }

    #[test]
    fn truncate_by_path_needs_write_permission_and_by_handle_an_open_file() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        let truncate = |by_handle| MetaOp::Truncate {
            ino: file,
            to: 5,
            by_handle,
            kill_privileges: false,
        };
        assert_eq!(
            server.request(&user(1000), &truncate(false)),
            Err(FsError::Denied)
        );
        for rights in [Rights::empty(), Rights::READ] {
            server.open_rights = OpenRights::new(vec![(file, rights), (ROOT, Rights::all())]);
            let refused = server.request(&user(1000), &truncate(true));
            assert_eq!(refused, Err(FsError::Denied));
        }
        server.open_rights = OpenRights::new(vec![(file, Rights::all())]);
        server.request(&user(1000), &truncate(true)).unwrap();
        assert_eq!(server.truncate(ROOT, 5), Err(FsError::IsDirectory));
    }
}
