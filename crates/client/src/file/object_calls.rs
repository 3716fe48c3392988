//! Calls about single objects, and what their replies change in the inode's state.

use super::inode_table::ActiveInode;
use crate::join;
use crate::limits::REMOTE_MESSAGE_MAX;
use crate::reply;
use crate::service::Client;
use gupfs_proto::data::{self, ObjectExistence};
use gupfs_proto::limits::PAYLOAD_MAX;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Attr, Caller, FsError, ObjectId, OstId, Presence};

/// The expectation to send to the target for an object of this presence.
pub fn required_existence(presence: Presence) -> ObjectExistence {
    match presence {
        Presence::Present => ObjectExistence::MustExist,
        Presence::Never | Presence::Maybe => ObjectExistence::MayExist,
    }
}

impl Client {
    /// Bytes of one message to a target; a target in this process gets the largest.
    pub(super) fn message_bytes_max(&self) -> u64 {
        match self.route.uses_map() {
            true => REMOTE_MESSAGE_MAX,
            false => PAYLOAD_MAX.0,
        }
    }

    /// Sends a stat for each object whose blocks or existence are not known.
    pub(super) async fn stat_unknown_objects(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let unknown = inode.state().unknown_objects(inode.ino);
        if unknown.is_empty() {
            return Ok(());
        }
        let asked = unknown.into_iter().map(|(ost, object)| async move {
            let op = data::DataOp::Stat { object };
            match self.call_ost(ost, op).await? {
                data::DataReplyBody::Stat(stat) => Ok((object, stat)),
                _ => reply::unexpected("stat"),
            }
        });
        for found in join::all(asked.collect()).await {
            let (object, stat) = found?;
            inode.state().object_learned(object, stat);
        }
        Ok(())
    }

    /// Fills the blocks of a leased file into its attributes, after a stat of the objects whose blocks are not known yet.
    pub(crate) async fn fill_blocks(
        &self,
        inode: &ActiveInode,
        attr: &mut Attr,
    ) -> Result<(), FsError> {
        if inode.state().has_write_lease {
            self.stat_unknown_objects(inode).await?;
        }
        if let Some(blocks) = inode.state().authoritative_blocks() {
            attr.blocks = blocks;
        }
        Ok(())
    }

    /// Truncates leftovers of failed writes behind the end of the file before the file grows over them: that range must read
    /// zeros. The caller has locked everything from the file's end on, and `reporting`.
    pub(super) async fn truncate_leftovers(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if inode.state().has_pending_truncate {
            return self.request_pending_truncate(inode).await;
        }
        self.truncate_leftover_objects(inode).await
    }

    /// The same for a caller that has not locked `reporting`.
    pub(super) async fn truncate_leftovers_before_growth(
        &self,
        inode: &ActiveInode,
    ) -> Result<(), FsError> {
        let is_clean = {
            let state = inode.state();
            state.leftover_end <= state.size && !state.has_pending_truncate
        };
        if is_clean {
            return Ok(());
        }
        let _reporting = inode.reporting.lock().await;
        self.truncate_leftovers(inode).await
    }

    async fn truncate_leftover_objects(&self, inode: &ActiveInode) -> Result<(), FsError> {
        let leftovers: Vec<(usize, usize, OstId, ObjectId, u64)> = {
            let mut state = inode.state();
            if state.leftover_end <= state.size {
                return Ok(());
            }
            let (size, leftover_end) = (state.size, state.leftover_end);
            let spans = state.spans(inode.ino, size, leftover_end);
            let leftovers = spans
                .into_iter()
                .filter(|span| span.presence != Presence::Never);
            let leftovers: Vec<_> = leftovers
                .map(|s| (s.component, s.stripe, s.ost, s.object, s.at.0))
                .collect();
            for leftover in &leftovers {
                state.mark_object_dirty(leftover.0, leftover.1);
            }
            leftovers
        };
        let truncates =
            leftovers
                .into_iter()
                .map(|(component, stripe, ost, object, to)| async move {
                    let reply = self
                        .call_ost(ost, data::DataOp::Truncate { object, to })
                        .await?;
                    let stat = reply::written("truncate", reply)?;
                    inode.state().object_cleared(component, stripe, stat);
                    Ok(())
                });
        // Each is tried, also when one fails; the truncated objects have a new mtime.
        let outcomes = join::all(truncates.collect()).await;
        let mut state = inode.state();
        if state.has_write_lease {
            state.data_changed(0, self.platform.clock.now());
        }
        outcomes.into_iter().collect::<Result<(), FsError>>()?;
        state.leftover_end = state.size;
        Ok(())
    }

    /// Makes the server record the file's size and a pending truncate of everything behind it. From then on the leftovers do not
    /// become part of the file if this client dies, and the server truncates them as soon as the OST accepts it. Ok when that is
    /// done. The caller has locked `reporting`.
    async fn request_pending_truncate(&self, inode: &ActiveInode) -> Result<(), FsError> {
        self.report_attrs(inode).await?;
        let to = {
            let mut state = inode.state();
            state.has_pending_truncate = true;
            state.size
        };
        let op = MetaOp::Truncate {
            ino: inode.ino,
            to,
            by_handle: true,
            kill_privileges: false,
        };
        let reply = self.call_mds(&Caller::root(), op).await?;
        let opened = reply::opened("truncate", reply)?;
        self.inodes.invalidate_replies(inode.ino);
        inode.state().load_after_truncate(opened);
        Ok(())
    }

    /// Cleans up after a change that failed half way. If this client dies, recovery takes size and time from the objects, so this
    /// truncates the leftovers behind the file's end, and the objects' new mtime becomes the file's. If an OST refuses the
    /// truncate, the server records it as pending.
    pub(super) async fn clean_up_after_failure(&self, inode: &ActiveInode, has_end: bool) {
        if has_end && let Err(error) = self.truncate_leftovers_before_growth(inode).await {
            let _reporting = inode.reporting.lock().await;
            // The server's reply is an error, too, as long as the OST refuses; its record stays.
            let pending_truncate = self.request_pending_truncate(inode).await;
            tracing::warn!(
                ino = %inode.ino, %error, ?pending_truncate,
                "an OST could not truncate what a failed write left behind the file's end; the metadata server retries it in the background"
            );
        }
        inode.state().data_changed(0, self.platform.clock.now());
    }
}
