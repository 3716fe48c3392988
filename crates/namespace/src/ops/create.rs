use crate::driver::OpResult;
use crate::ops::begin_write::{self, PlacementContext};
use crate::ops::open;
use crate::permission;
use crate::requester::Requester;
use crate::steps::{dentry, new_inode};
use crate::view::OpView;
use gupfs_proto::meta::{CreateMode, MetaReplyBody, OpenMode};
use gupfs_proto::{FileKind, FsError, InodeId, Name};

/// open(2) with O_CREAT: creates a regular file with the caller as owner, and opens it whatever its mode is. With O_EXCL the name
/// must not exist, without it an existing file is opened as by `open`. A new name updates the directory's mtime and ctime.
///
/// `for_writing`: the session gets the exclusive write lease of a file that this creates, if there are targets for its objects.
#[allow(clippy::too_many_arguments)] // they are the request's, and each is typed
pub(crate) fn create(
    view: &mut OpView,
    requester: &Requester,
    dir: InodeId,
    name: &Name,
    create_mode: CreateMode,
    exclusive: bool,
    open_mode: OpenMode,
    for_writing: Option<&PlacementContext>,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "create");
    let dentry = dentry::lookup(view, requester.caller, dir, name)?;
    if let Some(entry) = dentry.entry {
        return match entry.kind {
            _ if exclusive => Err(FsError::Exists.into()),
            FileKind::Regular => {
                dentry::target_inode(view, entry)?;
                open::open(view, requester, entry.ino, open_mode)
            }
            FileKind::Directory => Err(FsError::IsDirectory.into()),
            // The name was created after the client's kernel saw that it does not exist: on `Stale` the kernel looks it up again,
            // and follows or opens the new inode.
            FileKind::Symlink
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => Err(FsError::Stale.into()),
        };
    }
    let parent = view.inode(dir)?;
    permission::check_create(&parent, requester.caller)?;
    view.check_growth_allowed()?;
    let mut inode = new_inode::build(
        view,
        requester.caller,
        &parent,
        FileKind::Regular,
        create_mode,
    )?;
    dentry::add_first_name(view, &dentry, &mut inode)?;
    let ino = inode.ino;
    view.add_inode(inode);
    let has_lease = match for_writing {
        Some(context) => begin_write::begin_new(view, &requester.session, context, ino)?,
        None => false,
    };
    let opened = view.inode(ino)?.open_info(true);
    Ok(match has_lease {
        true => MetaReplyBody::WriteBegun {
            opened,
            is_concurrent: false,
        },
        false => MetaReplyBody::Opened(opened),
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{Operation, OriginalResult, RecordKind};
    use gupfs_proto::meta::{
        AccessMode, CreateMode, MetaOp, MetaReplyBody, OpenInfo, OpenMode, RenameMode, SlotSeq,
    };
    use gupfs_proto::{Caller, FileMode, FsError, InodeId, Name, Slot};

    fn create(dir: InodeId, name: Name, mode: u32, exclusive: bool, truncate: bool) -> MetaOp {
        let open = OpenMode {
            access: AccessMode::READ | AccessMode::WRITE,
            truncate,
            kill_privileges: false,
        };
        MetaOp::Create {
            dir,
            name,
            create_mode: CreateMode { mode, umask: 0o022 },
            exclusive,
            open,
        }
    }

    #[test]
    fn a_new_file_is_open_whatever_its_mode_says() {
        let mut server = TestServer::new(2);
        let dir = server.mkdir(&Caller::root(), ROOT, "d", 0o777).unwrap().ino;
        let made = opened(server.request(&user(1000), &create(dir, name("f"), 0o466, true, false)))
            .unwrap();
        assert!(made.created && made.inline.as_deref() == Some(b""));
        assert_eq!(
            (made.attr.mode, made.attr.uid, made.attr.nlink),
            (FileMode(0o444), 1000, 1)
        );
        let again = server.request(&user(1000), &create(dir, name("f"), 0o466, true, false));
        assert_eq!(again, Err(FsError::Exists));
        let denied = server.request(&user(1000), &create(dir, name("f"), 0o466, false, false));
        assert_eq!(denied, Err(FsError::Denied));
        server.assert_clean();
    }

    #[test]
    fn an_existing_file_is_opened_and_truncated_if_requested() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server
            .write_inline(file, gupfs_proto::meta::WritePosition::End, b"bytes")
            .unwrap();
        let kept =
            opened(server.request(&root, &create(ROOT, name("f"), 0o600, false, false))).unwrap();
        assert_eq!(
            (kept.created, kept.inline.as_deref()),
            (false, Some(&b"bytes"[..]))
        );
        let truncated =
            opened(server.request(&root, &create(ROOT, name("f"), 0o600, false, true))).unwrap();
        assert_eq!(
            (truncated.created, truncated.attr.size, truncated.attr.mode),
            (false, 0, FileMode(0o644))
        );
        assert_eq!(
            (truncated.attr.mtime, truncated.attr.ctime),
            (server.now, server.now)
        );
        server.mkdir(&root, ROOT, "d", 0o755).unwrap();
        assert_eq!(
            server.request(&root, &create(ROOT, name("d"), 0o600, false, false)),
            Err(FsError::IsDirectory)
        );
    }

    #[test]
    fn a_create_costs_four_records_and_the_stored_reply() {
        let mut server = TestServer::new(2);
        server.create(&Caller::root(), ROOT, "f", 0o644).unwrap();
        // Entry, directory, inode, usage, reply.
        assert_eq!(server.batch.len(), 5);
        let bytes: usize = server
            .batch
            .iter()
            .map(|(key, value)| key.as_bytes().len() + value.as_ref().map_or(0, |v| v.len()))
            .sum();
        assert!(bytes < 400, "{bytes} bytes for one create");
    }

    #[test]
    fn a_new_file_comes_with_its_write_lease_and_a_repeated_request_grants_none_that_has_ended() {
        let mut server = TestServer::new(2);
        let MetaReplyBody::WriteBegun {
            opened,
            is_concurrent: false,
        } = server.create_for_writing("f")
        else {
            panic!()
        };
        let ino = opened.attr.ino;
        // As a create, and the lease.
        assert_eq!((opened.created, server.batch.len()), (true, 6));
        assert!(!opened.layout.is_empty());
        assert_eq!(server.count(RecordKind::WriteLease), 1);
        assert_eq!(server.file(ino).write_leases, 1);
        assert!(server.follow_ups.is_empty(), "nothing is awaited");
        server.assert_clean();
        // The name exists now.
        let there = opened_of(server.create_for_writing("f"));
        assert_eq!((there.created, there.attr.ino), (false, ino));
        // The test server sends each request again: here the lease has ended before.
        server.replays = false;
        let slot_seq = SlotSeq {
            slot: Slot(9),
            sequence: 1,
        };
        let op = MetaOp::CreateForWriting {
            dir: ROOT,
            name: name("g"),
            create_mode: create_mode(0o644),
            exclusive: true,
            open: open_mode(AccessMode::WRITE),
        };
        let root = Caller::root();
        let ask = |server: &mut TestServer| {
            let effects = server.apply(&root, Some(slot_seq), Operation::Client(&op));
            server.commit(effects.batch);
            effects.reply.unwrap()
        };
        let first = ask(&mut server);
        assert!(matches!(first, MetaReplyBody::WriteBegun { .. }));
        assert_eq!(ask(&mut server), first);
        let ino = server.lookup(&root, ROOT, "g").unwrap().ino;
        server.end_write(ino, report(0, &[]), false).unwrap();
        let late = opened_of(ask(&mut server));
        assert_eq!((late.created, late.attr.ino), (true, ino));
        server.assert_clean();
    }

    fn opened_of(reply: MetaReplyBody) -> OpenInfo {
        let MetaReplyBody::Opened(opened) = reply else {
            panic!("{reply:?}")
        };
        opened
    }

    #[test]
    fn a_file_is_created_without_a_lease_where_no_target_can_take_objects() {
        let mut server = TestServer::new(2);
        server.targets.clear();
        let made = opened_of(server.create_for_writing("f"));
        assert!(made.created && made.layout.is_empty());
        assert_eq!(server.count(RecordKind::WriteLease), 0);
        server.assert_clean();
    }

    #[test]
    fn a_replay_grants_the_lease_that_the_first_execution_granted_and_no_other() {
        let mut first = TestServer::new(2);
        let MetaReplyBody::WriteBegun { opened, .. } = first.create_for_writing("f") else {
            panic!()
        };
        for layout in [Some(opened.layout.clone()), None] {
            let mut server = TestServer::new(2);
            // Its number must have been reserved.
            let other = server
                .create(&Caller::root(), ROOT, "other", 0o644)
                .unwrap();
            server.unlink(&Caller::root(), ROOT, "other").unwrap();
            server.forget(other.ino);
            server.targets.clear();
            server.replays = false;
            server.original = Some(OriginalResult {
                created: Some(opened.attr.ino),
                layout: layout.clone(),
            });
            let reply = server.create_for_writing("f");
            let leases = server.file(opened.attr.ino).write_leases;
            assert_eq!(leases, u32::from(layout.is_some()));
            match layout {
                Some(layout) => {
                    assert!(
                        matches!(reply, MetaReplyBody::WriteBegun { opened, .. } if opened.layout == layout)
                    );
                }
                None => assert!(opened_of(reply).layout.is_empty()),
            }
            server.assert_clean();
        }
    }

    #[test]
    fn nothing_can_be_created_in_a_removed_directory() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.rmdir(&root, ROOT, "d").unwrap();
        assert_eq!(
            server.create(&root, dir, "x", 0o644),
            Err(FsError::NotFound)
        );
        assert_eq!(server.mkdir(&root, dir, "x", 0o755), Err(FsError::NotFound));
        assert_eq!(server.link(&root, file, dir, "x"), Err(FsError::NotFound));
        assert_eq!(
            server.rename(&root, (ROOT, "f"), (dir, "x"), RenameMode::Replace),
            Err(FsError::NotFound)
        );
        assert_eq!(server.lookup(&root, dir, "x"), Err(FsError::NotFound));
        server.forget(dir);
        assert_eq!(server.create(&root, dir, "x", 0o644), Err(FsError::Stale));
        server.assert_clean();
    }

    #[test]
    fn while_only_the_reserve_is_left_growth_is_refused_and_removal_is_allowed() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let (file, dir) = (
            server.create(&root, ROOT, "f", 0o644).unwrap().ino,
            server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino,
        );
        server.create(&root, ROOT, "g", 0o644).unwrap();
        server.growth_allowed = false;
        let full = Err(FsError::NoSpace);
        assert_eq!(server.create(&root, ROOT, "x", 0o644), full);
        assert_eq!(server.mkdir(&root, ROOT, "x", 0o644), full);
        assert_eq!(server.link(&root, file, ROOT, "x"), full);
        assert_eq!(server.set_xattr(&root, file, "user.a", b"1"), full);
        assert_eq!(
            server.write_inline(file, gupfs_proto::meta::WritePosition::End, b"1"),
            Err(FsError::NoSpace)
        );
        assert_eq!(server.begin_write(file), Err(FsError::NoSpace));
        server.truncate(file, 0).unwrap();
        server
            .rename(&root, (ROOT, "f"), (ROOT, "g"), RenameMode::Replace)
            .unwrap();
        server.unlink(&root, ROOT, "g").unwrap();
        server.rmdir(&root, ROOT, "d").unwrap();
        server.forget(file);
        server.forget(dir);
        server.growth_allowed = true;
        assert_eq!(
            server
                .create(&root, ROOT, "x", 0o644)
                .map(|attr| attr.nlink),
            Ok(1)
        );
        server.assert_clean();
    }
}
