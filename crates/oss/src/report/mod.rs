//! # report: an object server's reports on its targets to the metadata server
//!
//! Owns   the report of every second (targets, identities, free space), the execution of the verdicts in its reply, the reports of
//!        write verifiers.
//! Never  decides whether a target may serve.
//! Enter  at `run_reports`, and at `VerifierReporter::report_changes` where the metadata server is in the same process.

mod verifiers;

pub use verifiers::VerifierReporter;

use crate::targets::Oss;
use futures_util::future::join_all;
use gupfs_accounting::JobReporter;
use gupfs_platform::Platform;
use gupfs_proto::cluster::{
    ClusterReply, ClusterReplyBody, ClusterRequest, ObjectInventory, OpenTargetReport, OssReport,
    OwnerMark, StoppingTarget, TargetReport, TargetVerdict,
};
use gupfs_proto::{DomainName, FsError, OstId, OwnerEpoch};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How long a report waits for a target's disk to return its free space.
const SPACE_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends an object server's reports and carries out the metadata server's verdicts.
#[derive(Clone)]
pub struct OssReporter {
    pub oss: Arc<Oss>,
    pub address: String,
    /// The name of this server's failure domain.
    pub domain: Option<DomainName>,
    pub mds: Peer<ClusterRequest, ClusterReply>,
    pub verifiers: Arc<VerifierReporter>,
    pub platform: Platform,
}

/// Intermediate results between reports.
#[derive(Default)]
struct ReportState {
    /// The epoch since which the metadata server asked a target to count its objects.
    counted_since: Mutex<BTreeMap<OstId, OwnerEpoch>>,
    /// The result of that count, until the target serves.
    inventories: Mutex<BTreeMap<OstId, ObjectInventory>>,
    /// Targets that wait, and the reason, so that the log gets it once.
    waiting: Mutex<BTreeMap<OstId, String>>,
}

/// Reports until its task is stopped. `all_have_verdicts` becomes true when the metadata server has sent a verdict on every target:
/// until then it is unknown whether these targets are the ones of the metadata server's records.
pub async fn run_reports(reporter: OssReporter, all_have_verdicts: watch::Sender<bool>) {
    let state = ReportState::default();
    let mut jobs = JobReporter::new(reporter.platform.random.u64());
    loop {
        match reporter.report_and_apply(&state).await {
            // A target has carried out its verdict: the metadata server learns it at once.
            Ok(NextReport::AtOnce) => continue,
            Ok(NextReport::AfterInterval) => {
                all_have_verdicts.send_replace(true);
                reporter.report_jobs(&mut jobs).await;
            }
            Ok(NextReport::MdsNotServing) => {}
            Err(error) => {
                tracing::warn!(%error, "the metadata server did not accept the report of this object server; retrying");
            }
        }
        reporter.platform.clock.sleep(REPORT_INTERVAL).await;
    }
}

/// When to report again.
enum NextReport {
    AtOnce,
    AfterInterval,
    /// The metadata server does not serve yet.
    MdsNotServing,
}

impl OssReporter {
    /// Sends the last report, for targets that were stopped: another process may serve them at once.
    ///
    /// # Errors
    /// As of a request to the metadata server. It notices by itself that reports are missing.
    pub async fn report_stopped(&self) -> Result<(), FsError> {
        self.send_report(&ReportState::default(), true)
            .await
            .map(|_| ())
    }

    /// Tells the metadata server that this server is about to stop its targets; sessions know it when this returns, as far as they answer.
    ///
    /// # Errors
    /// As of a request to the metadata server; `NotSupported` from one of a former version. Sessions notice by themselves that targets do
    /// not answer.
    pub async fn announce_stop(&self) -> Result<(), FsError> {
        let instance = |ost: OstId| {
            let objects = self.oss.objects(ost).ok()?;
            let open_instance = objects.identity().open_instance;
            Some(StoppingTarget { ost, open_instance })
        };
        let targets = self
            .oss
            .osts()
            .iter()
            .copied()
            .filter_map(instance)
            .collect();
        (self.mds.call(ClusterRequest::TargetsStop { targets }))
            .await
            .map(|_| ())
    }

    async fn send_report(
        &self,
        state: &ReportState,
        stopping: bool,
    ) -> Result<ClusterReplyBody, FsError> {
        let osts = self.oss.osts();
        let targets = osts.iter().map(|ost| async move {
            TargetReport {
                ost: *ost,
                open: self.open_report(*ost, state, stopping).await,
            }
        });
        let targets = join_all(targets).await;
        let report = OssReport {
            address: self.address.clone(),
            targets,
            stopping,
        };
        let request = match self.domain {
            Some(domain) => ClusterRequest::ReportOfDomain { report, domain },
            None => ClusterRequest::Report(report),
        };
        self.mds.call(request).await
    }

    async fn report_and_apply(&self, state: &ReportState) -> Result<NextReport, FsError> {
        let requested_at = self.platform.clock.boot();
        let reply = self.send_report(state, false).await?;
        let ClusterReplyBody::Reported {
            verdicts,
            owner,
            capability_keys,
            ..
        } = reply
        else {
            return Err(FsError::Malformed(
                "the reply to 'report' has the wrong type".into(),
            ));
        };
        let mut next = NextReport::AfterInterval;
        let (mut with_verdict, mut serving) = (Vec::new(), Vec::new());
        for (ost, verdict) in verdicts {
            match self.apply_verdict(ost, verdict, &owner, state).await {
                Ok(VerdictResult::Serves) => {
                    with_verdict.push(ost);
                    serving.push(ost);
                }
                Ok(VerdictResult::Refuses) => with_verdict.push(ost),
                Ok(VerdictResult::ReportAgain) => next = NextReport::AtOnce,
                Ok(VerdictResult::Waits) => {}
                Err(why) => {
                    tracing::error!(%ost, why, "a target cannot carry out the metadata server's verdict")
                }
            }
        }
        // No owner: the metadata server checks the targets and does not serve yet.
        if owner == OwnerMark::default() {
            return Ok(match next {
                NextReport::AtOnce => NextReport::AtOnce,
                _ => NextReport::MdsNotServing,
            });
        }
        // Before this server accepts keys, and with them sessions: an `fsync` after a loss of unstable writes must see a new
        // verifier.
        self.verifiers.report_changes().await?;
        // Keys are accepted only after the targets have recorded the owner, so that they can tell its successor from it.
        if let Some(capability_keys) = capability_keys
            && self.have_recorded_owner(&owner, &serving)
        {
            self.oss
                .authorizer()
                .update_keys(&capability_keys, requested_at);
        }
        self.oss.verdicts_arrived(with_verdict);
        Ok(next)
    }

    /// What is not accepted is reported with the next one. A metadata server of a former version does not know jobs.
    async fn report_jobs(&self, jobs: &mut JobReporter) {
        let Some(report) = self.oss.jobs().and_then(|table| jobs.next(table)) else {
            return;
        };
        match self.mds.call(ClusterRequest::ReportJobs(report)).await {
            Ok(_) => jobs.accepted(),
            Err(error) => tracing::debug!(%error, "the report on jobs was not accepted"),
        }
    }

    /// Whether all of these targets have recorded this owner.
    fn have_recorded_owner(&self, owner: &OwnerMark, osts: &[OstId]) -> bool {
        osts.iter().all(|ost| match self.oss.objects(*ost) {
            Ok(objects) => objects.identity().owner.is_same_instance(owner),
            Err(_) => false,
        })
    }

    async fn apply_verdict(
        &self,
        ost: OstId,
        verdict: TargetVerdict,
        owner: &OwnerMark,
        state: &ReportState,
    ) -> Result<VerdictResult, String> {
        let text = |error: FsError| error.to_string();
        let Ok(objects) = self.oss.objects(ost) else {
            return Ok(VerdictResult::Refuses); // the target reports its own reason
        };
        match verdict {
            TargetVerdict::Adopt => {
                objects.adopt(*owner).await.map_err(text)?;
                return Ok(VerdictResult::ReportAgain);
            }
            TargetVerdict::Serve => objects.adopt(*owner).await.map_err(text)?,
            TargetVerdict::RaiseStamp => {
                tracing::warn!(%ost, "a copy of this target is open elsewhere; raising this target's stamp");
                objects.adopt(*owner).await.map_err(text)?;
                objects.raise_stamp_now().await.map_err(text)?;
            }
            TargetVerdict::Wait(why) => {
                let before = state.waiting.lock().insert(ost, why.clone());
                if before.as_ref() != Some(&why) {
                    tracing::warn!(%ost, why, "the target waits and does not serve yet");
                }
                return Ok(VerdictResult::Waits);
            }
            TargetVerdict::ReportInventory { since } => {
                let counted = objects.inventory(since).await.map_err(text)?;
                state.inventories.lock().insert(ost, counted);
                let former = state.counted_since.lock().insert(ost, since);
                return Ok(match former == Some(since) {
                    true => VerdictResult::Waits,
                    false => VerdictResult::ReportAgain,
                });
            }
            TargetVerdict::Refused(why) => {
                tracing::error!(%ost, why, "the metadata server rejects this target; the target serves no requests");
                objects.refuse(why);
                return Ok(VerdictResult::Refuses);
            }
        }
        state.waiting.lock().remove(&ost);
        state.inventories.lock().remove(&ost);
        Ok(VerdictResult::Serves)
    }

    async fn open_report(
        &self,
        ost: OstId,
        state: &ReportState,
        stopping: bool,
    ) -> Result<OpenTargetReport, String> {
        let text = |error: FsError| error.to_string();
        let objects = self.oss.objects(ost).map_err(text)?;
        let space = match stopping {
            true => None,
            false => tokio::select! {
                biased;
                space = objects.space() => Some(space.map_err(text)?),
                // The disk does not respond in time, and the report on the other targets does not wait for it.
                () = self.platform.clock.sleep(SPACE_TIMEOUT) => None,
            },
        };
        Ok(OpenTargetReport {
            identity: objects.identity(),
            space,
            inventory: state.inventories.lock().get(&ost).cloned(),
        })
    }
}

/// The result of a verdict on a target.
enum VerdictResult {
    Serves,
    /// The target serves no requests, and its own error says why.
    Refuses,
    /// The target's next report must follow at once.
    ReportAgain,
    Waits,
}
