//! The admission of local targets.

use super::TargetRecords;
use crate::osts::{LocalTargetAction, TargetAdmin};
use gupfs_proto::{FsError, OstId};
use std::sync::Arc;

impl TargetRecords {
    /// Checks a local target, and records its identity before it is told to serve.
    pub async fn admit_local_target(
        &self,
        ost: OstId,
        admin: Result<Arc<dyn TargetAdmin>, String>,
    ) -> Result<(), FsError> {
        let admin = admin.map_err(|why| self.targets.mark_local_down(ost, &why))?;
        // After `adopt` the target's identity shows that it has written the new owner down.
        for _ in 0..3 {
            match self.targets.check_local(ost, &admin.identity())? {
                LocalTargetAction::Adopt(record) => {
                    self.record_target(ost, record).await?;
                    let missing = self.missing_bytes(ost);
                    self.restarted.leave_out_target(ost, missing).await?;
                    let adopted = admin.adopt(self.owner_mark()).await;
                    adopted.map_err(|why| self.targets.mark_local_down(ost, &why))?;
                }
                LocalTargetAction::Serve(record) => {
                    self.record_target(ost, record).await?;
                    self.targets.mark_local_up(ost);
                    let adopted = admin.adopt(self.owner_mark()).await;
                    return adopted.map_err(|why| self.targets.mark_local_down(ost, &why));
                }
                LocalTargetAction::StoreOutdated(why) => {
                    return Err(self.serving.fail_because(why));
                }
            }
        }
        Err(self.targets.mark_local_down(
            ost,
            "it did not record this server as its owner after three requests",
        ))
    }
}
