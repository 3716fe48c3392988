//! An object server's reports on itself, every second: which targets it serves, who they are, how much room they have.

use crate::Lives;
use futures_util::future::join_all;
use gupfs_oss::Oss;
use gupfs_platform::Platform;
use gupfs_proto::cluster::{
    Answer, Holdings, OpenReport, OwnerMark, Reply, Report, Request, TargetReport, TargetVerdict,
};
use gupfs_proto::{OstId, OwnerEpoch, Refusal};
use gupfs_rpc::Peer;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(1);

/// How long a target's disk may take to say how much room it has.
const SPACE_ANSWER: Duration = Duration::from_secs(1);

/// What it takes to speak for an object server.
#[derive(Clone)]
pub struct Announced {
    pub oss: Arc<Oss>,
    pub address: String,
    pub mds: Peer<Request, Reply>,
    pub lives: Arc<Lives>,
    pub platform: Platform,
}

/// What targets were told, and what the metadata server wants to know of them.
#[derive(Default)]
struct Notes {
    asked: Mutex<BTreeMap<OstId, OwnerEpoch>>,
    counted: Mutex<BTreeMap<OstId, Holdings>>,
    /// Targets that wait, and why.
    waiting: Mutex<BTreeMap<OstId, String>>,
}

/// Runs for ever. `heard` becomes true when the metadata server has said of every target what it is to do: until then nobody
/// knows whether these targets are who they were.
pub async fn announce(announced: Announced, heard: watch::Sender<bool>) {
    let notes = Notes::default();
    loop {
        match announced.say(&notes).await {
            // Whoever has done what it was told says so at once.
            Ok(Next::AtOnce) => continue,
            Ok(Next::InTime) => {
                heard.send_replace(true);
            }
            Ok(Next::NotYet) => {}
            Err(refusal) => {
                tracing::warn!(%refusal, "the metadata server did not take our report");
            }
        }
        announced.platform.clock.sleep(EVERY).await;
    }
}

/// When to report again.
enum Next {
    AtOnce,
    InTime,
    /// The metadata server does not serve yet.
    NotYet,
}

impl Announced {
    /// The last report, of targets that were stopped: others may serve them at once.
    pub async fn leave(&self) -> Result<(), Refusal> {
        self.report(&Notes::default(), true).await.map(|_| ())
    }

    async fn report(&self, notes: &Notes, leaves: bool) -> Result<Answer, Refusal> {
        let osts = self.oss.osts();
        let targets = osts.iter().map(|ost| async move {
            TargetReport {
                ost: *ost,
                open: self.open(*ost, notes, leaves).await,
            }
        });
        let targets = join_all(targets).await;
        let report = Report {
            address: self.address.clone(),
            targets,
            leaves,
        };
        self.mds.call(Request::Report(report)).await
    }

    async fn say(&self, notes: &Notes) -> Result<Next, Refusal> {
        let asked = self.platform.clock.boot();
        let answer = self.report(notes, false).await?;
        let Answer::Reported {
            verdicts,
            owner,
            seals,
            ..
        } = answer
        else {
            return Err(Refusal::Malformed(
                "a report was answered with something else".into(),
            ));
        };
        let mut next = Next::InTime;
        let (mut heard, mut serving) = (Vec::new(), Vec::new());
        for (ost, verdict) in verdicts {
            match self.obey(ost, verdict, &owner, notes).await {
                Ok(Told::Serves) => {
                    heard.push(ost);
                    serving.push(ost);
                }
                Ok(Told::Refuses) => heard.push(ost),
                Ok(Told::Again) => next = Next::AtOnce,
                Ok(Told::Waits) => {}
                Err(why) => tracing::error!(%ost, why, "a target cannot do what it was told"),
            }
        }
        // No owner: one that looks before it serves.
        if owner == OwnerMark::default() {
            return Ok(match next {
                Next::AtOnce => Next::AtOnce,
                _ => Next::NotYet,
            });
        }
        // Before keys are believed, and with them sessions: what was lost of a life is told from the next one on.
        self.lives.tell().await?;
        // What is told of keys is believed after the owner is written down, so that its successor is known by it.
        if let Some(seals) = seals
            && self.has_heard(&owner, &serving)
        {
            self.oss.gate().hear(&seals, asked);
        }
        self.oss.heard(heard);
        Ok(next)
    }

    /// Whether all of these targets have written this owner down.
    fn has_heard(&self, owner: &OwnerMark, osts: &[OstId]) -> bool {
        osts.iter().all(|ost| match self.oss.objects(*ost) {
            Ok(objects) => objects.identity().owner.is_same_start(owner),
            Err(_) => false,
        })
    }

    async fn obey(
        &self,
        ost: OstId,
        verdict: TargetVerdict,
        owner: &OwnerMark,
        notes: &Notes,
    ) -> Result<Told, String> {
        let told = |refusal: Refusal| refusal.to_string();
        let Ok(objects) = self.oss.objects(ost) else {
            return Ok(Told::Refuses); // with its own reason
        };
        match verdict {
            TargetVerdict::Adopt => {
                objects.adopt(*owner).await.map_err(told)?;
                return Ok(Told::Again);
            }
            TargetVerdict::Serve => objects.adopt(*owner).await.map_err(told)?,
            TargetVerdict::RaiseStamp => {
                tracing::warn!(%ost, "a copy of this target is opened elsewhere; its stamp is raised");
                objects.adopt(*owner).await.map_err(told)?;
                objects.raise_stamp_now().await.map_err(told)?;
            }
            TargetVerdict::Wait(why) => {
                let before = notes.waiting.lock().insert(ost, why.clone());
                if before.as_ref() != Some(&why) {
                    tracing::warn!(%ost, why, "a target waits");
                }
                return Ok(Told::Waits);
            }
            TargetVerdict::Tell { since } => {
                let counted = objects.holdings(since).await.map_err(told)?;
                notes.counted.lock().insert(ost, counted);
                let asked = notes.asked.lock().insert(ost, since);
                return Ok(match asked == Some(since) {
                    true => Told::Waits,
                    false => Told::Again,
                });
            }
            TargetVerdict::Refused(why) => {
                tracing::error!(%ost, why, "the metadata server does not believe this target; it serves nothing");
                objects.refuse(why);
                return Ok(Told::Refuses);
            }
        }
        notes.waiting.lock().remove(&ost);
        notes.counted.lock().remove(&ost);
        Ok(Told::Serves)
    }

    async fn open(&self, ost: OstId, notes: &Notes, leaves: bool) -> Result<OpenReport, String> {
        let told = |refusal: Refusal| refusal.to_string();
        let objects = self.oss.objects(ost).map_err(told)?;
        let space = match leaves {
            true => None,
            false => tokio::select! {
                biased;
                space = objects.space() => Some(space.map_err(told)?),
                // Its disk does not answer now, and the report on the other targets does not wait for it.
                () = self.platform.clock.sleep(SPACE_ANSWER) => None,
            },
        };
        Ok(OpenReport {
            identity: objects.identity(),
            space,
            holdings: notes.counted.lock().get(&ost).cloned(),
        })
    }
}

/// What became of a target that was told something.
enum Told {
    Serves,
    /// It says why it does not serve.
    Refuses,
    /// It reports again at once.
    Again,
    Waits,
}
