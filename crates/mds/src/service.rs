//! Passes metadata requests, and requests about the cluster, to the server, and does nothing else.

use crate::Mds;
use crate::pending_work::ScrubRate;
use gupfs_proto::FsError;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, ClusterRequest, ScrubAction};
use gupfs_proto::meta::{MetaReply, MetaRequest};
use gupfs_proto::resync::ResyncChange;
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<MetaRequest, MetaReply> for Mds {
    async fn handle(self: Arc<Self>, request: MetaRequest) -> MetaReply {
        self.parts.requests.handle_request(request).await
    }
}

impl Service<ClusterRequest, ClusterReply> for Mds {
    async fn handle(self: Arc<Self>, request: ClusterRequest) -> ClusterReply {
        match request {
            ClusterRequest::LegacyReport { address, .. } => Err(FsError::Malformed(format!(
                "the object server at {address} runs an older version: restart it with the version of the metadata server"
            ))),
            ClusterRequest::Report(report) => self.parts.target_records.report(&report, None).await,
            ClusterRequest::ReportOfDomain { report, domain } => {
                let records = &self.parts.target_records;
                records.report(&report, Some(domain)).await
            }
            ClusterRequest::Domains => {
                let (domains, _) = self.parts.targets.failure_domains();
                Ok(ClusterReplyBody::Domains(domains))
            }
            ClusterRequest::Map => Ok(ClusterReplyBody::Map(self.parts.targets.map())),
            // Only the binary that composed the process knows all that runs in it.
            ClusterRequest::Status
            | ClusterRequest::Copies
            | ClusterRequest::ChangeCopies { .. } => Err(FsError::NotSupported),
            ClusterRequest::RegisterTarget { incarnation } => {
                self.parts.target_records.admit(incarnation).await
            }
            ClusterRequest::Verifiers { targets } => {
                self.parts.target_records.retire_verifiers(&targets).await
            }
            ClusterRequest::DeclareLost { ost, while_serving } => {
                let records = &self.parts.target_records;
                records.declare_lost(ost, while_serving).await
            }
            ClusterRequest::AcceptTargetLoss { ost, copy } => {
                self.parts.target_records.accept_copy(ost, copy).await
            }
            ClusterRequest::LostFiles { ost, from } => {
                self.parts.lost_files.next_files(ost, from).await
            }
            ClusterRequest::Drain { ost, action } => {
                self.parts.target_records.drain(ost, action).await
            }
            ClusterRequest::ManageDrain { ost, change } => {
                self.parts.target_records.manage_drain(ost, change).await
            }
            ClusterRequest::DrainRoom { ost, from } => {
                let needs = self.parts.drain_room.next_part(ost, from).await?;
                Ok(ClusterReplyBody::DrainRoom(needs.room))
            }
            ClusterRequest::DrainNeeds { ost, from } => {
                let needs = self.parts.drain_room.next_part(ost, from).await?;
                Ok(ClusterReplyBody::DrainNeeds(needs))
            }
            ClusterRequest::Rebalance { change } => self.parts.rebalance.manage(change).await,
            ClusterRequest::TargetsStop { targets } => {
                self.parts.stopping_targets.tell_sessions(&targets).await
            }
            ClusterRequest::Resync { change } => {
                if change != ResyncChange::Ask {
                    tracing::info!(?change, "an administrator changes the pace of the resync");
                }
                let now = self.parts.clock.boot();
                let state = self.parts.resync.manage(change, now);
                Ok(ClusterReplyBody::Resync(state))
            }
            ClusterRequest::ReportJobs(report) => {
                self.parts.requests.jobs.add_report(&report);
                Ok(ClusterReplyBody::JobsReported)
            }
            ClusterRequest::JobUse { after } => Ok(ClusterReplyBody::JobUse(self.job_use(after))),
            ClusterRequest::RemoveTarget { ost } => self.parts.target_records.remove(ost).await,
            ClusterRequest::Scrub { action } => {
                let scrub = &self.parts.scrub;
                if let ScrubAction::Start { rate } = action {
                    tracing::info!(?rate, "an administrator has all objects scrubbed");
                    scrub.request(ScrubRate(rate));
                }
                Ok(ClusterReplyBody::Scrubbing(scrub.status().summary()))
            }
        }
    }
}
