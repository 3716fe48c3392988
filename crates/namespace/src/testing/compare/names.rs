//! Actions that create, look up, move and remove names.

use super::ServerAndModel;
use crate::testing::model::{ModelResult, NodeId};
use crate::testing::*;
use gupfs_proto::meta::{self, CreateMode, OpenMode, RemovedName, RenameMode};
use gupfs_proto::{FileKind, FsError};

impl ServerAndModel {
    pub(super) fn create(
        &mut self,
        dir: usize,
        text: &str,
        create_mode: CreateMode,
        exclusive: bool,
        open: OpenMode,
    ) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let op = meta::MetaOp::Create {
            dir: self.ino(dir),
            name: name(text),
            create_mode,
            exclusive,
            open,
        };
        let reply = opened(self.request(op));
        let CreateMode { mode, umask } = create_mode;
        let want = u32::from(open.access.bits());
        let truncate = open.truncate;
        let expected = self
            .model
            .create(dir, text, mode, umask, exclusive, want, truncate, &caller);
        if let (Ok(opened), Ok((_, created))) = (&reply, &expected) {
            assert_eq!(opened.created, *created);
        }
        self.check_node(reply.map(|opened| opened.attr), expected.map(|(id, _)| id));
    }

    pub(super) fn mkdir(&mut self, dir: usize, text: &'static str, mode: u32) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let reply = entry(self.request(meta::MetaOp::Mkdir {
            dir: self.ino(dir),
            name: name(text),
            create_mode: create_mode(mode),
        }));
        let expected = self
            .model
            .create_node(dir, text, FileKind::Directory, mode, 0, &caller);
        self.check_node(reply, expected);
    }

    pub(super) fn mknod(&mut self, dir: usize, text: &'static str, kind: FileKind, mode: u32) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let op = meta::MetaOp::Mknod {
            dir: self.ino(dir),
            name: name(text),
            kind,
            rdev: 5,
            create_mode: create_mode(mode),
        };
        let reply = entry(self.request(op));
        let expected = self.model.create_node(dir, text, kind, mode, 0, &caller);
        self.check_node(reply, expected);
    }

    pub(super) fn symlink(&mut self, dir: usize, text: &'static str) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let op = meta::MetaOp::Symlink {
            dir: self.ino(dir),
            name: name(text),
            target: b"../x".to_vec(),
        };
        let reply = entry(self.request(op));
        let expected = self
            .model
            .create_node(dir, text, FileKind::Symlink, 0o777, 0, &caller);
        self.check_node(reply, expected);
    }

    pub(super) fn tmp_file(&mut self, dir: usize, mode: u32) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let reply = entry(self.request(meta::MetaOp::TmpFile {
            dir: self.ino(dir),
            create_mode: create_mode(mode),
        }));
        let expected = self.model.tmpfile(dir, mode, &caller);
        self.check_node(reply, expected);
    }

    pub(super) fn link(&mut self, node: usize, dir: usize, text: &'static str) {
        let caller = self.caller.clone();
        let (node, dir) = (self.pick_file(node), self.pick_dir(dir));
        let reply = entry(self.request(meta::MetaOp::Link {
            ino: self.ino(node),
            dir: self.ino(dir),
            name: name(text),
        }));
        let expected = self.model.link(node, dir, text, &caller);
        self.check_node(reply, expected.map(|()| node));
    }

    pub(super) fn unlink(&mut self, dir: usize, pick: u8) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let text = &self.pick_name(dir, pick);
        let reply = removed(self.request(meta::MetaOp::Unlink {
            dir: self.ino(dir),
            name: name(text),
        }));
        let expected = self.model.remove(dir, text, false, &caller);
        self.check_removal(reply, expected);
    }

    pub(super) fn rmdir(&mut self, dir: usize, pick: u8) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let text = &self.pick_name(dir, pick);
        let reply = removed(self.request(meta::MetaOp::Rmdir {
            dir: self.ino(dir),
            name: name(text),
        }));
        let expected = self.model.remove(dir, text, true, &caller);
        self.check_removal(reply, expected);
    }

    pub(super) fn rename(
        &mut self,
        from: usize,
        pick: u8,
        to: usize,
        new: &'static str,
        how: RenameMode,
    ) {
        let caller = self.caller.clone();
        let (from, to) = (self.pick_dir(from), self.pick_dir(to));
        let text = &self.pick_name(from, pick);
        let (old_dir, new_dir) = (self.ino(from), self.ino(to));
        let op = meta::MetaOp::Rename {
            from: old_dir,
            name: name(text),
            to: new_dir,
            new_name: name(new),
            mode: how,
        };
        let reply = removed(self.request(op));
        let expected = self.model.rename(from, text, to, new, how, &caller);
        if let (Ok(reply), Ok(orphan)) = (&reply, &expected) {
            assert_eq!(
                (reply.is_orphan, reply.victim.filter(|_| reply.is_orphan)),
                (orphan.is_some(), orphan.map(|id| self.ino(id)))
            );
        }
        self.check_same(reply, expected.map(|_| ()));
    }

    pub(super) fn lookup(&mut self, dir: usize, pick: u8) {
        let caller = self.caller.clone();
        let dir = self.pick_dir(dir);
        let text = &self.pick_name(dir, pick);
        let reply = entry(self.request(meta::MetaOp::Lookup {
            dir: self.ino(dir),
            name: name(text),
        }));
        let expected = self.model.lookup(dir, text, &caller);
        self.check_node(reply, expected);
    }

    fn check_removal(&self, reply: Result<RemovedName, FsError>, expected: ModelResult<NodeId>) {
        if let (Ok(removed), Ok(id)) = (&reply, &expected) {
            assert_eq!(
                (removed.victim, removed.is_orphan),
                (Some(self.ino(*id)), self.model.nodes[*id].orphan)
            );
        }
        self.check_same(reply, expected.map(|_| ()));
    }
}
