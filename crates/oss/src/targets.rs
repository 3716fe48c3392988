//! The targets of one server: those that serve, and those that could not be opened and why.

use crate::{Gate, OssStatus};
use gupfs_proto::{OstId, Refusal};
use gupfs_store::object::{Objects, TargetStatus};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// One target as it was found when the server started.
pub enum Target {
    Serving(Objects),
    /// It could not be opened; the text says why and what to do. The other targets serve.
    Down(String),
}

impl From<Objects> for Target {
    fn from(objects: Objects) -> Target {
        Target::Serving(objects)
    }
}

pub struct Oss {
    /// Tells this host's volumes from those of others with the same numbers; 0 where all are on one host.
    host: u64,
    targets: RwLock<BTreeMap<OstId, Target>>,
    /// Open, and nobody has said yet whether they are who they were: requests wait.
    unheard: RwLock<BTreeSet<OstId>>,
    /// Some were heard.
    heard: Notify,
    gate: Gate,
}

impl Oss {
    /// # Panics
    /// When two targets have the same id: who composes a server knows its targets.
    pub fn new<T: Into<Target>>(targets: impl IntoIterator<Item = (OstId, T)>) -> Arc<Oss> {
        Oss::of_host(0, targets)
    }

    /// The same on one of several hosts, which is known by this number.
    ///
    /// # Panics
    /// When two targets have the same id.
    pub fn of_host<T: Into<Target>>(
        host: u64,
        targets: impl IntoIterator<Item = (OstId, T)>,
    ) -> Arc<Oss> {
        let mut served = BTreeMap::new();
        for (ost, target) in targets {
            let former = served.insert(ost, target.into());
            assert!(former.is_none(), "{ost:?} is listed twice");
        }
        Arc::new(Oss {
            host,
            targets: RwLock::new(served),
            unheard: RwLock::default(),
            heard: Notify::new(),
            gate: Gate::default(),
        })
    }

    /// By what right other processes ask.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// A volume's number among those of all hosts.
    pub fn volume(&self, of_host: u64) -> u64 {
        of_host ^ self.host
    }

    /// One more, or one that could not be opened before. Its requests wait until `heard` was called for it.
    ///
    /// # Errors
    /// The target back, if one of this number serves already.
    pub fn add(&self, ost: OstId, target: Target) -> Result<(), Target> {
        let mut targets = self.targets.write();
        match targets.get(&ost) {
            Some(Target::Serving(_)) => Err(target),
            Some(Target::Down(_)) | None => {
                self.unheard.write().insert(ost);
                targets.insert(ost, target);
                Ok(())
            }
        }
    }

    /// Whoever knows has said of these that they are who they were, or they were refused (`Objects::refuse`).
    pub fn heard(&self, osts: impl IntoIterator<Item = OstId>) {
        let mut unheard = self.unheard.write();
        osts.into_iter().for_each(|ost| {
            unheard.remove(&ost);
        });
        drop(unheard);
        self.heard.notify_waiters();
    }

    /// Returns when `heard` was called for this target; at once for one that this server does not have.
    pub(crate) async fn wait_until_heard(&self, ost: OstId) {
        let is_unheard = || self.unheard.read().contains(&ost);
        while is_unheard() {
            let mut heard = std::pin::pin!(self.heard.notified());
            heard.as_mut().enable();
            if is_unheard() {
                heard.await;
            }
        }
    }

    /// The objects of a target, when it may be believed.
    pub(crate) async fn believed(&self, ost: OstId) -> Result<Objects, Refusal> {
        self.wait_until_heard(ost).await;
        self.objects(ost)
    }

    /// The objects of a target that this server has and could open.
    pub fn objects(&self, ost: OstId) -> Result<Objects, Refusal> {
        let why = match self.targets.read().get(&ost) {
            Some(Target::Serving(objects)) => return Ok(objects.clone()),
            Some(Target::Down(why)) => why.clone(),
            None => "this server has no such target".to_owned(),
        };
        Err(Refusal::TargetDown { ost, why })
    }

    /// Why nothing is served any more: each target that could be opened has failed, as the last of them says. Targets that are
    /// not believed are another matter: a new start would find them as they are.
    pub fn failure(&self) -> Option<String> {
        let mut last = None;
        for target in self.targets.read().values() {
            if let Target::Serving(objects) = target {
                match objects.failure() {
                    Some(why) => last = Some(format!("ost{}: {why}", objects.ost())),
                    None if objects.is_refused() => {}
                    None => return None,
                }
            }
        }
        last
    }

    /// Returns when it is written down of each target whose sync failed that its life is over, or could not be.
    pub async fn lives_are_noted(&self) {
        for (_, target) in self.all() {
            if let Ok(objects) = target {
                objects.life_is_noted().await;
            }
        }
    }

    pub fn osts(&self) -> Vec<OstId> {
        self.targets.read().keys().copied().collect()
    }

    /// Each with its objects, or why there are none.
    fn all(&self) -> Vec<(OstId, Result<Objects, String>)> {
        let targets = self.targets.read();
        let all = targets.iter().map(|(ost, target)| match target {
            Target::Serving(objects) => (*ost, Ok(objects.clone())),
            Target::Down(why) => (*ost, Err(why.clone())),
        });
        all.collect()
    }

    pub async fn status(&self) -> OssStatus {
        let mut targets = Vec::new();
        for (ost, target) in self.all() {
            targets.push(match target {
                Ok(objects) => objects.status().await,
                Err(why) => TargetStatus::down(ost, &why),
            });
        }
        OssStatus {
            targets,
            gate: self.gate.status(),
        }
    }

    /// Stops all targets cleanly; the first that cannot be is told, after all were tried.
    pub async fn stop(&self) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        for (_, target) in self.all() {
            if let Ok(objects) = target {
                outcome = outcome.and(objects.stop().await);
            }
        }
        outcome
    }
}
