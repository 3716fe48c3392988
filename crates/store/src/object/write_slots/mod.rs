//! # write_slots: which numbered writes the target has executed
//!
//! Owns   the last numbered write of each slot of a session, in memory and in the slot file.
//! Never  writes a byte of an object; decides the order of writes, as the object's changes do.
//! Enter  at `WriteSlots::claim` for each numbered write; `recover` at a start.
//!
//! A client sends a write again when its connection breaks before the reply. Meanwhile another client may have written the same
//! bytes. So the target executes a number once, also over a kill: the entry of a slot says *begun* before the object's bytes change,
//! and *done* before another write of these bytes may begin.

mod claimed_slot;
mod entry;
mod recover;
mod slot_file;
mod slot_table;

pub(super) use claimed_slot::ClaimedSlot;
pub(super) use recover::recover;

use super::closing::ClosingState;
use super::counters::Counter;
use super::error::{OpenError, error_chain};
use super::limits::WRITE_SLOT_ENTRIES;
use super::sync_point::SyncPoint;
use entry::{ENTRY_LENGTH, WriteSlotEntry, WriteSlotKey};
use gupfs_platform::{Disk, DiskError, DiskErrorKind};
use gupfs_proto::data::WriteNumber;
use gupfs_proto::limits::WRITE_SLOTS;
use gupfs_proto::{FsError, SessionId};
use parking_lot::Mutex;
use slot_file::WriteSlotFile;
use slot_table::{LastWrite, WriteSlotTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct WriteSlots {
    file: WriteSlotFile,
    table: Mutex<WriteSlotTable>,
    /// The sequence number of the last entry that was written.
    sequence: AtomicU64,
    /// Sync point of the slot file.
    pub sync_point: SyncPoint,
    /// The entries that `recover` has changed and the file does not have yet.
    recovered: Mutex<Vec<(u32, LastWrite)>>,
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
            recovered: Mutex::default(),
            repeated: Counter::default(),
            closing,
        })
    }

    /// The slot of a numbered write, once no other write of the slot is under way.
    ///
    /// # Errors
    /// `Malformed` if no correct client sends this number: the slot has a higher one, or is beyond the last slot; `Overloaded` if all
    /// entries of the target belong to writes under way.
    pub async fn claim(
        &self,
        session: SessionId,
        number: WriteNumber,
    ) -> Result<ClaimedSlot<'_>, FsError> {
        let WriteNumber { slot, number } = number;
        if slot >= WRITE_SLOTS {
            return Err(FsError::Malformed(format!("a write in slot {slot}")));
        }
        let key = WriteSlotKey { session, slot };
        let entry = self.table.lock().entry_of(key);
        let (entry_number, last_write) = entry.ok_or(FsError::Overloaded)?;
        let last_write = last_write.lock_owned().await;
        match &*last_write {
            Some(last) if last.number > number => Err(FsError::Malformed(format!(
                "write {number} in slot {slot}, which has had write {}",
                last.number
            ))),
            _ => Ok(ClaimedSlot::new(
                self,
                key,
                number,
                entry_number,
                last_write,
            )),
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

    /// Writes what `recover` decided into the slot file. Call it before the target executes any write: the next start could not
    /// decide it any more.
    pub async fn record_recovered(&self) -> Result<(), DiskError> {
        let recovered = std::mem::take(&mut *self.recovered.lock());
        for (entry_number, last_write) in recovered {
            let last_write = last_write.lock().await.clone();
            match last_write {
                Some(mut entry) => self.write(entry_number, &mut entry).await?,
                None => self.write_bytes(entry_number, &[0; ENTRY_LENGTH]).await?,
            }
        }
        Ok(())
    }

    /// Syncs the slot file.
    pub async fn sync_file(&self) -> Result<(), DiskError> {
        self.file.sync().await
    }

    async fn write(&self, entry_number: u32, entry: &mut WriteSlotEntry) -> Result<(), DiskError> {
        entry.sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        self.write_bytes(entry_number, &entry.encode()).await
    }

    async fn write_bytes(
        &self,
        entry_number: u32,
        bytes: &[u8; ENTRY_LENGTH],
    ) -> Result<(), DiskError> {
        let written = self.file.write(entry_number, bytes).await;
        self.sync_point.note_modified();
        written
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
