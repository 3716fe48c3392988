//! Damage to entries and names.

use super::*;
use expect_test::expect;

#[test]
fn an_entry_without_its_inode_is_found_and_removed() {
    let tree = check_damage(
        |tree| {
            tree.server
                .records
                .remove(&RecordKey::xattr(tree.file, b"user.a"));
            tree.server.records.remove(&RecordKey::inode(tree.file));
        },
        expect![[r#"
            directory i1000000000100: entry "file" refers to inode i1000000000102, which does not exist
            vs1 records Usage { inodes: 5, purging: 0 } for vol0, it has Usage { inodes: 4, purging: 0 }"#]],
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
            directory i1000000000100 has 2 entries, 1 of them directories; its inode records other counts
            inode i1000000000102 has no entry and is not an orphan of any session"#]],
        expect![[""]],
    );
    let text = format!("lost-{:x}", tree.file.0);
    let found = tree.server.lookup(&Caller::root(), ROOT, &text).unwrap();
    assert_eq!((found.ino, found.nlink, found.size), (tree.file, 1, 5));
}

#[test]
fn a_salvage_links_unnamed_inodes_in_a_lost_found_for_root_only() {
    for has_one in [false, true] {
        let mut tree = healthy_tree();
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
            let op = match problem {
                Problem::InodeWithoutEntry { ino } => BackgroundOp::LinkInLostFound { ino },
                other => BackgroundOp::Repair(other),
            };
            tree.server.run_background(&op).unwrap();
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
fn an_entry_with_a_wrong_hash_is_found_and_moved() {
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
                    .insert(RecordKey::entry(dir, 77, &name(text)), entry);
                let Some(ParsedKey::Entry { hash, .. }) = key.parse() else {
                    panic!()
                };
                tree.server.edit(ino, |inode| {
                    if let Some(parent) = &mut inode.parent
                        && parent.hash == hash
                    {
                        parent.hash = 77;
                    }
                });
                let back_link = RecordKey::back_link(ino, dir, hash, &name(text));
                if let Some(value) = tree.server.records.remove(&back_link) {
                    tree.server
                        .records
                        .insert(RecordKey::back_link(ino, dir, 77, &name(text)), value);
                }
            }
        },
        expect![[r#"
            directory i1000000000100: entry "file" has a wrong hash, lookups do not find it
            directory i1000000000101: entry "two" has a wrong hash, lookups do not find it"#]],
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
fn a_wrong_type_in_an_entry_is_found_and_corrected() {
    check_damage(
        |tree| {
            let key = key_of_entry(tree, tree.dir, "file");
            let entry = EntryRecord {
                ino: tree.file,
                kind: FileKind::Directory,
                birth_snapshot: 0,
            };
            tree.server.records.insert(key, entry.encode());
        },
        expect![[r#"
            directory i1000000000100: entry "file" has type Directory, its inode has type Regular
            directory i1000000000100 has 3 entries, 2 of them directories; its inode records other counts"#]],
        expect![[""]],
    );
}

#[test]
fn back_links_that_match_no_entry_are_found() {
    check_damage(
        |tree| {
            let link = RecordKey::back_link(tree.linked, tree.below, 1, &name("two"));
            tree.server.records.insert(link, BackLink.encode());
        },
        expect!["inode i1000000000103 has a parent or back links that do not match its entries"],
        expect!["inode i1000000000103 has a parent or back links that do not match its entries"],
    );
}
