//! Targets that do not answer: a change of a mirrored stripe does not wait for them again, and reads ask them last.
//!
//! A target that is called is not asked whether it is alive before a while has passed. Once it has not answered that question, it counts as
//! silent until it does; so does one whose server is about to stop it. The other targets of its server are asked at the same time: if the whole server is silent, a file with members on
//! several of its targets waits for it once.

use crate::limits::{SILENT_CHECK, SILENT_PATIENCE, SPACE_WAIT, STOP_TIME};
use crate::osts::OstCalls;
use gupfs_platform::{BootTime, Clock, Tasks};
use gupfs_proto::OstId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

pub struct SilentTargets {
    osts: Arc<OstCalls>,
    clock: Clock,
    tasks: Tasks,
    targets: Mutex<CheckedTargets>,
    /// Signals that another target counts as silent.
    more_silent: Notify,
}

#[derive(Default)]
struct CheckedTargets {
    silent: BTreeSet<OstId>,
    /// A task asks them whether they are alive.
    checked: BTreeSet<OstId>,
    /// Those that are about to be stopped may still answer until then.
    stopping: BTreeMap<OstId, BootTime>,
}

impl SilentTargets {
    pub fn new(osts: Arc<OstCalls>, clock: Clock, tasks: Tasks) -> Arc<SilentTargets> {
        Arc::new(SilentTargets {
            osts,
            clock,
            tasks,
            targets: Mutex::default(),
            more_silent: Notify::new(),
        })
    }

    pub fn is_silent(&self, ost: OstId) -> bool {
        self.targets.lock().silent.contains(&ost)
    }

    /// Returns when the target counts as silent.
    pub async fn wait_until_silent(&self, ost: OstId) {
        loop {
            let mut more_silent = pin!(self.more_silent.notified());
            more_silent.as_mut().enable();
            if self.is_silent(ost) {
                return;
            }
            more_silent.await;
        }
    }

    /// These targets are about to be stopped. They count as silent from now on, for a while also if they answer.
    pub fn expect_stop(self: &Arc<Self>, osts: &[OstId]) {
        let until = self.clock.boot() + STOP_TIME;
        for ost in osts {
            self.targets.lock().stopping.insert(*ost, until);
            self.note_silent(*ost);
            self.check_target(*ost);
        }
    }

    fn is_stopping(&self, ost: OstId) -> bool {
        let until = self.targets.lock().stopping.get(&ost).copied();
        until.is_some_and(|until| self.clock.boot() < until)
    }

    /// Returns whether it did not count as silent before.
    fn note_silent(&self, ost: OstId) -> bool {
        let is_new = self.targets.lock().silent.insert(ost);
        if is_new {
            self.more_silent.notify_waiters();
        }
        is_new
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
            self.note_silent(ost);
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
            loop {
                // One that was declared lost never will: calls to it fail at once.
                let answers = this.osts.space(ost).await.is_ok() || this.osts.is_gone(ost);
                if answers && !this.is_stopping(ost) {
                    break;
                }
                if this.note_silent(ost) {
                    tracing::info!(%ost, "a target does not answer within {SPACE_WAIT:?}");
                }
                this.clock.sleep(SILENT_CHECK).await;
            }
            let mut targets = this.targets.lock();
            targets.silent.remove(&ost);
            targets.checked.remove(&ost);
            targets.stopping.remove(&ost);
        });
    }
}
