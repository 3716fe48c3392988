//! write_numbered: a write that the target executes once, however often a client sends it.

use super::Objects;
use super::write::WriteRequest;
use gupfs_proto::data::{ObjectStat, WriteNumber};
use gupfs_proto::{FsError, SessionId, WriteVerifier};

impl Objects {
    /// Writes all of the data, or fails; a write that was executed before, by this or a former instance, changes nothing. Returns the
    /// object's state after the write, and the write verifier of the instance that executed it.
    ///
    /// # Errors
    /// As of `write`. `Malformed` also for a number below that of a former write in the slot.
    pub async fn write_numbered(
        &self,
        write: WriteRequest<'_>,
        session: SessionId,
        number: WriteNumber,
    ) -> Result<(ObjectStat, WriteVerifier), FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_numbered");
        let slots = &self.writable()?.write_slots;
        let mut slot = slots.claim(session, number).await?;
        if let Some(reply) = slot.remembered_reply() {
            return Ok(reply);
        }
        let stat = self.execute_write(&write, Some(&mut slot)).await?;
        Ok((stat, self.write_verifier()))
    }

    /// Frees what the target remembers of the numbered writes of a session that has ended.
    pub fn free_write_slots(&self, session: SessionId) {
        self.target().writing.write_slots.free(session);
    }
}
