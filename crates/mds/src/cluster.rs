//! Requests of object servers and clients about the cluster.

use crate::Mds;
use crate::core::Core;
use crate::osts::ReportOutcome;
use crate::waits::RequestOrigin;
use gupfs_proto::cluster::{
    ClusterReply, ClusterReplyBody, ClusterRequest, OssReport, TargetVerdict,
};
use gupfs_proto::{FsError, Incarnation};
use gupfs_rpc::Service;
use std::sync::Arc;

impl Service<ClusterRequest, ClusterReply> for Mds {
    async fn handle(self: Arc<Self>, request: ClusterRequest) -> ClusterReply {
        match request {
            ClusterRequest::LegacyReport { address, .. } => Err(FsError::Malformed(format!(
                "the object server at {address} runs an older version: restart it with the version of the metadata server"
            ))),
            ClusterRequest::Report(report) => self.core.report(&report).await,
            ClusterRequest::Map => Ok(ClusterReplyBody::Map(self.core.targets.map())),
            // Only the binary that composed the process knows all that runs in it.
            ClusterRequest::Status => Err(FsError::NotSupported),
            ClusterRequest::RegisterTarget { incarnation } => self.core.admit(incarnation).await,
            ClusterRequest::Verifiers { targets } => self.core.retire_verifiers(&targets).await,
        }
    }
}

impl Core {
    /// Handles a server's report on its targets. A target's new identity is durable before the server learns what to do.
    async fn report(&self, report: &OssReport) -> ClusterReply {
        let (mut verdicts, mut serve) = (Vec::new(), Vec::new());
        for target in &report.targets {
            match self
                .targets
                .report(&report.address, target, report.stopping)?
            {
                ReportOutcome::Verdict(verdict, record) => {
                    self.record_target(target.ost, record).await?;
                    if matches!(verdict, TargetVerdict::Serve | TargetVerdict::RaiseStamp) {
                        serve.push(target.ost);
                    }
                    verdicts.push((target.ost, verdict));
                }
                ReportOutcome::StoreOutdated(why) => return Err(self.fail_because(why)),
            }
        }
        self.update_placement();
        Ok(ClusterReplyBody::Reported {
            map_epoch: self.targets.epoch(),
            verdicts,
            owner: self.owner_mark(),
            // A target proves itself by its open instance, which no process but the metadata server learns; a connection that
            // proved none gets no key share.
            capability_keys: (self.targets.issuer())
                .filter(|_| !serve.is_empty())
                .map(|issuer| issuer.capability_keys(&serve)),
        })
    }

    async fn admit(&self, incarnation: Incarnation) -> ClusterReply {
        let (ost, record) = self.targets.admit(incarnation)?;
        self.record_target(ost, record.map(|known| (known, true)))
            .await?;
        // Also when it was admitted before: the earlier requester may not have received its reply.
        let seq = self.kv.last_seq();
        self.durable(RequestOrigin::server("admit a target"), seq)
            .await?;
        Ok(ClusterReplyBody::TargetRegistered { ost })
    }
}
