//! reserve: space of the target that a client needs for bytes which it sends later; and the writes into it.

use super::Objects;
use super::space_ledger::SpaceSource;
use super::write::WriteRequest;
use gupfs_proto::data::{ObjectStat, SpaceReservation};
use gupfs_proto::{FsError, SessionId};

impl Objects {
    /// Keeps `bytes` in all for this session, or as many as there are for it.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, `StoreFailed` if the file system does not answer.
    pub async fn reserve(
        &self,
        session: SessionId,
        bytes: u64,
    ) -> Result<SpaceReservation, FsError> {
        self.writable()?.free_space.reserve(session, bytes).await
    }

    /// Writes all of the data, or fails, and takes the space from the session's reservation, as far as that is enough. Returns the object's
    /// state, and what the session has reserved now: the target reserves again what was written, if there is space.
    ///
    /// # Errors
    /// As of `write`. The reservation may be smaller then.
    pub async fn write_reserved(
        &self,
        write: WriteRequest<'_>,
        session: SessionId,
    ) -> Result<(ObjectStat, SpaceReservation), FsError> {
        tracing::trace!(target: "walk", file = file!(), "write_reserved");
        let free_space = &self.writable()?.free_space;
        let source = SpaceSource::ReservedBy(session);
        let stat = self.execute_write(&write, None, source).await?;
        Ok((stat, free_space.refill(session).await))
    }

    /// Another target of this server has its objects on the same file system.
    pub fn set_shared_volume(&self) {
        self.target().writing.free_space.set_shared();
    }

    /// Frees what is reserved for a session that has ended.
    pub fn free_reservation(&self, session: SessionId) {
        self.target().writing.free_space.free(session);
    }
}
