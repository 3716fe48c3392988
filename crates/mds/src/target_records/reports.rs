//! The reports of object servers on their targets, and the admission of new targets.

use super::TargetRecords;
use crate::origin::RequestOrigin;
use crate::osts::{ReportOutcome, ReportingServer};
use crate::restarted_targets::MissingBytes;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, OssReport, TargetVerdict};
use gupfs_proto::{DomainName, Incarnation, OstId};

impl TargetRecords {
    /// Handles a server's report on its targets. A target's new identity is durable before the server learns what to do.
    pub async fn report(&self, report: &OssReport, domain: Option<DomainName>) -> ClusterReply {
        let server = ReportingServer {
            address: &report.address,
            domain,
            stopping: report.stopping,
        };
        let (mut verdicts, mut serve) = (Vec::new(), Vec::new());
        for target in &report.targets {
            match self.targets.report(server, target)? {
                ReportOutcome::Verdict(verdict, record) => {
                    self.record_target(target.ost, record).await?;
                    if matches!(verdict, TargetVerdict::Serve | TargetVerdict::RaiseStamp) {
                        serve.push(target.ost);
                    }
                    verdicts.push((target.ost, verdict));
                }
                ReportOutcome::StoreOutdated(why) => return Err(self.serving.fail_because(why)),
            }
        }
        self.placement.update();
        // After all targets of the report: this takes a while, and the server's next process may have reported in between.
        for (ost, verdict) in &mut verdicts {
            if *verdict == TargetVerdict::Adopt {
                self.hold_until_left_out(*ost, verdict, report).await;
            }
        }
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

    /// A target serves only when no session uses its members of mirrored files that may lack writes.
    async fn hold_until_left_out(
        &self,
        ost: OstId,
        verdict: &mut TargetVerdict,
        report: &OssReport,
    ) {
        let mut targets = report.targets.iter();
        let open = targets.find(|target| target.ost == ost);
        let Some(Ok(open)) = open.map(|target| &target.open) else {
            return;
        };
        let instance = open.identity.open_instance;
        let missing = self.missing_bytes(ost);
        if !self.restarted.has_left_out(ost, instance, missing).await {
            let why = "sessions are being told that its members of mirrored files may lack writes";
            *verdict = TargetVerdict::Wait(why.into());
        }
    }

    /// What a target may lack that is told to adopt this owner.
    pub(super) fn missing_bytes(&self, ost: OstId) -> MissingBytes {
        let known = self.targets.recorded(ost);
        match known.is_some_and(|known| known.accepted.is_some()) {
            true => MissingBytes::Any,
            false => MissingBytes::Unsynced,
        }
    }

    /// Gives a target that is about to be initialised its number, durably.
    pub async fn admit(&self, incarnation: Incarnation) -> ClusterReply {
        let (ost, record) = self.targets.admit(incarnation)?;
        self.record_target(ost, record.map(|known| (known, true)))
            .await?;
        // Also when it was admitted before: the earlier requester may not have received its reply.
        let seq = self.store.last_seq();
        self.store
            .durable(RequestOrigin::server("admit a target"), seq)
            .await?;
        Ok(ClusterReplyBody::TargetRegistered { ost })
    }
}
