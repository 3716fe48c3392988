//! A slot while its write executes.

use super::entry::{RememberedReply, WriteSlotEntry, WriteSlotKey};
use super::{WriteSlots, entry_error};
use crate::object::error::error_chain;
use crate::object::object::Object;
use gupfs_proto::{FsError, ObjectId};
use std::ops::Range;
use tokio::sync::OwnedMutexGuard;

pub(in crate::object) struct ClaimedSlot<'a> {
    slots: &'a WriteSlots,
    key: WriteSlotKey,
    number: u64,
    entry_number: u32,
    last_write: OwnedMutexGuard<Option<WriteSlotEntry>>,
}

impl<'a> ClaimedSlot<'a> {
    pub(super) fn new(
        slots: &'a WriteSlots,
        key: WriteSlotKey,
        number: u64,
        entry_number: u32,
        last_write: OwnedMutexGuard<Option<WriteSlotEntry>>,
    ) -> ClaimedSlot<'a> {
        ClaimedSlot {
            slots,
            key,
            number,
            entry_number,
            last_write,
        }
    }

    /// The reply to this write, if the target has executed it.
    pub fn remembered_reply(&self) -> Option<RememberedReply> {
        let last = self.last_write.as_ref();
        let reply = last.filter(|last| last.number == self.number)?.reply?;
        self.slots.repeated.add(1);
        Some(reply)
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
        let mut entry = WriteSlotEntry {
            key: self.key,
            number: self.number,
            sequence: 0,
            object,
            range: range.clone(),
            data_sum: crc32c::crc32c(data),
            reply: None,
        };
        let written = self.slots.write(self.entry_number, &mut entry).await;
        written.map_err(|error| entry_error(&error))?;
        *self.last_write = Some(entry);
        Ok(())
    }

    /// Records that the write is done, before its change ends.
    ///
    /// # Errors
    /// `TargetDown` if the entry cannot be written. Then the target is closed: the next start finds the bytes of the write and the
    /// entry that says *begun*, and completes it. If this instance executed another write of these bytes, that start could not do so.
    pub async fn finish(&mut self, object: &Object, reply: RememberedReply) -> Result<(), FsError> {
        tracing::trace!(target: "walk", file = file!(), "finish");
        let last = self.last_write.as_mut();
        let entry = last.expect("the write has begun");
        let mut done = WriteSlotEntry {
            reply: Some(reply),
            ..entry.clone()
        };
        let written = self.slots.write(self.entry_number, &mut done).await;
        written.map_err(|error| {
            let why = error_chain(&error);
            let closing = &self.slots.closing;
            closing.close(format!(
                "an entry of the write slots was not written: {why}"
            ))
        })?;
        *entry = done;
        object.note_numbered_write(self.slots.sync_point.current_modification());
        Ok(())
    }
}
