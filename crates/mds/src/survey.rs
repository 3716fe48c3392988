//! # survey: what targets know and store that this metadata store does not
//!
//! Owns   the reports of object servers before a start that accepts a loss, and the resulting loss that the operator sees.
//! Never  tells a target to serve, or changes a record.
//! Enter  at `TargetSurvey::new`; `TargetSurvey::wait_for_reports` returns when all targets have reported, or after its time
//!        limit.

use crate::error::StartError;
use crate::limits::{SURVEY_HOLDINGS, SURVEY_WAIT};
use crate::osts::{TargetHandle, has_later_state, recorded_targets};
use gupfs_namespace::KnownTarget;
use gupfs_platform::Clock;
use gupfs_proto::cluster::{
    ClusterReply, ClusterReplyBody, ClusterRequest, ObjectInventory, OssReport, OwnerMark,
    TargetIdentity, TargetReport, TargetVerdict,
};
use gupfs_proto::{ClusterId, FsError, MapEpoch, OstId, OwnerEpoch, Seq, Timestamp, VirtualShard};
use gupfs_rpc::Service;
use gupfs_store::kv::Kv;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a target reported before a start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SurveyedTarget {
    pub ost: OstId,
    pub identity: TargetIdentity,
    /// None: the target could not report them.
    pub holdings: Option<ObjectInventory>,
}

/// What a start that accepts the loss gives up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MetadataLoss {
    /// The newest owner that a target has seen.
    pub owner: OwnerEpoch,
    /// Targets that have served a later state, each with the number of its objects that no record can name; None: it could not
    /// count them.
    pub targets: BTreeMap<OstId, Option<u64>>,
    /// Targets that did not report: they may have seen later owners still.
    pub unheard: Vec<OstId>,
    /// When the newest of these objects was written last.
    #[serde(skip)]
    pub newest: Option<Timestamp>,
    /// Inode counters above those of all objects.
    #[serde(skip)]
    pub numbers: BTreeMap<VirtualShard, u64>,
}

impl fmt::Display for MetadataLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.targets.is_empty() {
            return f.write_str(
                "no OST reported before the start, so it is not known what was made since this copy of the metadata; objects without a file \
                 go to lost+found of their OSTs",
            );
        }
        let known: u64 = self.targets.values().flatten().sum();
        write!(
            f,
            "{known} objects were made since this copy of the metadata"
        )?;
        if let Some(newest) = self.newest {
            write!(f, ", the newest of {}", newest.format_minute())?;
        }
        f.write_str(": ")?;
        for (at, (ost, objects)) in self.targets.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match objects {
                Some(objects) => write!(f, "{comma}{objects} on ost{ost}")?,
                None => write!(f, "{comma}ost{ost} could not count them")?,
            }
        }
        for ost in &self.unheard {
            write!(f, "; ost{ost} did not report")?;
        }
        f.write_str("; objects without a file go to lost+found of their OSTs")
    }
}

/// Answers the reports of object servers before the metadata server does.
pub struct TargetSurvey {
    cluster: ClusterId,
    clock: Clock,
    log_end: Seq,
    known: BTreeMap<OstId, KnownTarget>,
    reports: Mutex<BTreeMap<OstId, SurveyedTarget>>,
    changed: Notify,
}

impl TargetSurvey {
    /// For a store that is open, and not served yet.
    ///
    /// # Errors
    /// `Format` if the record of a target cannot be decoded, `Store` if the store fails.
    pub fn new(kv: &Kv, cluster: ClusterId, clock: Clock) -> Result<Arc<TargetSurvey>, StartError> {
        Ok(Arc::new(TargetSurvey {
            cluster,
            clock,
            log_end: kv.last_seq(),
            known: not_lost(recorded_targets(kv)?),
            reports: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Whether there are remote targets: without any, no server reports.
    pub fn expects(&self, here: &[OstId]) -> bool {
        self.known.keys().any(|ost| !here.contains(ost))
    }

    /// Returns when every remote target has reported, or after a time limit: the result names the absent targets.
    pub async fn wait_for_reports(&self, here: &[OstId]) -> Vec<SurveyedTarget> {
        let all = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                if self.is_complete(here) {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            () = self.wait_timeout() => {}
        }
        self.reports.lock().values().cloned().collect()
    }

    /// A target that counts its objects gets more time than one that does not report.
    async fn wait_timeout(&self) {
        self.clock.sleep(SURVEY_WAIT).await;
        if self
            .reports
            .lock()
            .values()
            .any(|target| target.holdings.is_none() && self.is_ahead(target))
        {
            self.clock.sleep(SURVEY_HOLDINGS).await;
        }
    }

    fn is_complete(&self, here: &[OstId]) -> bool {
        let reports = self.reports.lock();
        self.known
            .keys()
            .filter(|ost| !here.contains(ost))
            .all(|ost| {
                (reports.get(ost))
                    .is_some_and(|target| target.holdings.is_some() || !self.is_ahead(target))
            })
    }

    fn is_ahead(&self, surveyed: &SurveyedTarget) -> bool {
        let known = self.known.get(&surveyed.ost);
        known.is_some_and(|known| has_later_state(&surveyed.identity.owner, known, self.log_end))
    }

    fn report(&self, report: OssReport) -> ClusterReplyBody {
        let verdicts = report
            .targets
            .into_iter()
            .map(|target| (target.ost, self.note_report(target)));
        let verdicts = verdicts.collect();
        self.changed.notify_waiters();
        ClusterReplyBody::Reported {
            map_epoch: MapEpoch(0),
            verdicts,
            owner: OwnerMark::default(),
            capability_keys: None,
        }
    }

    fn note_report(&self, target: TargetReport) -> TargetVerdict {
        let wait = || {
            TargetVerdict::Wait(
                "the metadata server waits for the reports of all OSTs before it serves".into(),
            )
        };
        let ost = target.ost;
        let (Some(known), Ok(open)) = (self.known.get(&ost), target.open) else {
            return wait();
        };
        let identity = open.identity;
        if identity.cluster != self.cluster || identity.incarnation != known.incarnation {
            return wait();
        }
        let since = known.owner;
        let surveyed = SurveyedTarget {
            ost,
            identity,
            holdings: open.inventory.filter(|holdings| holdings.since == since),
        };
        let asks = surveyed.holdings.is_none() && self.is_ahead(&surveyed);
        self.reports.lock().insert(ost, surveyed);
        match asks {
            true => TargetVerdict::ReportInventory { since },
            false => wait(),
        }
    }
}

impl Service<ClusterRequest, ClusterReply> for TargetSurvey {
    async fn handle(self: Arc<Self>, request: ClusterRequest) -> ClusterReply {
        match request {
            ClusterRequest::Report(report) | ClusterRequest::ReportOfDomain { report, .. } => {
                Ok(self.report(report))
            }
            _ => Err(FsError::Busy),
        }
    }
}

/// The targets that may report.
fn not_lost(mut recorded: BTreeMap<OstId, KnownTarget>) -> BTreeMap<OstId, KnownTarget> {
    recorded.retain(|_, known| known.lost_since.is_none());
    recorded
}

/// What the local targets report.
pub(crate) async fn survey_local(
    targets: &[TargetHandle],
    known: &BTreeMap<OstId, KnownTarget>,
    log_end: Seq,
) -> Vec<SurveyedTarget> {
    let mut reports = Vec::new();
    for target in targets {
        let (Ok(admin), Some(known)) = (&target.admin, known.get(&target.ost)) else {
            continue;
        };
        let identity = admin.identity();
        if identity.incarnation != known.incarnation {
            continue;
        }
        let mut holdings = None;
        if has_later_state(&identity.owner, known, log_end) {
            let counted = admin.holdings(known.owner).await;
            if let Err(why) = &counted {
                tracing::warn!(ost = %target.ost, why, "a target cannot count its objects that are lost");
            }
            holdings = counted.ok();
        }
        reports.push(SurveyedTarget {
            ost: target.ost,
            identity,
            holdings,
        });
    }
    reports
}

/// None if no target that reported has seen a later state than the store. If none reported at all, any may have.
pub(crate) fn compute_loss(
    surveyed: Vec<SurveyedTarget>,
    known: &BTreeMap<OstId, KnownTarget>,
    log_end: Seq,
) -> Option<MetadataLoss> {
    let is_heard = |ost: &OstId| surveyed.iter().any(|target| target.ost == *ost);
    let unheard: Vec<OstId> = (known.iter())
        .filter(|(ost, known)| known.lost_since.is_none() && !is_heard(ost))
        .map(|(ost, _)| *ost)
        .collect();
    let none_reported = surveyed.is_empty() && !unheard.is_empty();
    let mut loss = MetadataLoss {
        owner: OwnerEpoch(0),
        targets: BTreeMap::new(),
        unheard,
        newest: None,
        numbers: BTreeMap::new(),
    };
    for target in surveyed {
        let Some(known) = known.get(&target.ost) else {
            continue;
        };
        if !has_later_state(&target.identity.owner, known, log_end) {
            continue;
        }
        loss.owner = loss.owner.max(target.identity.owner.epoch);
        let newer = target
            .holdings
            .as_ref()
            .map(|holdings| holdings.newer_objects);
        loss.targets.insert(target.ost, newer);
        let Some(holdings) = target.holdings else {
            continue;
        };
        loss.newest = loss.newest.max(holdings.newest);
        for (shard, above) in holdings.inode_counters {
            let highest = loss.numbers.entry(shard).or_default();
            *highest = above.max(*highest);
        }
    }
    (none_reported || !loss.targets.is_empty()).then_some(loss)
}
