//! A slot while its write executes.

use super::entry::{WriteProgress, WriteSlotEntry, WriteSlotKey};
use super::slot_table::EntryCell;
use super::{WriteSlots, entry_error};
use crate::object::error::error_chain;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, ObjectId, WriteVerifier};
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

pub(in crate::object) struct ClaimedSlot<'a> {
    pub(super) slots: &'a WriteSlots,
    pub(super) key: WriteSlotKey,
    pub(super) number: u64,
    pub(super) verifier: WriteVerifier,
    pub(super) cell: Arc<EntryCell>,
    /// The last write of the slot, if there was one.
    pub(super) last: Option<WriteSlotEntry>,
    pub(super) _running: OwnedMutexGuard<()>,
}

impl ClaimedSlot<'_> {
    /// The reply to this write, if the target has executed it. A write of the same number that is another one is none of this session: a
    /// restored metadata server may give the id of a lost session again.
    pub fn remembered_reply(
        &self,
        object: ObjectId,
        range: &Range<u64>,
        data: &[u8],
    ) -> Option<ObjectStat> {
        let last = self.last.as_ref();
        let last =
            last.filter(|last| last.number == self.number && last.is_valid(self.verifier))?;
        let stat = last.progress.stat()?;
        let is_same = last.object == object && last.range == *range;
        if !is_same || last.data_sum != crc32c::crc32c(data) {
            return None;
        }
        self.slots.repeated.add(1);
        Some(stat)
    }

    /// Records that the bytes of the object are about to change. The caller has begun a change of this range, so that no other write
    /// changes them before `finish`.
    ///
    /// # Errors
    /// `NoSpace` or `StoreFailed` if the entry cannot be written.
    pub async fn begin(
        &mut self,
        object: ObjectId,
        range: &Range<u64>,
        data: &[u8],
    ) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "begin");
        let entry = WriteSlotEntry {
            key: self.key,
            number: self.number,
            sequence: 0,
            object,
            range: range.clone(),
            data_sum: crc32c::crc32c(data),
            verifier: self.verifier,
            progress: WriteProgress::Begun,
        };
        let written = self.slots.write(&self.cell, entry).await;
        written.map_err(|error| entry_error(&error))
    }

    /// Records that the write is done, before its change ends.
    ///
    /// # Errors
    /// `TargetDown` if the entry cannot be written. Then the target is closed: the next start finds the bytes of the write and the
    /// entry that says *begun*, and completes it. If this instance executed another write of these bytes, that start could not do so.
    pub async fn finish(&mut self, stat: ObjectStat) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "finish");
        let written = self.slots.write_done(&self.cell, stat).await;
        written.map_err(|error| {
            let why = error_chain(&error);
            let closing = &self.slots.closing;
            closing.close(format!(
                "an entry of the write slots was not written: {why}"
            ))
        })
    }
}
