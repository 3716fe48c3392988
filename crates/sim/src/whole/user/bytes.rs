//! What is in the files: writing, cutting, syncing, reading.

use super::{Done, User, me, open};
use crate::whole::house::Life;
use bytes::Bytes;
use gupfs_client::{OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// Files stay short, so that many of them can be compared.
const LONGEST: u64 = 600_000;

impl User {
    pub(super) async fn write(
        &mut self,
        life: &Life,
        file: u64,
        at: Option<u64>,
        len: u64,
    ) -> Done {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.opened(life, ino).await?;
        self.write_to(life, &file, at, len).await
    }

    /// At the end if `at` says nothing.
    pub(super) async fn write_to(
        &mut self,
        life: &Life,
        file: &OpenFile,
        at: Option<u64>,
        len: u64,
    ) -> Done {
        let ino = file.ino();
        let offset = at.unwrap_or(self.contents[&ino].len());
        if offset + len > LONGEST {
            return Ok(());
        }
        let mut data = vec![0; len as usize];
        self.dice.fill(&mut data);
        let mut after = self.contents[&ino].bytes().to_vec();
        let end = (offset + len) as usize;
        after.resize(after.len().max(end), 0);
        after[offset as usize..end].copy_from_slice(&data);
        self.history.forget_mtime(ino);
        let whence = at.map_or(WritePosition::End, WritePosition::Offset);
        let written = life
            .client
            .write(file, whence, Bytes::from(data), WriteOptions::default());
        let written = written.await.and_then(|done| match done.written == len {
            true => Ok(()),
            false => Err(FsError::NoSpace), // a part of it had room
        });
        self.note_bytes(life, file, after, written).await
    }

    pub(super) async fn truncate(&mut self, life: &Life, file: u64, to: u64) -> Done {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.opened(life, ino).await?;
        let mut after = self.contents[&ino].bytes().to_vec();
        after.resize(to as usize, 0);
        self.history.forget_mtime(ino);
        let cut = life.client.truncate(&me(), ino, to, true, false).await;
        self.note_bytes(life, &file, after, cut.map(drop)).await
    }

    /// After a full disk the file says what of it was done.
    async fn note_bytes(
        &mut self,
        life: &Life,
        file: &OpenFile,
        after: Vec<u8>,
        answer: Done,
    ) -> Done {
        let content = self.contents.get_mut(&file.ino()).expect("it is known");
        content.push(after);
        if answer.is_err() {
            content.tear();
        }
        if answer == Err(FsError::NoSpace) && !life.is_over() {
            let found = life
                .client
                .read(file, 0, 2 * LONGEST, ReadOptions::default())
                .await?
                .concat();
            if let Err(wrong) = content.found_after_kill(found) {
                panic!("after a full disk {}: {wrong}", file.ino());
            }
        }
        answer
    }

    pub(super) async fn fsync(&mut self, life: &Life, file: u64, data_only: bool) -> Done {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.opened(life, ino).await?;
        life.client.fsync(&file, data_only).await?;
        self.fsynced(ino);
        if !data_only {
            let mtime = life.client.getattr(&me(), ino).await?.mtime;
            let mut after = self.tree();
            if let Some(node) = after.nodes.get_mut(&ino) {
                node.mtime = Some(mtime);
            }
            self.history.push(after);
            self.history.synced();
        }
        Ok(())
    }

    /// Its bytes, and every change of names before it.
    pub(super) fn fsynced(&mut self, ino: InodeId) {
        if let Some(content) = self.contents.get_mut(&ino) {
            content.synced();
        }
        self.history.synced();
        self.renamed_over = 0;
    }

    pub(super) async fn sync_all(&mut self, life: &Life) -> Done {
        life.client.sync_all().await?;
        self.contents
            .values_mut()
            .for_each(|content| content.synced());
        self.history.synced();
        self.renamed_over = 0;
        Ok(())
    }

    pub(super) async fn read(&mut self, life: &Life, file: u64) -> Done {
        let Some(ino) = self.file(file) else {
            return Ok(());
        };
        let file = self.opened(life, ino).await?;
        let found = life
            .client
            .read(&file, 0, 2 * LONGEST, ReadOptions::default())
            .await?
            .concat();
        let size = life.client.getattr(&me(), ino).await?.size;
        assert_eq!(size, found.len() as u64, "size of {ino}");
        let content = self.contents.get_mut(&ino).expect("it is known");
        if let Err(wrong) = content.found_after_kill(found) {
            panic!("{ino} reads otherwise than it was written: {wrong}");
        }
        Ok(())
    }

    /// Any file that is open, also one without a name.
    pub(super) async fn close(&mut self, life: &Life, file: u64) -> Done {
        let Some(index) = file.checked_rem(self.open.len() as u64) else {
            return Ok(());
        };
        let ino = *self.open.keys().nth(index as usize).expect("counted");
        let file = self.open.remove(&ino).expect("listed");
        let id = file.id();
        drop(file);
        life.client.release(id).await
    }

    async fn opened(&mut self, life: &Life, ino: InodeId) -> Result<Arc<OpenFile>, FsError> {
        if let Some(file) = self.open.get(&ino) {
            return Ok(file.clone());
        }
        let file = open(life, ino).await?;
        self.open.insert(ino, file.clone());
        Ok(file)
    }
}
