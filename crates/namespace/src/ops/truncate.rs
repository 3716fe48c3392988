use crate::driver::OpResult;
use crate::requester::RequestingSession;
use crate::steps::{orphan, privileges, truncation, write_lease};
use crate::view::OpView;
use crate::{flag_checks, permission};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AccessMode, MetaReplyBody};
use gupfs_proto::{Caller, FsError, InodeId};

/// truncate(2), ftruncate(2): the file ends at `to`; added bytes read as zeros. mtime and ctime are updated even if the size does
/// not change. Needs write permission; `by_handle` only needs that the session has the file open for writing (`rights`).
pub(crate) fn truncate(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
    to: u64,
    by_handle: bool,
    kill_privileges: bool,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    orphan::check_orphan_user(view, session, &inode, !by_handle)?;
    if !by_handle {
        permission::check_access(&inode, caller, AccessMode::WRITE)?;
    }
    flag_checks::check_size(&inode)?;
    if to > FILE_SIZE_MAX {
        return Err(FsError::TooLarge.into());
    }
    write_lease::require_revoked(view, session, &inode)?;
    truncation::check_no_unfinished_truncate(file, ino)?;
    truncation::truncate_file(view, session, ino, to)?;
    privileges::kill_after_write(view, caller, ino, kill_privileges)?;
    Ok(MetaReplyBody::Opened(view.inode(ino)?.open_info(false)))
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
