//! Actions on names and attributes.

use super::{
    ActionResult, MODE, Program, create_mode, name, name_text, open, read_write, root_caller,
};
use crate::process::file_content::FileContent;
use crate::process::host::ProcessInstance;
use crate::process::name_tree::{Node, UNKNOWN_INODE};
use crate::rare_events::RareEvents;
use gupfs_client::OpenFileFlags;
use gupfs_proto::meta::{AccessMode, RenameMode, SetAttr, SetTime};
use gupfs_proto::{FileKind, InodeId, Timestamp};

type NameInDir = (InodeId, u64);

impl Program {
    pub(super) async fn create(
        &mut self,
        instance: &ProcessInstance,
        dir: InodeId,
        name_number: u64,
    ) -> ActionResult {
        if self.entry(dir, name_number).is_some() {
            return Ok(());
        }
        let (name, flags) = (name(&name_text(name_number)), OpenFileFlags::default());
        let (client, caller) = (&instance.client, root_caller());
        let created = client.create(
            &caller,
            dir,
            &name,
            create_mode(MODE),
            true,
            read_write(),
            flags,
        );
        let created = created.await;
        let ino = created
            .as_ref()
            .map_or(UNKNOWN_INODE, |created| created.file.ino());
        self.note_created_name(dir, name_number, ino, FileKind::Regular, &created);
        let created = created?;
        client.forget([(ino, 1)]);
        self.note_new_inode(ino);
        self.file_contents.insert(ino, FileContent::default());
        self.open.insert(ino, created.file);
        Ok(())
    }

    pub(super) async fn mkdir(
        &mut self,
        instance: &ProcessInstance,
        dir: InodeId,
        name_number: u64,
    ) -> ActionResult {
        if self.entry(dir, name_number).is_some() {
            return Ok(());
        }
        let created = instance
            .client
            .mkdir(
                &root_caller(),
                dir,
                &name(&name_text(name_number)),
                create_mode(MODE),
            )
            .await;
        let ino = created.as_ref().map_or(UNKNOWN_INODE, |attr| attr.ino);
        self.note_created_name(dir, name_number, ino, FileKind::Directory, &created);
        created?;
        instance.client.forget([(ino, 1)]);
        self.note_new_inode(ino);
        Ok(())
    }

    fn note_created_name<T>(
        &mut self,
        dir: InodeId,
        name_number: u64,
        ino: InodeId,
        kind: FileKind,
        reply: &Result<T, gupfs_proto::FsError>,
    ) {
        let mut after = self.current_names();
        after.names.insert((dir, name_text(name_number)), ino);
        let node = Node {
            kind,
            mode: MODE,
            mtime: None,
        };
        after.nodes.insert(ino, node);
        self.note_names(after, reply);
    }

    pub(super) async fn rmdir(
        &mut self,
        instance: &ProcessInstance,
        dir: InodeId,
        name_number: u64,
    ) -> ActionResult {
        let name_tree = self.current_names();
        let Some(victim) = self.entry(dir, name_number) else {
            return Ok(());
        };
        if self.kind(victim) != FileKind::Directory || !name_tree.is_empty_dir(victim) {
            return Ok(());
        }
        let mut after = name_tree;
        after.names.remove(&(dir, name_text(name_number)));
        let removed = instance
            .client
            .rmdir(&root_caller(), dir, &name(&name_text(name_number)))
            .await;
        self.note_names(after, &removed);
        removed.map(drop)
    }

    pub(super) async fn link(
        &mut self,
        instance: &ProcessInstance,
        file: u64,
        dir: InodeId,
        name_number: u64,
    ) -> ActionResult {
        let (Some(ino), None) = (self.file(file), self.entry(dir, name_number)) else {
            return Ok(());
        };
        let mut after = self.current_names();
        after.names.insert((dir, name_text(name_number)), ino);
        let linked = instance
            .client
            .link(&root_caller(), ino, dir, &name(&name_text(name_number)))
            .await;
        self.note_names(after, &linked);
        linked?;
        instance.client.forget([(ino, 1)]);
        Ok(())
    }

    pub(super) async fn unlink(
        &mut self,
        instance: &ProcessInstance,
        dir: InodeId,
        name_number: u64,
    ) -> ActionResult {
        let Some(victim) = self.entry(dir, name_number) else {
            return Ok(());
        };
        if self.kind(victim) == FileKind::Directory {
            return Ok(());
        }
        let mut after = self.current_names();
        after.names.remove(&(dir, name_text(name_number)));
        let removed = instance
            .client
            .unlink(&root_caller(), dir, &name(&name_text(name_number)))
            .await;
        self.note_names(after, &removed);
        removed.map(drop)
    }

    /// Replaces the target, unless it is a nonempty directory or of another kind.
    pub(super) async fn rename(
        &mut self,
        instance: &ProcessInstance,
        from: NameInDir,
        to: NameInDir,
        rare_events: &mut RareEvents,
    ) -> ActionResult {
        let Some(moved) = self.entry(from.0, from.1) else {
            return Ok(());
        };
        let over = self.entry(to.0, to.1);
        let is_dir = self.kind(moved) == FileKind::Directory;
        let is_replaceable = over.is_none_or(|over| {
            over != moved
                && (self.kind(over) == FileKind::Directory) == is_dir
                && self.current_names().is_empty_dir(over)
        });
        // Directories keep their parent, so that none moves into itself.
        if !is_replaceable || (is_dir && from.0 != to.0) {
            return Ok(());
        }
        let mut after = self.current_names();
        after.names.remove(&(from.0, name_text(from.1)));
        after.names.insert((to.0, name_text(to.1)), moved);
        let (old, new) = (name(&name_text(from.1)), name(&name_text(to.1)));
        let (caller, mode) = (root_caller(), RenameMode::Replace);
        let renamed = instance
            .client
            .rename(&caller, (from.0, &old), (to.0, &new), mode);
        let renamed = renamed.await;
        self.note_names(after, &renamed);
        rare_events.count_if(
            over.is_some() && renamed.is_err(),
            "rename over a target crossed a crash",
        );
        self.renamed_over += u64::from(over.is_some() && renamed.is_ok());
        renamed.map(drop)
    }

    pub(super) async fn tmpfile(&mut self, instance: &ProcessInstance, len: u64) -> ActionResult {
        let access = AccessMode::READ | AccessMode::WRITE;
        let (client, caller, flags) = (&instance.client, root_caller(), OpenFileFlags::default());
        let created = client.tmpfile(&caller, client.root(), create_mode(MODE), access, flags);
        let file = created.await?.file;
        client.forget([(file.ino(), 1)]);
        self.note_new_inode(file.ino());
        self.file_contents
            .insert(file.ino(), FileContent::default());
        self.open.insert(file.ino(), file.clone());
        self.write_to(instance, &file, Some(0), len).await
    }

    pub(super) async fn chmod(
        &mut self,
        instance: &ProcessInstance,
        file: u64,
        mode: u32,
    ) -> ActionResult {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let mut after = self.current_names();
        if let Some(node) = after.nodes.get_mut(&ino) {
            node.mode = mode;
        }
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let set = instance.client.setattr(&root_caller(), ino, set).await;
        self.note_names(after, &set);
        set.map(drop)
    }

    /// Syncs the file first: with a write lease, the mtime of its objects would be later than the one set here after a kill.
    pub(super) async fn utimes(
        &mut self,
        instance: &ProcessInstance,
        file: u64,
        secs: i64,
    ) -> ActionResult {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = open(instance, ino).await?;
        instance.client.fsync(&file, false).await?;
        self.fsynced(ino);
        instance.client.release(file.id()).await?;
        let time = Timestamp::new(secs, 0);
        let mut after = self.current_names();
        if let Some(node) = after.nodes.get_mut(&ino) {
            node.mtime = Some(time);
        }
        let set = SetAttr {
            mtime: Some(SetTime::To(time)),
            ..SetAttr::default()
        };
        let set = instance.client.setattr(&root_caller(), ino, set).await;
        self.note_names(after, &set);
        set.map(drop)
    }
}
