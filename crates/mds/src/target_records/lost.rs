//! The declaration that a target is lost for ever.

use super::TargetRecords;
use crate::origin::RequestOrigin;
use crate::osts::LossDeclaration;
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody};

impl TargetRecords {
    /// Declares that a target is lost, durably.
    ///
    /// # Errors
    /// `TargetDown` for a target that was never recorded; of the store.
    pub async fn declare_lost(&self, ost: OstId, while_serving: bool) -> ClusterReply {
        tracing::trace!(target: "walk", file = file!(), "declare_lost");
        let now = self.clock.now();
        let (since, is_new) = match self.targets.declare_lost(ost, while_serving, now)? {
            LossDeclaration::Serves(address) => {
                return Ok(ClusterReplyBody::TargetServes { address });
            }
            LossDeclaration::Known(since) => (since, false),
            LossDeclaration::New(known) => {
                tracing::warn!(%ost, "the target was declared lost: reads and writes of bytes that were only there fail with EIO");
                self.stage_record(ost, known)?;
                (now, true)
            }
        };
        self.placement.update();
        // Also of an earlier declaration: its requester may not have received the reply.
        let seq = self.store.last_seq();
        let origin = RequestOrigin::server("declare a target lost");
        self.store.durable(origin, seq).await?;
        self.replacement.expect();
        Ok(ClusterReplyBody::TargetLost { since, is_new })
    }
}
