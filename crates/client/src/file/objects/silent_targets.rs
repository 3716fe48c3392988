//! Targets that do not answer: a change of a mirrored stripe does not wait for them again, and reads ask them last.
//!
//! A target that is called is not asked whether it is alive before a while has passed. Once it has not answered that question, it counts as
//! silent until it does. The other targets of its server are asked at the same time: if the whole server is silent, a file with members on
//! several of its targets waits for it once.

use crate::limits::{SILENT_CHECK, SILENT_PATIENCE, SPACE_WAIT};
use crate::osts::OstCalls;
use gupfs_platform::{Clock, Tasks};
use gupfs_proto::OstId;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct SilentTargets {
    osts: Arc<OstCalls>,
    clock: Clock,
    tasks: Tasks,
    targets: Mutex<CheckedTargets>,
}

#[derive(Default)]
struct CheckedTargets {
    silent: BTreeSet<OstId>,
    /// A task asks them whether they are alive.
    checked: BTreeSet<OstId>,
}

impl SilentTargets {
    pub fn new(osts: Arc<OstCalls>, clock: Clock, tasks: Tasks) -> Arc<SilentTargets> {
        Arc::new(SilentTargets {
            osts,
            clock,
            tasks,
            targets: Mutex::default(),
        })
    }

    pub fn is_silent(&self, ost: OstId) -> bool {
        self.targets.lock().silent.contains(&ost)
    }

    /// Whether a target was slow, and has not answered since.
    pub fn is_doubtful(&self, ost: OstId) -> bool {
        self.targets.lock().checked.contains(&ost)
    }

    /// Whether a target answers a question about its space now; from then on it is checked until it does.
    pub async fn answers(self: &Arc<Self>, ost: OstId) -> bool {
        for other in self.osts.others_on_server(ost) {
            self.check_target(other);
        }
        let answers = self.osts.space(ost).await.is_ok();
        if !answers {
            self.targets.lock().silent.insert(ost);
            self.check_target(ost);
            // The tasks that ask the others, since the same moment, note that these are silent.
            self.clock.sleep(SILENT_PATIENCE).await;
        }
        answers
    }

    /// A target is slow: tasks ask whether it and the others of its server are alive.
    pub fn check(self: &Arc<Self>, ost: OstId) {
        self.check_target(ost);
        for other in self.osts.others_on_server(ost) {
            self.check_target(other);
        }
    }

    fn check_target(self: &Arc<Self>, ost: OstId) {
        if !self.targets.lock().checked.insert(ost) {
            return;
        }
        let this = self.clone();
        self.tasks.spawn("check a silent target", async move {
            // One that was declared lost never will: calls to it fail at once.
            while this.osts.space(ost).await.is_err() && !this.osts.is_gone(ost) {
                if this.targets.lock().silent.insert(ost) {
                    tracing::info!(%ost, "a target does not answer within {SPACE_WAIT:?}");
                }
                this.clock.sleep(SILENT_CHECK).await;
            }
            let mut targets = this.targets.lock();
            targets.silent.remove(&ost);
            targets.checked.remove(&ost);
        });
    }
}
