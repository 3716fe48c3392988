//! # survey: what targets know and hold that this store does not
//!
//! Owns   the reports of object servers before a start that accepts a loss, and what follows from them for the operator.
//! Never  tells a target to serve, or changes a record.
//! Enter  at `Survey::new`; `Survey::heard` returns when all targets were heard, or it is no use to wait any longer.

use crate::error::StartError;
use crate::limits::{SURVEY_HOLDINGS, SURVEY_WAIT};
use crate::mds::remembered_targets;
use crate::targets::{Target, knows_more};
use gupfs_namespace::KnownTarget;
use gupfs_platform::Clock;
use gupfs_proto::cluster::{
    Answer, Holdings, OwnerMark, Reply, Report, Request, TargetIdentity, TargetReport,
    TargetVerdict,
};
use gupfs_proto::{ClusterId, MapEpoch, OstId, OwnerEpoch, Refusal, Seq, Timestamp, VirtualShard};
use gupfs_rpc::Service;
use gupfs_store::kv::Kv;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a target said before a start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Surveyed {
    pub ost: OstId,
    pub identity: TargetIdentity,
    /// None: it could not say.
    pub holdings: Option<Holdings>,
}

/// What a start that accepts it gives up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Loss {
    /// The newest owner that a target has heard of.
    pub owner: OwnerEpoch,
    /// Targets that have served a later state, and of how many objects no record can know; None: it could not say.
    pub targets: BTreeMap<OstId, Option<u64>>,
    /// Targets that were not heard: they may know of later owners still.
    pub unheard: Vec<OstId>,
    /// When the newest of them was written last.
    #[serde(skip)]
    pub newest: Option<Timestamp>,
    /// Inode counters above those of all objects.
    #[serde(skip)]
    pub numbers: BTreeMap<VirtualShard, u64>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.targets.is_empty() {
            return f.write_str(
                "no OST was heard before the start, so what was made since this copy of the metadata is not known; what no file \
                 has goes to lost+found of the OSTs",
            );
        }
        let known: u64 = self.targets.values().flatten().sum();
        write!(
            f,
            "{known} objects were made since this copy of the metadata"
        )?;
        if let Some(newest) = self.newest {
            write!(f, ", the newest of {}", newest.minute())?;
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
            write!(f, "; ost{ost} was not heard")?;
        }
        f.write_str("; what no file has goes to lost+found of the OSTs")
    }
}

/// Answers object servers before the metadata server does.
pub struct Survey {
    cluster: ClusterId,
    clock: Clock,
    found: Seq,
    known: BTreeMap<OstId, KnownTarget>,
    heard: Mutex<BTreeMap<OstId, Surveyed>>,
    changed: Notify,
}

impl Survey {
    /// Of a store that was opened, and not served yet.
    pub fn new(kv: &Kv, cluster: ClusterId, clock: Clock) -> Result<Arc<Survey>, StartError> {
        Ok(Arc::new(Survey {
            cluster,
            clock,
            found: kv.last_seq(),
            known: remembered_targets(kv)?,
            heard: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Targets that were served elsewhere: without any there is nobody to be heard.
    pub fn expects(&self, here: &[OstId]) -> bool {
        self.known.keys().any(|ost| !here.contains(ost))
    }

    /// Returns when every target but those of this process was heard, or after a while: who is not there is told of later.
    pub async fn heard(&self, here: &[OstId]) -> Vec<Surveyed> {
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
            () = self.wait() => {}
        }
        self.heard.lock().values().cloned().collect()
    }

    /// A target that counts is waited for longer than one that is not there.
    async fn wait(&self) {
        self.clock.sleep(SURVEY_WAIT).await;
        if self
            .heard
            .lock()
            .values()
            .any(|it| it.holdings.is_none() && self.is_ahead(it))
        {
            self.clock.sleep(SURVEY_HOLDINGS).await;
        }
    }

    fn is_complete(&self, here: &[OstId]) -> bool {
        let heard = self.heard.lock();
        self.known
            .keys()
            .filter(|ost| !here.contains(ost))
            .all(|ost| {
                (heard.get(ost)).is_some_and(|it| it.holdings.is_some() || !self.is_ahead(it))
            })
    }

    fn is_ahead(&self, surveyed: &Surveyed) -> bool {
        let known = self.known.get(&surveyed.ost);
        known.is_some_and(|known| knows_more(&surveyed.identity.owner, known, self.found))
    }

    fn report(&self, report: Report) -> Answer {
        let verdicts = report
            .targets
            .into_iter()
            .map(|word| (word.ost, self.word(word)));
        let verdicts = verdicts.collect();
        self.changed.notify_waiters();
        Answer::Reported {
            map_epoch: MapEpoch(0),
            verdicts,
            owner: OwnerMark::default(),
            seals: None,
        }
    }

    fn word(&self, word: TargetReport) -> TargetVerdict {
        let wait =
            || TargetVerdict::Wait("the metadata server hears all OSTs before it serves".into());
        let ost = word.ost;
        let (Some(known), Ok(open)) = (self.known.get(&ost), word.open) else {
            return wait();
        };
        let identity = open.identity;
        if identity.cluster != self.cluster || identity.incarnation != known.incarnation {
            return wait();
        }
        let since = known.owner;
        let surveyed = Surveyed {
            ost,
            identity,
            holdings: open.holdings.filter(|held| held.since == since),
        };
        let asks = surveyed.holdings.is_none() && self.is_ahead(&surveyed);
        self.heard.lock().insert(ost, surveyed);
        match asks {
            true => TargetVerdict::Tell { since },
            false => wait(),
        }
    }
}

impl Service<Request, Reply> for Survey {
    async fn answer(self: Arc<Self>, question: Request) -> Reply {
        match question {
            Request::Report(report) => Ok(self.report(report)),
            _ => Err(Refusal::Busy),
        }
    }
}

/// What targets of this process say.
pub(crate) async fn near(
    targets: &[Target],
    known: &BTreeMap<OstId, KnownTarget>,
    found: Seq,
) -> Vec<Surveyed> {
    let mut heard = Vec::new();
    for target in targets {
        let (Ok(admin), Some(known)) = (&target.admin, known.get(&target.ost)) else {
            continue;
        };
        let identity = admin.identity();
        if identity.incarnation != known.incarnation {
            continue;
        }
        let mut holdings = None;
        if knows_more(&identity.owner, known, found) {
            let held = admin.holdings(known.owner).await;
            if let Err(why) = &held {
                tracing::warn!(ost = %target.ost, why, "a target cannot count what is lost");
            }
            holdings = held.ok();
        }
        heard.push(Surveyed {
            ost: target.ost,
            identity,
            holdings,
        });
    }
    heard
}

/// None if no target that was heard knows more than the store. If none was heard at all, any may.
pub(crate) fn what_is_lost(
    surveyed: Vec<Surveyed>,
    known: &BTreeMap<OstId, KnownTarget>,
    found: Seq,
) -> Option<Loss> {
    let is_heard = |ost: &OstId| surveyed.iter().any(|it| it.ost == *ost);
    let unheard: Vec<OstId> = (known.keys().copied())
        .filter(|ost| !is_heard(ost))
        .collect();
    let nobody = surveyed.is_empty() && !unheard.is_empty();
    let mut loss = Loss {
        owner: OwnerEpoch(0),
        targets: BTreeMap::new(),
        unheard,
        newest: None,
        numbers: BTreeMap::new(),
    };
    for it in surveyed {
        let Some(known) = known.get(&it.ost) else {
            continue;
        };
        if !knows_more(&it.identity.owner, known, found) {
            continue;
        }
        loss.owner = loss.owner.max(it.identity.owner.epoch);
        let newer = it.holdings.as_ref().map(|held| held.newer);
        loss.targets.insert(it.ost, newer);
        let Some(held) = it.holdings else { continue };
        loss.newest = loss.newest.max(held.newest);
        for (shard, above) in held.numbers {
            let highest = loss.numbers.entry(shard).or_default();
            *highest = above.max(*highest);
        }
    }
    (nobody || !loss.targets.is_empty()).then_some(loss)
}
