//! Each class of damage is planted and found, and what can be repaired is.

use super::*;
use crate::testing::*;
use crate::{ChoreOp, Reply};
use expect_test::{Expect, expect};
use gupfs_proto::meta::WriteAt;
use gupfs_proto::{Caller, FileOffset, Slot};

/// A small tree with one of everything.
struct Tree {
    server: Server,
    dir: InodeId,
    below: InodeId,
    file: InodeId,
    linked: InodeId,
    orphan: InodeId,
}

fn tree() -> Tree {
    let mut server = Server::new(2);
    let root = Caller::root();
    let dir = server.mkdir(&root, ROOT, "dir", 0o755).unwrap().ino;
    let below = server.mkdir(&root, dir, "below", 0o755).unwrap().ino;
    let file = server.create(&root, dir, "file", 0o644).unwrap().ino;
    server.write_inline(file, WriteAt::End, b"bytes").unwrap();
    server.set_xattr(&root, file, "user.a", b"1").unwrap();
    let linked = server.create(&root, dir, "one", 0o644).unwrap().ino;
    server.link(&root, linked, below, "two").unwrap();
    server.begin_write(linked).unwrap();
    server
        .end_write(linked, written(100, &[(0, 0)]), true)
        .unwrap();
    let orphan = server.create(&root, dir, "gone", 0o644).unwrap().ino;
    server.unlink(&root, dir, "gone").unwrap();
    server.assert_clean();
    Tree {
        server,
        dir,
        below,
        file,
        linked,
        orphan,
    }
}

fn show(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
    lines.join("\n")
}

/// Plants damage, expects exactly these problems, repairs, and expects what is left.
fn check_damage(plant: impl FnOnce(&mut Tree), found: Expect, left: Expect) -> Tree {
    let mut tree = tree();
    plant(&mut tree);
    found.assert_eq(&show(&tree.server.check().problems));
    for _ in 0..4 {
        for problem in tree.server.check().repairs() {
            tree.server
                .chore(&ChoreOp::Repair(problem.clone()))
                .unwrap();
        }
    }
    left.assert_eq(&show(&tree.server.check().problems));
    tree
}

fn key_of_entry(tree: &Tree, dir: InodeId, text: &str) -> Key {
    let salt = tree.server.directory(dir).salt;
    Key::entry(dir, name_hash(salt, &name(text)), &name(text))
}

#[test]
fn an_entry_without_its_inode_is_found_and_goes() {
    let tree = check_damage(
        |tree| {
            tree.server
                .records
                .remove(&Key::xattr(tree.file, b"user.a"));
            tree.server.records.remove(&Key::inode(tree.file));
        },
        expect![[r#"
            directory i1000000000100 names "file", inode i1000000000102, which is not there
            vs1 counts Usage { inodes: 5, purging: 0 } for vol0, it has Usage { inodes: 4, purging: 0 }"#]],
        expect![[""]],
    );
    assert_eq!(tree.server.directory(tree.dir).entries, 2);
}

#[test]
fn an_inode_without_an_entry_is_found_and_gets_a_name_in_the_root() {
    let mut tree = check_damage(
        |tree| {
            let key = key_of_entry(tree, tree.dir, "file");
            tree.server.records.remove(&key);
        },
        expect![[r#"
            directory i1000000000100 has 2 entries, 1 of them directories, and counts otherwise
            inode i1000000000102 has no name and is not held open"#]],
        expect![[""]],
    );
    let text = format!("lost-{:x}", tree.file.0);
    let found = tree.server.lookup(&Caller::root(), ROOT, &text).unwrap();
    assert_eq!((found.ino, found.nlink, found.size), (tree.file, 1, 5));
}

#[test]
fn a_salvage_names_what_has_no_name_in_a_directory_that_is_roots_alone() {
    for has_one in [false, true] {
        let mut tree = tree();
        if has_one {
            let root = Caller::root();
            tree.server.mkdir(&root, ROOT, "lost+found", 0o755).unwrap();
        }
        for (dir, text) in [(tree.dir, "file"), (tree.dir, "below")] {
            let key = key_of_entry(&tree, dir, text);
            tree.server.records.remove(&key);
        }
        let problems = tree.server.check().problems;
        for problem in problems {
            let chore = match problem {
                Problem::InodeWithoutEntry { ino } => ChoreOp::NameInLostFound { ino },
                other => ChoreOp::Repair(other),
            };
            tree.server.chore(&chore).unwrap();
        }
        tree.server.assert_clean();
        let root = Caller::root();
        let dir = tree.server.lookup(&root, ROOT, "lost+found").unwrap();
        assert_eq!(dir.mode.0 & 0o777, if has_one { 0o755 } else { 0o700 });
        for ino in [tree.file, tree.below] {
            let name = format!("{:x}", ino.0);
            let found = tree.server.lookup(&root, dir.ino, &name).unwrap();
            assert_eq!(found.ino, ino);
        }
    }
}

#[test]
fn an_entry_where_no_lookup_finds_it_is_moved_there() {
    let mut tree = check_damage(
        |tree| {
            for (dir, text, ino) in [
                (tree.dir, "file", tree.file),
                (tree.below, "two", tree.linked),
            ] {
                let key = key_of_entry(tree, dir, text);
                let entry = tree.server.records.remove(&key).unwrap();
                tree.server
                    .records
                    .insert(Key::entry(dir, 77, &name(text)), entry);
                let Some(Parsed::Entry { hash, .. }) = key.parse() else {
                    panic!()
                };
                tree.server.edit(ino, |inode| {
                    if let Some(parent) = &mut inode.parent
                        && parent.hash == hash
                    {
                        parent.hash = 77;
                    }
                });
                let back_link = Key::back_link(ino, dir, hash, &name(text));
                if let Some(value) = tree.server.records.remove(&back_link) {
                    tree.server
                        .records
                        .insert(Key::back_link(ino, dir, 77, &name(text)), value);
                }
            }
        },
        expect![[r#"
            directory i1000000000100 has "file" where no lookup finds it
            directory i1000000000101 has "two" where no lookup finds it"#]],
        expect![[""]],
    );
    let root = Caller::root();
    assert_eq!(
        tree.server.lookup(&root, tree.dir, "file").unwrap().ino,
        tree.file
    );
    assert_eq!(
        tree.server.lookup(&root, tree.below, "two").unwrap().ino,
        tree.linked
    );
}

#[test]
fn wrong_counts_are_found_and_set_right() {
    check_damage(
        |tree| {
            tree.server
                .edit(tree.dir, |inode| inode.directory_mut().unwrap().entries = 9);
            tree.server.edit(tree.below, |inode| {
                inode.directory_mut().unwrap().subdirs = 1
            });
            tree.server
                .edit(tree.file, |inode| (inode.names, inode.xattrs) = (2, 0));
            tree.server.edit(tree.orphan, |inode| inode.holders = 0);
            tree.server
                .edit(tree.linked, |inode| inode.file_mut().unwrap().writers = 2);
            let key = Key::usage(VirtualShard(0), VolumeId(0));
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
            directory i1000000000100 has 3 entries, 1 of them directories, and counts otherwise
            directory i1000000000101 has 1 entries, 0 of them directories, and counts otherwise
            inode i1000000000102 counts 2 names, it has 1
            inode i1000000000102 has 1 attributes with 7 bytes of names, and counts otherwise
            inode i1000000000103 is held by 0 and written by 1 sessions, and counts otherwise
            inode i1000000000104 is held by 1 and written by 0 sessions, and counts otherwise
            vs0 counts Usage { inodes: 3, purging: 1 } for vol0, it has Usage { inodes: 1, purging: 0 }"#]],
        expect![[""]],
    );
}

#[test]
fn a_wrong_type_in_an_entry_is_found_and_set_right() {
    check_damage(
        |tree| {
            let key = key_of_entry(tree, tree.dir, "file");
            let entry = Entry {
                ino: tree.file,
                kind: FileKind::Directory,
                born: 0,
            };
            tree.server.records.insert(key, entry.encode());
        },
        expect![[r#"
            directory i1000000000100 says "file" is a Directory, it is a Regular
            directory i1000000000100 has 3 entries, 2 of them directories, and counts otherwise"#]],
        expect![[""]],
    );
}

#[test]
fn what_belongs_to_nothing_is_found_and_goes() {
    let nobody = InodeId(0x999);
    let tree = check_damage(
        |tree| {
            let link = tree.server.records[&key_of_entry(tree, tree.dir, "file")].clone();
            let dangling = [
                (Key::xattr(nobody, b"user.x"), Xattr(Bytes::new()).encode()),
                (
                    Key::back_link(nobody, ROOT, 5, &name("x")),
                    BackLink.encode(),
                ),
                (Key::entry(nobody, 5, &name("x")), link),
                (
                    Key::reply(VirtualShard(1), SessionId(99), Slot(0)),
                    Reply {
                        sequence: 1,
                        digest: 2,
                        essence: crate::Essence::Done,
                        seq: gupfs_proto::Seq(1),
                    }
                    .encode(),
                ),
            ];
            tree.server.records.extend(dangling);
        },
        expect![[r#"
            BackLink { ino: i999, dir: i1, hash: 5, name: "x" } belongs to nothing
            Entry { dir: i999, hash: 5, name: "x" } belongs to nothing
            Xattr { ino: i999, name: [117, 115, 101, 114, 46, 120] } belongs to nothing
            Reply { shard: vs1, session: session99, slot: slot0 } belongs to nothing"#]],
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
fn orphans_of_dead_sessions_go_and_their_writers_wait_for_a_start() {
    let tree = check_damage(
        |tree| {
            let session = tree.server.session;
            tree.server.records.remove(&Key::session(session));
            let replies = tree
                .server
                .records
                .keys()
                .filter(|key| matches!(key.parse(), Some(Parsed::Reply { .. })));
            for key in replies.cloned().collect::<Vec<_>>() {
                tree.server.records.remove(&key);
            }
        },
        expect![[r#"
            inode i1000000000103 is written by session 7, which is not there
            inode i1000000000104 is held by session 7, which is not there"#]],
        expect!["inode i1000000000103 is written by session 7, which is not there"],
    );
    assert!(!tree.server.records.contains_key(&Key::inode(tree.orphan)));
}

#[test]
fn a_removed_inode_that_nobody_holds_is_found_and_goes_with_its_objects() {
    let tree = check_damage(
        |tree| {
            let session = tree.server.session;
            tree.server
                .records
                .remove(&Key::orphan(tree.orphan, session));
            tree.server.edit(tree.orphan, |inode| inode.holders = 0);
        },
        expect!["inode i1000000000104 was removed, is held by nobody, and still there"],
        expect![[""]],
    );
    assert!(!tree.server.records.contains_key(&Key::inode(tree.orphan)));
}

#[test]
fn numbers_that_would_be_given_again_are_found_and_passed_over() {
    let mut tree = check_damage(
        |tree| {
            let key = Key::numbers(tree.dir.shard());
            tree.server
                .records
                .insert(key, Numbers { next: 256 }.encode());
        },
        expect!["vs1 would give inode numbers from 256 again, 260 is in use"],
        expect![[""]],
    );
    tree.server.machine = crate::Machine::new();
    tree.server
        .create(&Caller::root(), tree.dir, "new", 0o644)
        .unwrap();
    tree.server.assert_clean();
}

#[test]
fn what_cannot_be_repaired_is_found_and_left_alone() {
    check_damage(
        |tree| {
            // Two directories in each other.
            let (dir, below) = (tree.dir, tree.below);
            tree.server
                .edit(dir, |inode| inode.parent.as_mut().unwrap().dir = below);
            tree.server.edit(tree.linked, |inode| {
                let file = inode.file_mut().unwrap();
                file.layout.components[0].from = FileOffset(9);
                file.cutting = Some(crate::Cutting { to: 5, number: 9 });
            });
        },
        expect![[r#"
            inode i1000000000103 has a layout that none can have
            inode i1000000000100 has back links that are not its names
            inode i1000000000103 waits for a cut that no record says
            directory i1000000000100 is not under the root: its way up is a loop"#]],
        expect![[r#"
            inode i1000000000103 has a layout that none can have
            inode i1000000000100 has back links that are not its names
            inode i1000000000103 waits for a cut that no record says
            directory i1000000000100 is not under the root: its way up is a loop"#]],
    );
}

#[test]
fn an_inode_that_cannot_be_read_takes_nothing_with_it() {
    check_damage(
        |tree| {
            let records = &mut tree.server.records;
            records.insert(Key::inode(tree.dir), Bytes::from_static(&[9]));
            records.insert(Key::format(), Bytes::from_static(&[7]));
            for key in [&b"\0\0?"[..], &[0xff; 3], &[0], b"\0\x09Ix"] {
                records.insert(Key::from_bytes(key), Bytes::new());
            }
            // Not mended while that is so.
            tree.server.edit(tree.below, |inode| {
                inode.directory_mut().unwrap().entries = 7
            });
        },
        expect![[r#"
            Inode(i1000000000100): record of version 9, which this program does not know
            key Key([00]) is none that this program knows
            key Key([00, 00, 3f]) is none that this program knows
            Format: record of version 7, which this program does not know
            key Key([00, 09, 49, 78]) is none that this program knows
            key Key([ff, ff, ff]) is none that this program knows
            directory i1000000000101 has 1 entries, 0 of them directories, and counts otherwise"#]],
        expect![[r#"
            Inode(i1000000000100): record of version 9, which this program does not know
            key Key([00]) is none that this program knows
            key Key([00, 00, 3f]) is none that this program knows
            Format: record of version 7, which this program does not know
            key Key([00, 09, 49, 78]) is none that this program knows
            key Key([ff, ff, ff]) is none that this program knows
            directory i1000000000101 has 1 entries, 0 of them directories, and counts otherwise"#]],
    );
}

#[test]
fn back_links_that_are_no_names_are_found() {
    check_damage(
        |tree| {
            let link = Key::back_link(tree.linked, tree.below, 1, &name("two"));
            tree.server.records.insert(link, BackLink.encode());
        },
        expect!["inode i1000000000103 has back links that are not its names"],
        expect!["inode i1000000000103 has back links that are not its names"],
    );
}
