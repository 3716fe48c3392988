//! The targets of one server: those that serve, and those that could not be opened and why.

use crate::OssStatus;
use gupfs_proto::{OstId, Refusal};
use gupfs_store::object::{Objects, TargetStatus};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    targets: BTreeMap<OstId, Target>,
}

impl Oss {
    /// # Panics
    /// When two targets have the same id: who composes a server knows its targets.
    pub fn new<T: Into<Target>>(targets: impl IntoIterator<Item = (OstId, T)>) -> Arc<Oss> {
        let mut served = BTreeMap::new();
        for (ost, target) in targets {
            let former = served.insert(ost, target.into());
            assert!(former.is_none(), "{ost:?} is listed twice");
        }
        Arc::new(Oss { targets: served })
    }

    /// The objects of a target that this server has and could open.
    pub fn objects(&self, ost: OstId) -> Result<&Objects, Refusal> {
        let why = match self.targets.get(&ost) {
            Some(Target::Serving(objects)) => return Ok(objects),
            Some(Target::Down(why)) => why.clone(),
            None => "this server has no such target".to_owned(),
        };
        Err(Refusal::TargetDown { ost, why })
    }

    pub fn osts(&self) -> impl Iterator<Item = OstId> {
        self.targets.keys().copied()
    }

    pub async fn status(&self) -> OssStatus {
        let mut targets = Vec::with_capacity(self.targets.len());
        for (ost, target) in &self.targets {
            targets.push(match target {
                Target::Serving(objects) => objects.status().await,
                Target::Down(why) => TargetStatus::down(*ost, why),
            });
        }
        OssStatus { targets }
    }

    /// Stops all targets cleanly; the first that cannot be is told, after all were tried.
    pub async fn stop(&self) -> Result<(), Refusal> {
        let mut outcome = Ok(());
        for target in self.targets.values() {
            if let Target::Serving(objects) = target {
                outcome = outcome.and(objects.stop().await);
            }
        }
        outcome
    }
}
