//! # write_slots: which numbered writes the target has executed
//!
//! Owns   the last numbered write of each slot of a session, in memory and in the slot file.
//! Never  writes a byte of an object; decides the order of writes, as the object's changes do.
//! Enter  at `WriteSlots::claim` for each numbered write; `recover_writes` at a start.
//!
//! A client sends a write again when its connection breaks before the reply. Meanwhile another client may have written the same
//! bytes. So the target executes a number once, also over a kill: the entry of a slot says *begun* before the object's bytes change,
//! and *done* before another write of these bytes may begin. A sync of the object makes it *synced*; what is not synced is void under
//! the next write verifier, as the bytes are.

mod begun_write;
mod claimed_slot;
mod entry;
mod slot_file;
mod slot_table;
mod unsynced;

pub(super) use begun_write::BegunWrite;
pub(super) use claimed_slot::ClaimedSlot;
pub(super) use unsynced::UnsyncedWrite;

use super::closing::ClosingState;
use super::counters::Counter;
use super::error::{OpenError, error_chain};
use super::limits::WRITE_SLOT_ENTRIES;
use super::sync_point::SyncPoint;
use entry::{ENTRY_LENGTH, WriteProgress, WriteSlotEntry, WriteSlotKey};
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::data::{ObjectStat, WriteNumber};
use gupfs_proto::limits::WRITE_SLOTS;
use gupfs_proto::{FsError, ObjectId, SessionId, WriteVerifier};
use parking_lot::Mutex;
use slot_file::WriteSlotFile;
use slot_table::{EntryCell, WriteSlotTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use unsynced::UnsyncedWrites;

pub(super) struct WriteSlots {
    file: WriteSlotFile,
    table: Mutex<WriteSlotTable>,
    /// The sequence number of the last entry that was written.
    sequence: AtomicU64,
    unsynced: UnsyncedWrites,
    /// Sync point of the slot file.
    pub sync_point: SyncPoint,
    /// The entries that `decide` has changed and the file does not have yet.
    recovered: Mutex<Vec<Arc<EntryCell>>>,
    /// Repeated writes that were answered and not executed.
    pub repeated: Counter,
    closing: Arc<ClosingState>,
}

impl WriteSlots {
    /// Reads the slot file; changes nothing on disk.
    ///
    /// # Errors
    /// `Newer` if a newer gupfs wrote the file, `Disk` if the disk failed.
    pub async fn open(disk: &Disk, closing: Arc<ClosingState>) -> Result<WriteSlots, OpenError> {
        let (file, found) = WriteSlotFile::open(disk).await?;
        let sequences = found.entries.iter().map(|(_, entry)| entry.sequence);
        Ok(WriteSlots {
            sequence: AtomicU64::new(sequences.max().unwrap_or(0)),
            // Before a kill, entries may have been written that are not synced.
            sync_point: match file.exists() {
                true => SyncPoint::unknown(),
                false => SyncPoint::synced(),
            },
            file,
            table: Mutex::new(WriteSlotTable::new(
                found.entries,
                found.end,
                WRITE_SLOT_ENTRIES,
            )),
            unsynced: UnsyncedWrites::default(),
            recovered: Mutex::default(),
            repeated: Counter::default(),
            closing,
        })
    }

    /// The slot of a numbered write, once no other write of the slot is under way. `verifier`: the target's write verifier.
    ///
    /// # Errors
    /// `Malformed` if no correct client sends this number: the slot has a higher one, or is beyond the last slot; `Overloaded` if all
    /// entries of the target belong to writes under way.
    pub async fn claim(
        &self,
        session: SessionId,
        number: WriteNumber,
        verifier: WriteVerifier,
    ) -> Result<ClaimedSlot<'_>, FsError> {
        let WriteNumber { slot, number } = number;
        if slot >= WRITE_SLOTS {
            return Err(FsError::Malformed(format!("a write in slot {slot}")));
        }
        let key = WriteSlotKey { session, slot };
        let entry = self.table.lock().entry_of(key);
        let (cell, running) = entry.ok_or(FsError::Overloaded)?;
        let running = running.lock_owned().await;
        // The entry may still have the last write of the slot that had it before.
        let last = cell.content.lock().await.clone();
        let last = last.filter(|last| last.key == key);
        match &last {
            Some(last) if last.number > number => Err(FsError::Malformed(format!(
                "write {number} in slot {slot}, which has had write {}",
                last.number
            ))),
            _ => Ok(ClaimedSlot {
                slots: self,
                key,
                number,
                verifier,
                cell,
                last,
                _running: running,
            }),
        }
    }

    /// Frees the entries of a session that has ended: no write of it can arrive any more.
    pub fn free(&self, session: SessionId) {
        self.table.lock().free(session);
    }

    /// The number of slots that have an entry.
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Writes what `decide` was told into the slot file. Call it before the target executes any write: the next start could not
    /// decide it any more.
    pub async fn record_recovered(&self) -> Result<(), DiskError> {
        let recovered = std::mem::take(&mut *self.recovered.lock());
        for cell in recovered {
            let content = cell.content.lock().await;
            let bytes = content
                .as_ref()
                .map_or([0; ENTRY_LENGTH], WriteSlotEntry::encode);
            self.write_bytes(&cell, &bytes).await?;
        }
        Ok(())
    }

    /// The numbered writes of an object that a sync which begins now makes durable.
    pub fn unsynced_writes(&self, object: ObjectId) -> Vec<UnsyncedWrite> {
        self.unsynced.of(object)
    }

    /// Writes into the entries of these writes that a sync has made their bytes durable; the caller syncs the slot file then. An entry
    /// that has another write meanwhile is left out: the client has had the reply to the former one.
    pub async fn write_synced(&self, writes: &[UnsyncedWrite]) -> Result<(), DiskError> {
        for write in writes {
            let cell = self.table.lock().cell(write.entry_number);
            let mut content = cell.content.lock().await;
            let Some(entry) = content.as_mut() else {
                continue;
            };
            if let WriteProgress::Done(stat) = entry.progress
                && entry.sequence == write.sequence
            {
                entry.progress = WriteProgress::Synced(stat);
                self.write_bytes(&cell, &entry.encode()).await?;
            }
        }
        Ok(())
    }

    /// The entries of these writes are durable.
    pub fn forget_synced(&self, writes: &[UnsyncedWrite]) {
        writes.iter().for_each(|write| self.unsynced.remove(write));
    }

    /// Syncs the slot file.
    pub async fn sync_file(&self) -> Result<(), DiskError> {
        self.file.sync().await
    }

    /// Writes an entry; it replaces the one of the last write of the slot.
    async fn write(&self, cell: &EntryCell, mut entry: WriteSlotEntry) -> Result<(), DiskError> {
        entry.sequence = self.next_sequence();
        let mut content = cell.content.lock().await;
        self.write_bytes(cell, &entry.encode()).await?;
        if let Some(former) = content.replace(entry) {
            self.unsynced.remove(&former.unsynced(cell.number));
        }
        Ok(())
    }

    /// Writes that the write of an entry is done.
    async fn write_done(&self, cell: &EntryCell, stat: ObjectStat) -> Result<(), DiskError> {
        let mut content = cell.content.lock().await;
        let entry = content.as_mut().expect("the write has begun");
        let done = WriteSlotEntry {
            sequence: self.next_sequence(),
            progress: WriteProgress::Done(stat),
            ..entry.clone()
        };
        self.write_bytes(cell, &done.encode()).await?;
        self.unsynced.insert(done.unsynced(cell.number));
        *entry = done;
        Ok(())
    }

    fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The caller has locked the content of the entry, so that the file gets its versions in their order.
    async fn write_bytes(
        &self,
        cell: &EntryCell,
        bytes: &[u8; ENTRY_LENGTH],
    ) -> Result<(), DiskError> {
        let written = self.file.write(cell.number, bytes).await;
        self.sync_point.note_modified();
        written
    }
}

impl WriteSlotEntry {
    fn unsynced(&self, entry_number: u32) -> UnsyncedWrite {
        UnsyncedWrite {
            object: self.object,
            entry_number,
            sequence: self.sequence,
        }
    }
}

/// The error of a write whose entry could not be written.
fn entry_error(error: &DiskError) -> FsError {
    match error.kind {
        DiskErrorKind::Full => FsError::NoSpace,
        _ => FsError::StoreFailed(format!(
            "an entry of the write slots: {}",
            error_chain(error)
        )),
    }
}
