//! Reads and writes of files that other programs write, too.

use super::{ClientInstance, SharedDirProgram};
use crate::cluster::call_arguments::{caller, read_write};
use crate::cluster::client_host::Failure;
use crate::cluster::shared_state::blocks::{BLOCK, SECTOR, is_block, is_log, repeat_value, values};
use crate::cluster::shared_state::{WRITTEN_BLOCKS, block_text};
use gupfs_client::{OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// Longest log, in records: a read of the whole log is short, and the log stays in one object.
const LOG_RECORDS_MAX: usize = 240;

impl SharedDirProgram {
    fn any_file(&self) -> usize {
        let files = self.shared_state().files.len() as u64;
        self.random.below(files) as usize
    }

    fn any_block(&self) -> u64 {
        WRITTEN_BLOCKS[self.random.below(WRITTEN_BLOCKS.len() as u64) as usize]
    }

    async fn open_once(
        &mut self,
        instance: ClientInstance<'_>,
        ino: InodeId,
    ) -> Option<Arc<OpenFile>> {
        if let Some(file) = self.open.get(&ino) {
            return Some(file.clone());
        }
        let (since, caller) = (self.cluster.millis(), caller());
        let flags = self.cluster.open_flags();
        let opened = instance.client.open(&caller, ino, read_write(), flags);
        match self.call(instance, opened).await {
            Ok(opened) => {
                self.open.insert(ino, opened.file.clone());
                Some(opened.file)
            }
            Err(failure) => {
                self.require_excuse("open", &failure, since, false);
                None
            }
        }
    }

    pub(super) async fn write_block(&mut self, instance: ClientInstance<'_>) {
        let (file, block_index) = (self.any_file(), self.any_block());
        let ino = self.shared_state().files[file].ino;
        let Some(open) = self.open_once(instance, ino).await else {
            return;
        };
        let value = self.cluster.value();
        let since = self.cluster.millis();
        let change_id = self.shared_state().block(file, block_index).begin(value);
        let at = WritePosition::Offset(block_index * BLOCK as u64);
        let bytes = repeat_value(value, BLOCK).into();
        let write = instance
            .client
            .write(&open, at, bytes, WriteOptions::default());
        let written = self.call(instance, write).await;
        let now = self.cluster.event_number();
        self.record(format_args!(
            "writes {value} to block {block_index} of {file}: {:?}",
            written.as_ref().map(|done| done.written)
        ));
        let mut shared_state = self.cluster.shared_state.lock();
        let block = shared_state.block(file, block_index);
        match written {
            Ok(done) if done.written == BLOCK as u64 => {
                assert!(
                    block.answered(now, change_id, |()| true),
                    "every state explains the reply of a write"
                );
            }
            // The disk had space for a part of the write.
            Ok(_) | Err(Failure::Refused(FsError::NoSpace)) => {
                block.unanswered(now, change_id);
                block.lose_power(now);
                drop(shared_state);
                let failure = Failure::Refused(FsError::NoSpace);
                self.require_excuse("write of a block", &failure, since, false);
            }
            Err(failure) => {
                block.unanswered(now, change_id);
                drop(shared_state);
                self.require_excuse("write of a block", &failure, since, false);
            }
        }
    }

    pub(super) async fn read_block(&mut self, instance: ClientInstance<'_>) {
        let (file, block_index) = (self.any_file(), self.any_block());
        self.read_one_block(instance, file, block_index).await;
    }

    pub(super) async fn read_one_block(
        &mut self,
        instance: ClientInstance<'_>,
        file: usize,
        block_index: u64,
    ) {
        let ino = self.shared_state().files[file].ino;
        let Some(open) = self.open_once(instance, ino).await else {
            return;
        };
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let at = block_index * BLOCK as u64;
        let read = instance
            .client
            .read(&open, at, BLOCK as u64, ReadOptions::default());
        let read_id = self
            .shared_state()
            .block(file, block_index)
            .begin_read(begun);
        let found = match self.call(instance, read).await {
            Ok(found) => found.concat(),
            Err(failure) => {
                let mut shared_state = self.shared_state();
                shared_state.block(file, block_index).abandon_read(read_id);
                drop(shared_state);
                return self.require_excuse("read of a block", &failure, since, false);
            }
        };
        let now = self.cluster.event_number();
        let found = values(&found).unwrap_or_else(|mismatch| {
            panic!(
                "c{} block {block_index} of {file}: {mismatch}",
                self.host_number
            )
        });
        self.record(format_args!(
            "reads block {block_index} of {file}: {:?}",
            found.first()
        ));
        let mut shared_state = self.cluster.shared_state.lock();
        let block = shared_state.block(file, block_index);
        let fits = block.observed(now, read_id, |state| is_block(state, &found));
        let candidates: Vec<String> = block.states().map(block_text).collect();
        assert!(
            fits,
            "c{} reads {found:?} in block {block_index} of {file}, the possible states are {candidates:?}",
            self.host_number
        );
    }

    pub(super) async fn sync_file(&mut self, instance: ClientInstance<'_>) {
        let file = self.any_file();
        let is_log = self.random.one_in(3);
        let ino = match is_log {
            true => self.shared_state().log.as_ref().map(|(ino, _)| *ino),
            false => Some(self.shared_state().files[file].ino),
        };
        let Some(ino) = ino else { return };
        let Some(open) = self.open_once(instance, ino).await else {
            return;
        };
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let power_losses = self.cluster.fault_record.power_losses();
        let data_only = self.random.one_in(2);
        match self
            .call(instance, instance.client.fsync(&open, data_only))
            .await
        {
            Ok(()) if power_losses == self.cluster.fault_record.power_losses() => {
                self.record(format_args!("fsync of {ino}"));
                let mut shared_state = self.cluster.shared_state.lock();
                match is_log {
                    true => shared_state.log().synced(begun),
                    false => {
                        let blocks = shared_state.files[file].blocks.values_mut();
                        blocks.for_each(|block| block.synced(begun));
                    }
                }
            }
            Ok(()) => {}
            Err(failure) => self.require_excuse("fsync", &failure, since, true),
        }
    }

    pub(super) async fn append(&mut self, instance: ClientInstance<'_>) {
        let (ino, len) = {
            let mut shared_state = self.shared_state();
            let longest = shared_state.log().states().map(|log| log.slots.len()).max();
            let ino = shared_state.log.as_ref().map(|(ino, _)| *ino);
            (ino.unwrap_or_default(), longest.unwrap_or(0))
        };
        if len >= LOG_RECORDS_MAX {
            return;
        }
        let Some(open) = self.open_once(instance, ino).await else {
            return;
        };
        let value = self.cluster.value();
        let since = self.cluster.millis();
        let change_id = self.shared_state().log().begin(value);
        let bytes = repeat_value(value, SECTOR).into();
        let write =
            instance
                .client
                .write(&open, WritePosition::End, bytes, WriteOptions::default());
        let written = self.call(instance, write).await;
        let now = self.cluster.event_number();
        self.record(format_args!(
            "appends {value}: {:?}",
            written.as_ref().map(|done| done.offset)
        ));
        let mut shared_state = self.cluster.shared_state.lock();
        let log = shared_state.log();
        match written {
            Ok(done) if done.written == SECTOR as u64 => {
                let slot = done.offset as usize / SECTOR;
                assert_eq!(
                    done.offset as usize % SECTOR,
                    0,
                    "an append inside a record"
                );
                let fits = log.answered(now, change_id, |at| *at == slot);
                let lengths: Vec<usize> = log.states().map(|log| log.slots.len()).collect();
                assert!(
                    fits,
                    "c{} appended {value} at {slot}, the possible lengths of the log are {lengths:?}",
                    self.host_number
                );
            }
            other => {
                log.unanswered(now, change_id);
                drop(shared_state);
                let failure = match other {
                    Ok(_) => Failure::Refused(FsError::NoSpace),
                    Err(failure) => failure,
                };
                self.require_excuse("append", &failure, since, false);
            }
        }
    }

    pub(super) async fn read_log(&mut self, instance: ClientInstance<'_>) {
        let ino = self.shared_state().log.as_ref().map(|(ino, _)| *ino);
        let Some(open) = self.open_once(instance, ino.unwrap_or_default()).await else {
            return;
        };
        let (since, begun) = (self.cluster.millis(), self.cluster.event_number());
        let all = (2 * LOG_RECORDS_MAX * SECTOR) as u64;
        let read = instance.client.read(&open, 0, all, ReadOptions::default());
        let read_id = self.shared_state().log().begin_read(begun);
        let found = match self.call(instance, read).await {
            Ok(found) => found.concat(),
            Err(failure) => {
                self.shared_state().log().abandon_read(read_id);
                return self.require_excuse("read of the log", &failure, since, false);
            }
        };
        let now = self.cluster.event_number();
        let found = values(&found)
            .unwrap_or_else(|mismatch| panic!("c{} the log: {mismatch}", self.host_number));
        self.record(format_args!("reads {} records", found.len()));
        let mut shared_state = self.cluster.shared_state.lock();
        let log = shared_state.log();
        let fits = log.observed(now, read_id, |log| is_log(log, &found));
        assert!(
            fits,
            "c{} reads {found:?} in the log, the possible states are {:?}",
            self.host_number,
            log.states().collect::<Vec<_>>()
        );
    }

    /// Uses a file that its only writer has finished and that another program may have removed. A program that has it open must
    /// read all its bytes.
    pub(super) async fn use_finished_file(&mut self, instance: ClientInstance<'_>) {
        let finished: Vec<InodeId> = {
            let shared_state = self.shared_state();
            let all = shared_state.finished.keys().copied();
            let open = all.clone().filter(|ino| self.open.contains_key(ino));
            match self.random.one_in(3) {
                true => all.collect(),
                false => open.collect(),
            }
        };
        if finished.is_empty() {
            return;
        }
        let ino = finished[self.random.below(finished.len() as u64) as usize];
        let (since, caller) = (self.cluster.millis(), caller());
        let open = match self.open.get(&ino).cloned() {
            Some(open) => open,
            None => {
                let flags = self.cluster.open_flags();
                let opened = instance.client.open(&caller, ino, read_write(), flags);
                match self.call(instance, opened).await {
                    Ok(opened) => opened.file,
                    // The file has no name any more.
                    Err(Failure::Refused(FsError::Stale | FsError::NotFound)) => return,
                    Err(failure) => {
                        return self.require_excuse(
                            "open of a finished file",
                            &failure,
                            since,
                            false,
                        );
                    }
                }
            }
        };
        self.open.insert(ino, open.clone());
        if self.random.one_in(6) {
            self.open.remove(&ino);
            let closed = self
                .call(instance, instance.client.release(open.id()))
                .await;
            if let Err(failure) = closed {
                self.require_excuse("close of a finished file", &failure, since, true);
            }
            return;
        }
        self.read_finished_file(instance, &open, since).await;
    }

    async fn read_finished_file(&self, instance: ClientInstance<'_>, open: &OpenFile, since: u64) {
        let ino = open.ino();
        let read = instance
            .client
            .read(open, 0, 200 << 10, ReadOptions::default());
        let found = match self.call(instance, read).await {
            Ok(found) => found.concat(),
            Err(failure) => {
                return self.require_excuse("read of a finished file", &failure, since, false);
            }
        };
        let Some(bytes) = self.shared_state().finished.get(&ino).cloned() else {
            return;
        };
        self.record(format_args!("reads {} bytes of {ino}", found.len()));
        assert!(
            found == *bytes,
            "c{} reads {} bytes of {ino}, not the {} that were written",
            self.host_number,
            found.len(),
            bytes.len()
        );
        if !self.has_name(ino) {
            self.cluster.monitor.count("read of a file without a name");
        }
    }

    /// Whether a file may have a name now.
    fn has_name(&self, ino: InodeId) -> bool {
        let mut shared_state = self.shared_state();
        let inode = shared_state.created_inodes.get(&ino).copied();
        let names = shared_state.names();
        let mut states = names.states();
        states.any(|names| names.values().any(|other| Some(*other) == inode))
    }
}
