//! The keys that single operations change. The property test of all operations is in `testing`.

use crate::testing::*;
use crate::{BackgroundOp, DirectoryBody, FileBody, Inode, Record, RecordKey, UnfinishedTruncate};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::lease::LeaseKey;
use gupfs_proto::meta::{MetaOp, RenameMode, SetAttr, SetTime, WritePosition};
use gupfs_proto::{Caller, FsError, InodeId, Presence, Timestamp};
use std::collections::BTreeSet;

use LeaseKey::{Attributes, Data};

/// ROOT with the file `f` and the directory `d`.
fn server() -> (TestServer, InodeId, InodeId) {
    let mut server = TestServer::new(2);
    let root = Caller::root();
    let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
    let dir = server.mkdir(&root, ROOT, "d", 0o755).unwrap().ino;
    (server, file, dir)
}

/// The keys that a request changes.
fn changed<T>(
    server: &mut TestServer,
    request: impl FnOnce(&mut TestServer) -> Result<T, FsError>,
) -> BTreeSet<LeaseKey> {
    server.changed_leases.clear();
    if let Err(error) = request(server) {
        panic!("{error:?}");
    }
    std::mem::take(&mut server.changed_leases)
}

#[test]
fn a_name_that_is_added_moved_or_removed_changes_itself_its_directory_and_its_inode() {
    let (mut server, file, dir) = server();
    let (root, parent) = (&Caller::root(), Attributes(ROOT));
    let in_root = |server: &TestServer, text| server.name_key(ROOT, text);

    let mut new = InodeId(0);
    let keys = changed(&mut server, |server| {
        new = server.create(root, ROOT, "g", 0o644)?.ino;
        Ok(())
    });
    let of_new = [Attributes(new), Data(new)];
    let expected = [in_root(&server, "g"), parent, of_new[0], of_new[1]];
    assert_eq!(keys, expected.into());

    let keys = changed(&mut server, |server| server.link(root, file, ROOT, "l"));
    let linked = [in_root(&server, "l"), parent, Attributes(file)];
    assert_eq!(keys, linked.into());
    // Another name is left: the bytes stay open to everybody.
    let keys = changed(&mut server, |server| server.unlink(root, ROOT, "l"));
    assert_eq!(keys, linked.into());
    let keys = changed(&mut server, |server| server.unlink(root, ROOT, "f"));
    let removed = [in_root(&server, "f"), parent, Attributes(file), Data(file)];
    assert_eq!(keys, removed.into());

    let replace = RenameMode::Replace;
    let keys = changed(&mut server, |server| {
        server.rename(root, (ROOT, "g"), (dir, "h"), replace)
    });
    let names = [in_root(&server, "g"), server.name_key(dir, "h")];
    let moved = [names[0], names[1], parent, Attributes(dir), of_new[0]];
    assert_eq!(keys, moved.into());
}

#[test]
fn a_replaced_file_can_no_longer_be_opened_by_its_data() {
    let (mut server, file, _) = server();
    let root = &Caller::root();
    let new = server.create(root, ROOT, "g", 0o644).unwrap().ino;
    let names = [server.name_key(ROOT, "f"), server.name_key(ROOT, "g")];
    let keys = changed(&mut server, |server| {
        server.rename(root, (ROOT, "g"), (ROOT, "f"), RenameMode::Replace)
    });
    let inodes = [
        Attributes(ROOT),
        Attributes(new),
        Attributes(file),
        Data(file),
    ];
    assert_eq!(keys, names.into_iter().chain(inodes).collect());
}

#[test]
fn access_times_alone_change_nothing() {
    let (mut server, file, _) = server();
    let report = SetAttr {
        atime: Some(SetTime::To(Timestamp::new(5_000, 0))),
        ctime: Some(Timestamp::new(1, 0)),
        ..SetAttr::default()
    };
    server.now = Timestamp::new(9_000, 0);
    let before = server.getattr(file).unwrap().atime;
    let root = &Caller::root();
    let keys = changed(&mut server, |server| server.setattr(root, file, report));
    assert_eq!(keys, [].into());
    assert!(server.getattr(file).unwrap().atime > before);
    // utimensat(2) updates ctime.
    let both = SetAttr {
        atime: Some(SetTime::Now),
        ..SetAttr::default()
    };
    let keys = changed(&mut server, |server| server.setattr(root, file, both));
    assert_eq!(keys, [Attributes(file)].into());
}

#[test]
fn attributes_change_by_modes_extended_attributes_and_access_lists() {
    let (mut server, file, dir) = server();
    let root = &Caller::root();
    for ino in [file, dir] {
        let mode = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        let keys = changed(&mut server, |server| server.setattr(root, ino, mode));
        assert_eq!(keys, [Attributes(ino)].into());
        for name in ["user.a", "security.b"] {
            let keys = changed(&mut server, |server| {
                server.set_xattr(root, ino, name, b"v")
            });
            assert_eq!(keys, [Attributes(ino)].into(), "{name}");
            let keys = changed(&mut server, |server| server.remove_xattr(root, ino, name));
            assert_eq!(keys, [Attributes(ino)].into(), "{name}");
        }
    }
}

#[test]
fn a_write_changes_attributes_and_bytes() {
    let (mut server, file, _) = server();
    let both = [Attributes(file), Data(file)];
    let keys = changed(&mut server, |server| {
        server.write_inline(file, WritePosition::Offset(0), b"text")
    });
    assert_eq!(keys, both.into());
    // The same length: only mtime and bytes differ.
    let keys = changed(&mut server, |server| {
        server.write_inline(file, WritePosition::Offset(0), b"next")
    });
    assert_eq!(keys, both.into());
    let keys = changed(&mut server, |server| server.truncate(file, 2));
    assert_eq!(keys, both.into());
}

#[test]
fn a_write_lease_that_is_acquired_reported_or_released_changes_attributes_and_bytes() {
    let (mut server, file, _) = server();
    let both = [Attributes(file), Data(file)];
    let keys = changed(&mut server, |server| server.begin_write(file));
    assert_eq!(keys, both.into());
    let written = report(6 << 20, &[(0, 0)]);
    let keys = changed(&mut server, |server| {
        server.end_write(file, written.clone(), true)
    });
    assert_eq!(keys, both.into());
    let keys = changed(&mut server, |server| server.end_write(file, written, false));
    assert_eq!(keys, both.into());
}

#[test]
fn an_orphan_is_closed_to_sessions_that_are_not_recorded_as_having_it_open() {
    let (mut server, file) = leased_file();
    server.end_write(file, report(9, &[(0, 0)]), false).unwrap();
    let keys = changed(&mut server, |server| {
        server.unlink(&Caller::root(), ROOT, "f")
    });
    assert!(keys.contains(&Data(file)) && keys.contains(&Attributes(file)));
    let recorded = BackgroundOp::RecordOrphan {
        ino: file,
        session: OTHER_SESSION,
    };
    let forgotten = |session| BackgroundOp::ForgetOrphan { ino: file, session };
    let asked = forgotten(crate::UNASKED_SESSIONS);
    for op in [recorded, asked, forgotten(server.session)] {
        let keys = changed(&mut server, |server| server.run_background(&op));
        assert_eq!(keys, [Data(file)].into(), "{op:?}");
    }
    let keys = changed(&mut server, |server| {
        server.run_background(&forgotten(OTHER_SESSION))
    });
    assert_eq!(
        keys,
        [Attributes(file), Data(file)].into(),
        "the file is gone"
    );
}

#[test]
fn sessions_and_replies_change_nothing_that_is_leased() {
    let (mut server, ..) = server();
    let keys = changed(&mut server, |server| {
        server.session = OTHER_SESSION;
        let client = "other".into();
        server.request(&Caller::root(), &MetaOp::OpenSession { client })?;
        server.request(&Caller::root(), &MetaOp::CloseSession)
    });
    assert_eq!(keys, [].into());
}

/// The keys that a change of an inode's record breaks.
fn changed_by(
    (server, ino): (&TestServer, InodeId),
    change: impl FnOnce(&mut Inode),
) -> Vec<LeaseKey> {
    let mut inode = server.inode(ino);
    change(&mut inode);
    server.changes_of(&vec![(RecordKey::inode(ino), Some(inode.encode()))])
}

#[test]
fn a_difference_of_an_inode_breaks_the_leases_that_cover_it() {
    let (mut server, file, dir) = server();
    server
        .write_inline(file, WritePosition::Offset(0), b"text")
        .unwrap();
    let of = (&server, file);
    let (attributes, data, both) = (
        [Attributes(file)],
        [Data(file)],
        [Attributes(file), Data(file)],
    );
    let body = |inode: &mut Inode, change: fn(&mut FileBody)| change(inode.file_mut().unwrap());

    // Nobody sees these, or they are excepted.
    assert_eq!(changed_by(of, |inode| inode.change += 1), []);
    assert_eq!(changed_by(of, |inode| inode.atime.secs += 1), []);
    assert_eq!(changed_by(of, |inode| inode.orphan_records += 1), []);
    assert_eq!(
        changed_by(of, |inode| body(inode, |file| file.write_leases += 1)),
        []
    );
    assert_eq!(
        changed_by(of, |inode| body(inode, |file| file.next_generation += 1)),
        []
    );

    assert_eq!(changed_by(of, |inode| inode.mode.0 ^= 1), attributes);
    assert_eq!(changed_by(of, |inode| inode.uid += 1), attributes);
    assert_eq!(changed_by(of, |inode| inode.names += 1), attributes);
    assert_eq!(changed_by(of, |inode| inode.mtime.nanos ^= 1), attributes);
    assert_eq!(
        changed_by(of, |inode| inode.flags = InodeFlags::IMMUTABLE),
        attributes
    );
    assert_eq!(changed_by(of, |inode| inode.xattrs += 1), attributes);
    let label = (xattr("security.a"), bytes::Bytes::from_static(b"v"));
    assert_eq!(
        changed_by(of, |inode| inode.security.push(label)),
        attributes
    );
    assert_eq!(
        changed_by(of, |inode| body(inode, |file| file.linkable = true)),
        attributes
    );

    assert_eq!(changed_by(of, |inode| inode.data_version += 1), data);
    let other = |file: &mut FileBody| file.inline = bytes::Bytes::from_static(b"next");
    assert_eq!(changed_by(of, |inode| body(inode, other)), data);
    let truncating = |file: &mut FileBody| {
        file.truncating = Some(UnfinishedTruncate { to: 1, number: 1 });
    };
    assert_eq!(changed_by(of, |inode| body(inode, truncating)), data);

    assert_eq!(changed_by(of, |inode| inode.size += 1), both);
    assert_eq!(changed_by(of, |inode| inode.names = 0), both);
    // The blocks of stat(2) follow from the length of the inline bytes.
    let longer = |file: &mut FileBody| file.inline = vec![1; 600].into();
    assert_eq!(changed_by(of, |inode| body(inode, longer)), both);

    let of_dir = |change: fn(&mut DirectoryBody)| {
        changed_by((&server, dir), |inode| {
            change(inode.directory_mut().unwrap())
        })
    };
    assert_eq!(of_dir(|dir| dir.entries += 1), [Attributes(dir)]);
    assert_eq!(of_dir(|dir| dir.salt += 1), [Attributes(dir)]);
}

#[test]
fn a_new_presence_of_an_object_breaks_the_leases_on_data() {
    let (mut server, file) = leased_file();
    server.end_write(file, report(9, &[]), true).unwrap();
    let present = |inode: &mut Inode| {
        let layout = &mut inode.file_mut().unwrap().layout;
        layout.components[0].presence.set(0, Presence::Present);
    };
    assert_eq!(changed_by((&server, file), present), [Data(file)]);
}

#[test]
fn a_record_that_is_not_in_memory_counts_as_different() {
    let (server, file, _) = server();
    let record = server.records[&RecordKey::inode(file)].clone();
    let batch = vec![(RecordKey::inode(file), Some(record))];
    assert_eq!(server.changes_of(&batch), []);
    let both = [Attributes(file), Data(file)];
    let cold = crate::leases::changes_of(&batch, &ColdRecords);
    assert_eq!(cold, both);
}
