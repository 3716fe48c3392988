//! The acceptance of a copy of a target that lacks what the target has served.

use super::TargetRecords;
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, TargetCopy};

impl TargetRecords {
    /// Accepts the refused copy of a target, durably; with None it only returns which one was refused.
    ///
    /// # Errors
    /// `TargetDown` if this is not the copy that was refused last, or none was; of the store.
    pub async fn accept_copy(&self, ost: OstId, accepted: Option<TargetCopy>) -> ClusterReply {
        let Some(copy) = accepted else {
            let refused = self.targets.refused_copy(ost)?;
            return Ok(ClusterReplyBody::RefusedCopy(refused));
        };
        let refused = self.targets.refused_copy(ost)?;
        let known = self.targets.accept_copy(ost, copy)?;
        tracing::warn!(%ost, stamp = copy.stamp, why = refused.why, "an administrator has accepted the loss of what this copy of the target lacks");
        self.stage_record(ost, known)?;
        // Also of an earlier acceptance: its requester may not have received the reply.
        self.make_durable("accept the loss of a target").await?;
        self.placement.update();
        let refused = self.targets.refused_copy(ost);
        refused.map(ClusterReplyBody::RefusedCopy)
    }
}
