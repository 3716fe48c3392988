//! Damage to counts and to records of inodes, sessions and shards.

use super::*;
use crate::StoredReply;
use expect_test::expect;
use gupfs_proto::{FileOffset, Slot};

#[test]
fn wrong_counts_are_found_and_corrected() {
    check_damage(
        |tree| {
            tree.server
                .edit(tree.dir, |inode| inode.directory_mut().unwrap().entries = 9);
            tree.server.edit(tree.below, |inode| {
                inode.directory_mut().unwrap().subdirs = 1
            });
            tree.server
                .edit(tree.file, |inode| (inode.names, inode.xattrs) = (2, 0));
            tree.server
                .edit(tree.orphan, |inode| inode.orphan_records = 0);
            tree.server.edit(tree.linked, |inode| {
                inode.file_mut().unwrap().write_leases = 2
            });
            let key = RecordKey::usage(VirtualShard(0), VolumeId(0));
            tree.server.records.insert(
                key,
                Usage {
                    inodes: 3,
                    purging: 1,
                }
                .encode(),
            );
        },
        expect![[r#"
            directory i1000000000100 has 3 entries, 1 of them directories; its inode records other counts
            directory i1000000000101 has 1 entries, 0 of them directories; its inode records other counts
            inode i1000000000102 records 2 names, it has 1
            inode i1000000000102 has 1 extended attributes with 7 bytes of names; its inode records other counts
            inode i1000000000103 has 0 orphan records and 1 write leases; its inode records other counts
            inode i1000000000104 has 1 orphan records and 0 write leases; its inode records other counts
            vs0 records Usage { inodes: 3, purging: 1 } for vol0, it has Usage { inodes: 1, purging: 0 }"#]],
        expect![[""]],
    );
}

#[test]
fn dangling_records_are_found_and_removed() {
    let nobody = InodeId(0x999);
    let tree = check_damage(
        |tree| {
            let link = tree.server.records[&key_of_entry(tree, tree.dir, "file")].clone();
            let dangling = [
                (
                    RecordKey::xattr(nobody, b"user.x"),
                    XattrRecord(Bytes::new()).encode(),
                ),
                (
                    RecordKey::back_link(nobody, ROOT, 5, &name("x")),
                    BackLink.encode(),
                ),
                (RecordKey::entry(nobody, 5, &name("x")), link),
                (
                    RecordKey::reply(VirtualShard(1), SessionId(99), Slot(0)),
                    StoredReply {
                        sequence: 1,
                        digest: 2,
                        summary: crate::ReplySummary::Done,
                        seq: gupfs_proto::Seq(1),
                    }
                    .encode(),
                ),
            ];
            tree.server.records.extend(dangling);
        },
        expect![[r#"
            BackLink { ino: i999, dir: i1, hash: 5, name: "x" }: the inode, directory or session that this record belongs to does not exist
            Entry { dir: i999, hash: 5, name: "x" }: the inode, directory or session that this record belongs to does not exist
            Xattr { ino: i999, name: [117, 115, 101, 114, 46, 120] }: the inode, directory or session that this record belongs to does not exist
            Reply { shard: vs1, session: session99, slot: slot0 }: the inode, directory or session that this record belongs to does not exist"#]],
        expect![[""]],
    );
    assert!(
        tree.server
            .records
            .keys()
            .all(|key| !format!("{key:?}").contains("i999"))
    );
}

#[test]
fn orphans_of_dead_sessions_are_removed_and_write_leases_wait_for_a_start() {
    let tree = check_damage(
        |tree| {
            let session = tree.server.session;
            tree.server.records.remove(&RecordKey::session(session));
            let replies = tree
                .server
                .records
                .keys()
                .filter(|key| matches!(key.parse(), Some(ParsedKey::Reply { .. })));
            for key in replies.cloned().collect::<Vec<_>>() {
                tree.server.records.remove(&key);
            }
        },
        expect![[r#"
            inode i1000000000103 has a write lease of session 7, which does not exist
            inode i1000000000104 is an orphan of session 7, which does not exist"#]],
        expect!["inode i1000000000103 has a write lease of session 7, which does not exist"],
    );
    assert!(
        !tree
            .server
            .records
            .contains_key(&RecordKey::inode(tree.orphan))
    );
}

#[test]
fn a_leaked_inode_is_found_and_removed_with_its_objects() {
    let tree = check_damage(
        |tree| {
            let session = tree.server.session;
            tree.server
                .records
                .remove(&RecordKey::orphan(tree.orphan, session));
            tree.server
                .edit(tree.orphan, |inode| inode.orphan_records = 0);
        },
        expect![
            "inode i1000000000104 was unlinked and is not an orphan of any session, but still exists"
        ],
        expect![[""]],
    );
    assert!(
        !tree
            .server
            .records
            .contains_key(&RecordKey::inode(tree.orphan))
    );
}

#[test]
fn inode_numbers_that_would_be_reused_are_found_and_skipped() {
    let mut tree = check_damage(
        |tree| {
            let key = RecordKey::inode_counter(tree.dir.shard());
            tree.server
                .records
                .insert(key, InodeCounter { next: 256 }.encode());
        },
        expect!["vs1 would assign inode numbers from 256 again, 260 is in use"],
        expect![[""]],
    );
    tree.server.machine = crate::ShardMachine::new();
    tree.server
        .create(&Caller::root(), tree.dir, "new", 0o644)
        .unwrap();
    tree.server.assert_clean();
}

#[test]
fn unrepairable_problems_are_found_and_not_changed() {
    check_damage(
        |tree| {
            // Each of two directories has the other as its parent.
            let (dir, below) = (tree.dir, tree.below);
            tree.server
                .edit(dir, |inode| inode.parent.as_mut().unwrap().dir = below);
            tree.server.edit(tree.linked, |inode| {
                let file = inode.file_mut().unwrap();
                file.layout.components[0].from = FileOffset(9);
                file.truncating = Some(crate::UnfinishedTruncate { to: 5, number: 9 });
            });
        },
        expect![[r#"
            inode i1000000000103 has an invalid layout
            inode i1000000000100 has a parent or back links that do not match its entries
            inode i1000000000103 waits for a truncate that has no record
            directory i1000000000100 is not below the root: its parents form a loop"#]],
        expect![[r#"
            inode i1000000000103 has an invalid layout
            inode i1000000000100 has a parent or back links that do not match its entries
            inode i1000000000103 waits for a truncate that has no record
            directory i1000000000100 is not below the root: its parents form a loop"#]],
    );
}

#[test]
fn an_unreadable_inode_record_causes_no_repairs() {
    check_damage(
        |tree| {
            let records = &mut tree.server.records;
            records.insert(RecordKey::inode(tree.dir), Bytes::from_static(&[9]));
            records.insert(RecordKey::format(), Bytes::from_static(&[7]));
            for key in [&b"\0\0?"[..], &[0xff; 3], &[0], b"\0\x09Ix"] {
                records.insert(RecordKey::from_bytes(key), Bytes::new());
            }
            // Not repaired while there are unreadable records.
            tree.server.edit(tree.below, |inode| {
                inode.directory_mut().unwrap().entries = 7
            });
        },
        expect![[r#"
            Inode(i1000000000100): the record has version 9, which this program does not know: start the newer program
            unknown key Key([00])
            unknown key Key([00, 00, 3f])
            Format: the record has version 7, which this program does not know: start the newer program
            unknown key Key([00, 09, 49, 78])
            unknown key Key([ff, ff, ff])
            directory i1000000000101 has 1 entries, 0 of them directories; its inode records other counts"#]],
        expect![[r#"
            Inode(i1000000000100): the record has version 9, which this program does not know: start the newer program
            unknown key Key([00])
            unknown key Key([00, 00, 3f])
            Format: the record has version 7, which this program does not know: start the newer program
            unknown key Key([00, 09, 49, 78])
            unknown key Key([ff, ff, ff])
            directory i1000000000101 has 1 entries, 0 of them directories; its inode records other counts"#]],
    );
}
