//! Names and attributes.

use super::{Done, MODE, User, both_ways, make, me, name, open, text};
use crate::rare::Rare;
use crate::whole::content::Content;
use crate::whole::house::Life;
use crate::whole::tree::{Node, UNTOLD};
use gupfs_client::OpenFileFlags;
use gupfs_proto::meta::{AccessMode, RenameMode, SetAttr, SetTime};
use gupfs_proto::{FileKind, InodeId, Timestamp};

type Place = (InodeId, u64);

impl User {
    pub(super) async fn create(&mut self, life: &Life, dir: InodeId, at: u64) -> Done {
        if self.at(dir, at).is_some() {
            return Ok(());
        }
        let (name, flags) = (name(&text(at)), OpenFileFlags::default());
        let (client, me) = (&life.client, me());
        let made = client.create(&me, dir, &name, make(MODE), true, both_ways(), flags);
        let made = made.await;
        let ino = made.as_ref().map_or(UNTOLD, |made| made.file.ino());
        self.note_new(dir, at, ino, FileKind::Regular, &made);
        let made = made?;
        client.forget([(ino, 1)]);
        self.told_number(ino);
        self.contents.insert(ino, Content::default());
        self.open.insert(ino, made.file);
        Ok(())
    }

    pub(super) async fn mkdir(&mut self, life: &Life, dir: InodeId, at: u64) -> Done {
        if self.at(dir, at).is_some() {
            return Ok(());
        }
        let made = life
            .client
            .mkdir(&me(), dir, &name(&text(at)), make(MODE))
            .await;
        let ino = made.as_ref().map_or(UNTOLD, |attr| attr.ino);
        self.note_new(dir, at, ino, FileKind::Directory, &made);
        made?;
        life.client.forget([(ino, 1)]);
        self.told_number(ino);
        Ok(())
    }

    fn note_new<T>(
        &mut self,
        dir: InodeId,
        at: u64,
        ino: InodeId,
        kind: FileKind,
        answer: &Result<T, gupfs_proto::FsError>,
    ) {
        let mut after = self.tree();
        after.names.insert((dir, text(at)), ino);
        let node = Node {
            kind,
            mode: MODE,
            mtime: None,
        };
        after.nodes.insert(ino, node);
        self.note(after, answer);
    }

    pub(super) async fn rmdir(&mut self, life: &Life, dir: InodeId, at: u64) -> Done {
        let tree = self.tree();
        let Some(victim) = self.at(dir, at) else {
            return Ok(());
        };
        if self.kind(victim) != FileKind::Directory || !tree.is_empty_dir(victim) {
            return Ok(());
        }
        let mut after = tree;
        after.names.remove(&(dir, text(at)));
        let removed = life.client.rmdir(&me(), dir, &name(&text(at))).await;
        self.note(after, &removed);
        removed.map(drop)
    }

    pub(super) async fn link(&mut self, life: &Life, file: u64, dir: InodeId, at: u64) -> Done {
        let (Some(ino), None) = (self.file(file), self.at(dir, at)) else {
            return Ok(());
        };
        let mut after = self.tree();
        after.names.insert((dir, text(at)), ino);
        let linked = life.client.link(&me(), ino, dir, &name(&text(at))).await;
        self.note(after, &linked);
        linked?;
        life.client.forget([(ino, 1)]);
        Ok(())
    }

    pub(super) async fn unlink(&mut self, life: &Life, dir: InodeId, at: u64) -> Done {
        let Some(victim) = self.at(dir, at) else {
            return Ok(());
        };
        if self.kind(victim) == FileKind::Directory {
            return Ok(());
        }
        let mut after = self.tree();
        after.names.remove(&(dir, text(at)));
        let removed = life.client.unlink(&me(), dir, &name(&text(at))).await;
        self.note(after, &removed);
        removed.map(drop)
    }

    /// Over whatever is there, unless that is a directory with something in it or of another kind.
    pub(super) async fn rename(
        &mut self,
        life: &Life,
        from: Place,
        to: Place,
        rare: &mut Rare,
    ) -> Done {
        let Some(moved) = self.at(from.0, from.1) else {
            return Ok(());
        };
        let over = self.at(to.0, to.1);
        let is_dir = self.kind(moved) == FileKind::Directory;
        let fits = over.is_none_or(|over| {
            over != moved
                && (self.kind(over) == FileKind::Directory) == is_dir
                && self.tree().is_empty_dir(over)
        });
        // Directories stay where they are, so that none goes into itself.
        if !fits || (is_dir && from.0 != to.0) {
            return Ok(());
        }
        let mut after = self.tree();
        after.names.remove(&(from.0, text(from.1)));
        after.names.insert((to.0, text(to.1)), moved);
        let (old, new) = (name(&text(from.1)), name(&text(to.1)));
        let (me, how) = (me(), RenameMode::Replace);
        let renamed = life.client.rename(&me, (from.0, &old), (to.0, &new), how);
        let renamed = renamed.await;
        self.note(after, &renamed);
        rare.saw_if(
            over.is_some() && renamed.is_err(),
            "rename over a target crossed a crash",
        );
        self.renamed_over += u64::from(over.is_some() && renamed.is_ok());
        renamed.map(drop)
    }

    pub(super) async fn tmpfile(&mut self, life: &Life, len: u64) -> Done {
        let access = AccessMode::READ | AccessMode::WRITE;
        let (client, me, flags) = (&life.client, me(), OpenFileFlags::default());
        let made = client.tmpfile(&me, client.root(), make(MODE), access, flags);
        let file = made.await?.file;
        client.forget([(file.ino(), 1)]);
        self.told_number(file.ino());
        self.contents.insert(file.ino(), Content::default());
        self.open.insert(file.ino(), file.clone());
        self.write_to(life, &file, Some(0), len).await
    }

    pub(super) async fn chmod(&mut self, life: &Life, file: u64, mode: u32) -> Done {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let mut after = self.tree();
        if let Some(node) = after.nodes.get_mut(&ino) {
            node.mode = mode;
        }
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let set = life.client.setattr(&me(), ino, set).await;
        self.note(after, &set);
        set.map(drop)
    }

    /// Of a file that is held for writing the objects tell a later time after a kill: it is synced first.
    pub(super) async fn utimes(&mut self, life: &Life, file: u64, secs: i64) -> Done {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = open(life, ino).await?;
        life.client.fsync(&file, false).await?;
        self.fsynced(ino);
        life.client.release(file.id()).await?;
        let time = Timestamp::new(secs, 0);
        let mut after = self.tree();
        if let Some(node) = after.nodes.get_mut(&ino) {
            node.mtime = Some(time);
        }
        let set = SetAttr {
            mtime: Some(SetTime::To(time)),
            ..SetAttr::default()
        };
        let set = life.client.setattr(&me(), ino, set).await;
        self.note(after, &set);
        set.map(drop)
    }
}
