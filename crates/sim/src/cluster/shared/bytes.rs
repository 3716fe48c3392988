//! Reads and writes of files that other programs write, too.

use super::{Sharer, With};
use crate::cluster::arguments::{both_ways, flags, me};
use crate::cluster::machine::Failure;
use crate::cluster::shared_state::blocks::{BLOCK, SECTOR, fill, is_block, is_log, values};
use crate::cluster::shared_state::{PLACES, show_block};
use gupfs_client::{OpenFile, ReadOptions, WriteOptions};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{FsError, InodeId};
use std::sync::Arc;

/// The log grows no longer: it is read whole, and lies in one object.
const RECORDS: usize = 240;

impl Sharer {
    fn any_file(&self) -> usize {
        let files = self.commons().files.len() as u64;
        self.random.below(files) as usize
    }

    fn any_place(&self) -> u64 {
        PLACES[self.random.below(PLACES.len() as u64) as usize]
    }

    async fn opened(&mut self, with: With<'_>, ino: InodeId) -> Option<Arc<OpenFile>> {
        if let Some(file) = self.open.get(&ino) {
            return Some(file.clone());
        }
        let (since, me) = (self.site.millis(), me());
        let opened = with.client.open(&me, ino, both_ways(), flags());
        match self.call(with, opened).await {
            Ok(opened) => {
                self.open.insert(ino, opened.file.clone());
                Some(opened.file)
            }
            Err(failure) => {
                self.excuse("open", &failure, since, false);
                None
            }
        }
    }

    pub(super) async fn write_block(&mut self, with: With<'_>) {
        let (file, place) = (self.any_file(), self.any_place());
        let ino = self.commons().files[file].ino;
        let Some(open) = self.opened(with, ino).await else {
            return;
        };
        let value = self.site.value();
        let since = self.site.millis();
        let ticket = self.commons().block(file, place).ask(value);
        let at = WritePosition::Offset(place * BLOCK as u64);
        let bytes = fill(value, BLOCK).into();
        let write = with.client.write(&open, at, bytes, WriteOptions::default());
        let written = self.call(with, write).await;
        let now = self.site.moment();
        self.say(format_args!(
            "writes {value} to block {place} of {file}: {:?}",
            written.as_ref().map(|done| done.written)
        ));
        let mut commons = self.site.commons.lock();
        let block = commons.block(file, place);
        match written {
            Ok(done) if done.written == BLOCK as u64 => {
                assert!(
                    block.answered(now, ticket, |()| true),
                    "a write fits always"
                );
            }
            // A part of it had room.
            Ok(_) | Err(Failure::Refused(FsError::NoSpace)) => {
                block.unanswered(now, ticket);
                block.cut(now);
                drop(commons);
                let failure = Failure::Refused(FsError::NoSpace);
                self.excuse("write of a block", &failure, since, false);
            }
            Err(failure) => {
                block.unanswered(now, ticket);
                drop(commons);
                self.excuse("write of a block", &failure, since, false);
            }
        }
    }

    pub(super) async fn read_block(&mut self, with: With<'_>) {
        let (file, place) = (self.any_file(), self.any_place());
        self.read_one_block(with, file, place).await;
    }

    pub(super) async fn read_one_block(&mut self, with: With<'_>, file: usize, place: u64) {
        let ino = self.commons().files[file].ino;
        let Some(open) = self.opened(with, ino).await else {
            return;
        };
        let (since, begun) = (self.site.millis(), self.site.moment());
        let at = place * BLOCK as u64;
        let read = with
            .client
            .read(&open, at, BLOCK as u64, ReadOptions::default());
        self.commons().looks.insert(self.machine, begun);
        let read = self.call(with, read).await;
        self.commons().looks.remove(&self.machine);
        let found = match read {
            Ok(found) => found.concat(),
            Err(failure) => return self.excuse("read of a block", &failure, since, false),
        };
        let now = self.site.moment();
        let found = values(&found)
            .unwrap_or_else(|wrong| panic!("c{} block {place} of {file}: {wrong}", self.machine));
        self.say(format_args!(
            "reads block {place} of {file}: {:?}",
            found.first()
        ));
        let mut commons = self.site.commons.lock();
        let block = commons.block(file, place);
        let fits = block.looked(begun, now, |state| is_block(state, &found));
        let may_be: Vec<String> = block.states().map(show_block).collect();
        assert!(
            fits,
            "c{} reads {found:?} in block {place} of {file}, and it is one of {may_be:?}",
            self.machine
        );
    }

    pub(super) async fn sync_file(&mut self, with: With<'_>) {
        let file = self.any_file();
        let is_log = self.random.one_in(3);
        let ino = match is_log {
            true => self.commons().log.as_ref().map(|(ino, _)| *ino),
            false => Some(self.commons().files[file].ino),
        };
        let Some(ino) = ino else { return };
        let Some(open) = self.opened(with, ino).await else {
            return;
        };
        let (since, begun) = (self.site.millis(), self.site.moment());
        let cuts = self.site.troubles.cuts();
        let data_only = self.random.one_in(2);
        match self.call(with, with.client.fsync(&open, data_only)).await {
            Ok(()) if cuts == self.site.troubles.cuts() => {
                self.say(format_args!("fsync of {ino}"));
                let mut commons = self.site.commons.lock();
                let before = commons.looks.values().copied().fold(begun, u64::min);
                match is_log {
                    true => commons.log().synced(before),
                    false => {
                        let blocks = commons.files[file].blocks.values_mut();
                        blocks.for_each(|block| block.synced(before));
                    }
                }
            }
            Ok(()) => {}
            Err(failure) => self.excuse("fsync", &failure, since, true),
        }
    }

    pub(super) async fn append(&mut self, with: With<'_>) {
        let (ino, len) = {
            let mut commons = self.commons();
            let longest = commons.log().states().map(|log| log.slots.len()).max();
            let ino = commons.log.as_ref().map(|(ino, _)| *ino);
            (ino.unwrap_or_default(), longest.unwrap_or(0))
        };
        if len >= RECORDS {
            return;
        }
        let Some(open) = self.opened(with, ino).await else {
            return;
        };
        let value = self.site.value();
        let since = self.site.millis();
        let ticket = self.commons().log().ask(value);
        let bytes = fill(value, SECTOR).into();
        let write = with
            .client
            .write(&open, WritePosition::End, bytes, WriteOptions::default());
        let written = self.call(with, write).await;
        let now = self.site.moment();
        self.say(format_args!(
            "appends {value}: {:?}",
            written.as_ref().map(|done| done.offset)
        ));
        let mut commons = self.site.commons.lock();
        let log = commons.log();
        match written {
            Ok(done) if done.written == SECTOR as u64 => {
                let slot = done.offset as usize / SECTOR;
                assert_eq!(done.offset as usize % SECTOR, 0, "an append in between");
                let fits = log.answered(now, ticket, |at| *at == slot);
                let lens: Vec<usize> = log.states().map(|log| log.slots.len()).collect();
                assert!(
                    fits,
                    "c{} appended {value} at {slot}, and the log has one of these lengths: {lens:?}",
                    self.machine
                );
            }
            other => {
                log.unanswered(now, ticket);
                drop(commons);
                let failure = match other {
                    Ok(_) => Failure::Refused(FsError::NoSpace),
                    Err(failure) => failure,
                };
                self.excuse("append", &failure, since, false);
            }
        }
    }

    pub(super) async fn read_log(&mut self, with: With<'_>) {
        let ino = self.commons().log.as_ref().map(|(ino, _)| *ino);
        let Some(open) = self.opened(with, ino.unwrap_or_default()).await else {
            return;
        };
        let (since, begun) = (self.site.millis(), self.site.moment());
        let all = (2 * RECORDS * SECTOR) as u64;
        let read = with.client.read(&open, 0, all, ReadOptions::default());
        self.commons().looks.insert(self.machine, begun);
        let read = self.call(with, read).await;
        self.commons().looks.remove(&self.machine);
        let found = match read {
            Ok(found) => found.concat(),
            Err(failure) => return self.excuse("read of the log", &failure, since, false),
        };
        let now = self.site.moment();
        let found =
            values(&found).unwrap_or_else(|wrong| panic!("c{} the log: {wrong}", self.machine));
        self.say(format_args!("reads {} records", found.len()));
        let mut commons = self.site.commons.lock();
        let log = commons.log();
        let fits = log.looked(begun, now, |log| is_log(log, &found));
        assert!(
            fits,
            "c{} reads {found:?} in the log, and it is one of {:?}",
            self.machine,
            log.states().collect::<Vec<_>>()
        );
    }

    /// A file with one finished writer, which another program may have removed: a program that has it open reads what
    /// was written.
    pub(super) async fn use_kept(&mut self, with: With<'_>) {
        let kept: Vec<InodeId> = {
            let commons = self.commons();
            let all = commons.kept.keys().copied();
            let open = all.clone().filter(|ino| self.open.contains_key(ino));
            match self.random.one_in(3) {
                true => all.collect(),
                false => open.collect(),
            }
        };
        if kept.is_empty() {
            return;
        }
        let ino = kept[self.random.below(kept.len() as u64) as usize];
        let (since, me) = (self.site.millis(), me());
        let known = self.open.get(&ino).cloned();
        let open = match known {
            Some(open) => open,
            None => match self
                .call(with, with.client.open(&me, ino, both_ways(), flags()))
                .await
            {
                Ok(opened) => opened.file,
                // It has no name any more.
                Err(Failure::Refused(FsError::Stale | FsError::NotFound)) => return,
                Err(failure) => return self.excuse("open of a kept file", &failure, since, false),
            },
        };
        self.open.insert(ino, open.clone());
        if self.random.one_in(6) {
            self.open.remove(&ino);
            let closed = self.call(with, with.client.release(open.id())).await;
            if let Err(failure) = closed {
                self.excuse("close of a kept file", &failure, since, true);
            }
            return;
        }
        let read = with
            .client
            .read(&open, 0, 200 << 10, ReadOptions::default());
        let found = match self.call(with, read).await {
            Ok(found) => found.concat(),
            Err(failure) => return self.excuse("read of a kept file", &failure, since, false),
        };
        let Some(bytes) = self.commons().kept.get(&ino).cloned() else {
            return;
        };
        self.say(format_args!("reads {} bytes of {ino}", found.len()));
        assert!(
            found == *bytes,
            "c{} reads {} bytes of {ino}, not the {} that were written",
            self.machine,
            found.len(),
            bytes.len()
        );
        let has_name = {
            let mut commons = self.commons();
            let thing = commons.things.get(&ino).copied();
            let names = commons.names();
            let mut states = names.states();
            states.any(|names| names.values().any(|other| Some(*other) == thing))
        };
        if !has_name {
            self.site.watch.count("read of a file without a name");
        }
    }
}
