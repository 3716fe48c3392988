//! Each class of damage is planted and found, and repaired if it can be.

mod names;
mod records;

use super::*;
use crate::BackgroundOp;
use crate::testing::*;
use expect_test::Expect;
use gupfs_proto::Caller;
use gupfs_proto::meta::WritePosition;

/// A small tree with each kind of record.
struct Tree {
    server: TestServer,
    dir: InodeId,
    below: InodeId,
    file: InodeId,
    linked: InodeId,
    orphan: InodeId,
}

fn healthy_tree() -> Tree {
    let mut server = TestServer::new(2);
    let root = Caller::root();
    let dir = server.mkdir(&root, ROOT, "dir", 0o755).unwrap().ino;
    let below = server.mkdir(&root, dir, "below", 0o755).unwrap().ino;
    let file = server.create(&root, dir, "file", 0o644).unwrap().ino;
    server
        .write_inline(file, WritePosition::End, b"bytes")
        .unwrap();
    server.set_xattr(&root, file, "user.a", b"1").unwrap();
    let linked = server.create(&root, dir, "one", 0o644).unwrap().ino;
    server.link(&root, linked, below, "two").unwrap();
    server.begin_write(linked).unwrap();
    server
        .end_write(linked, report(100, &[(0, 0)]), true)
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

fn problem_lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| problem.to_string()).collect();
    lines.join("\n")
}

/// Plants damage, expects exactly these problems, repairs, and expects these remaining problems.
fn check_damage(plant: impl FnOnce(&mut Tree), found: Expect, left: Expect) -> Tree {
    let mut tree = healthy_tree();
    plant(&mut tree);
    found.assert_eq(&problem_lines(&tree.server.check().problems));
    for _ in 0..4 {
        for problem in tree.server.check().repairs() {
            tree.server
                .run_background(&BackgroundOp::Repair(problem.clone()))
                .unwrap();
        }
    }
    left.assert_eq(&problem_lines(&tree.server.check().problems));
    tree
}

fn key_of_entry(tree: &Tree, dir: InodeId, text: &str) -> RecordKey {
    let salt = tree.server.directory(dir).salt;
    RecordKey::entry(dir, name_hash(salt, &name(text)), &name(text))
}
