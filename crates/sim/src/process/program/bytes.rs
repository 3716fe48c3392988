//! Actions on the bytes of files: write, truncate, sync, read.

use super::{ActionResult, Program, open, root_caller};
use crate::process::host::ProcessInstance;
use bytes::Bytes;
use gupfs_client::{OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// Files stay short, so that the check reads many of them.
const FILE_SIZE_MAX: u64 = 600_000;

impl Program {
    pub(super) async fn write(
        &mut self,
        instance: &ProcessInstance,
        file: u64,
        at: Option<u64>,
        len: u64,
    ) -> ActionResult {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.open_once(instance, ino).await?;
        self.write_to(instance, &file, at, len).await
    }

    /// Writes at the end of the file if `at` is None.
    pub(super) async fn write_to(
        &mut self,
        instance: &ProcessInstance,
        file: &OpenFile,
        at: Option<u64>,
        len: u64,
    ) -> ActionResult {
        let ino = file.ino();
        let offset = at.unwrap_or(self.file_contents[&ino].len());
        if offset + len > FILE_SIZE_MAX {
            return Ok(());
        }
        let mut data = vec![0; len as usize];
        self.random.fill(&mut data);
        let mut after = self.file_contents[&ino].bytes().to_vec();
        let end = (offset + len) as usize;
        after.resize(after.len().max(end), 0);
        after[offset as usize..end].copy_from_slice(&data);
        self.name_history.forget_mtime(ino);
        let whence = at.map_or(WritePosition::End, WritePosition::Offset);
        let written =
            instance
                .client
                .write(file, whence, Bytes::from(data), WriteOptions::default());
        let written = written.await.and_then(|done| match done.written == len {
            true => Ok(()),
            false => Err(FsError::NoSpace), // the disk had space for a part of the write
        });
        self.note_content(instance, file, after, written).await
    }

    pub(super) async fn truncate(
        &mut self,
        instance: &ProcessInstance,
        file: u64,
        to: u64,
    ) -> ActionResult {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.open_once(instance, ino).await?;
        let mut after = self.file_contents[&ino].bytes().to_vec();
        after.resize(to as usize, 0);
        self.name_history.forget_mtime(ino);
        let truncated = instance
            .client
            .truncate(&root_caller(), ino, to, true, false)
            .await;
        self.note_content(instance, &file, after, truncated.map(drop))
            .await
    }

    /// After an error of a full disk, reads the file to learn which part of the write was done.
    async fn note_content(
        &mut self,
        instance: &ProcessInstance,
        file: &OpenFile,
        after: Vec<u8>,
        reply: ActionResult,
    ) -> ActionResult {
        let file_content = self
            .file_contents
            .get_mut(&file.ino())
            .expect("the content of the file is known");
        file_content.push(after);
        if reply.is_err() {
            file_content.mark_unanswered();
        }
        if reply == Err(FsError::NoSpace) && !instance.is_dead() {
            let found = instance
                .client
                .read(file, 0, 2 * FILE_SIZE_MAX, ReadOptions::default())
                .await?
                .concat();
            if let Err(mismatch) = file_content.check_after_kill(found) {
                panic!("after a write to a full disk, {}: {mismatch}", file.ino());
            }
        }
        reply
    }

    pub(super) async fn fsync(
        &mut self,
        instance: &ProcessInstance,
        file: u64,
        data_only: bool,
    ) -> ActionResult {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.open_once(instance, ino).await?;
        instance.client.fsync(&file, data_only).await?;
        self.fsynced(ino);
        if !data_only {
            let mtime = instance.client.getattr(&root_caller(), ino).await?.mtime;
            let mut after = self.current_names();
            if let Some(node) = after.nodes.get_mut(&ino) {
                node.mtime = Some(mtime);
            }
            self.name_history.push(after);
            self.name_history.synced();
        }
        Ok(())
    }

    /// The file's bytes and every earlier change of names are durable.
    pub(super) fn fsynced(&mut self, ino: InodeId) {
        if let Some(file_content) = self.file_contents.get_mut(&ino) {
            file_content.synced();
        }
        self.name_history.synced();
        self.renamed_over = 0;
    }

    pub(super) async fn sync_all(&mut self, instance: &ProcessInstance) -> ActionResult {
        instance.client.sync_all().await?;
        self.file_contents
            .values_mut()
            .for_each(|file_content| file_content.synced());
        self.name_history.synced();
        self.renamed_over = 0;
        Ok(())
    }

    pub(super) async fn read(&mut self, instance: &ProcessInstance, file: u64) -> ActionResult {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.open_once(instance, ino).await?;
        let found = instance
            .client
            .read(&file, 0, 2 * FILE_SIZE_MAX, ReadOptions::default())
            .await?
            .concat();
        let size = instance.client.getattr(&root_caller(), ino).await?.size;
        assert_eq!(size, found.len() as u64, "size of {ino}");
        let file_content = self
            .file_contents
            .get_mut(&ino)
            .expect("the content of the file is known");
        if let Err(mismatch) = file_content.check_after_kill(found) {
            panic!("{ino} does not have the bytes that were written: {mismatch}");
        }
        Ok(())
    }

    /// Closes any open file, also one without a name.
    pub(super) async fn close(&mut self, instance: &ProcessInstance, file: u64) -> ActionResult {
        let Some(index) = file.checked_rem(self.open.len() as u64) else {
            return Ok(());
        };
        let ino = *self
            .open
            .keys()
            .nth(index as usize)
            .expect("the index is below the count");
        let file = self.open.remove(&ino).expect("the file is open");
        let id = file.id();
        drop(file);
        instance.client.release(id).await
    }

    async fn open_once(
        &mut self,
        instance: &ProcessInstance,
        ino: InodeId,
    ) -> Result<Arc<OpenFile>, FsError> {
        if let Some(file) = self.open.get(&ino) {
            return Ok(file.clone());
        }
        let file = open(instance, ino).await?;
        self.open.insert(ino, file.clone());
        Ok(file)
    }
}
