//! write_numbered: a write that the target executes once, however often a client sends it.

use super::Objects;
use super::space_ledger::SpaceSource;
use super::write::{WriteRequest, checked_range};
use gupfs_proto::data::{ObjectStat, WriteNumber};
use gupfs_proto::{FsError, SessionId};

impl Objects {
    /// Writes all of the data, or fails; a write that was executed before, by this or a former instance, changes nothing, unless a
    /// power loss may have undone it. Returns the object's state after the write.
    ///
    /// # Errors
    /// As of `write`. `Malformed` also for a number below that of a former write in the slot.
    pub async fn write_numbered(
        &self,
        write: WriteRequest<'_>,
        session: SessionId,
        number: WriteNumber,
    ) -> Result<ObjectStat, FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_numbered");
        let slots = &self.writable()?.write_slots;
        let claimed = slots.claim(session, number, self.write_verifier());
        let mut slot = claimed.await?;
        let range = checked_range(write.at, write.data.len() as u64)?;
        match slot.remembered_reply(write.object, &range, write.data) {
            Some(stat) => Ok(stat),
            None => {
                let source = SpaceSource::Unreserved;
                self.execute_write(&write, Some(&mut slot), source).await
            }
        }
    }

    /// Frees what the target remembers of the numbered writes of a session that has ended.
    pub fn free_write_slots(&self, session: SessionId) {
        self.target().writing.write_slots.free(session);
    }
}
