//! Tells the metadata server what the job numbers in this client's requests stand for: soon after a job's first call, and again each instance of
//! the server, which has forgotten them.

use super::MdsSession;
use crate::limits::{JOB_LABELS_DELAY, JOB_LABELS_MAX};
use gupfs_proto::jobs::JOBS_NAMED_MAX;
use gupfs_proto::meta::MetaOp;
use gupfs_proto::{Caller, FsError, JobId, JobLabel, OwnerEpoch};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub struct JobLabels {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that were used lately, and when: a number that rises with each new one.
    known: BTreeMap<JobId, (JobLabel, u64)>,
    uses: u64,
    /// Of these, those that the server has not been told.
    untold: BTreeSet<JobId>,
    /// The instance of the server that was told the others.
    told: OwnerEpoch,
    /// A task is about to tell them.
    is_telling: bool,
    /// The instance does not know of jobs.
    refused_by: Option<OwnerEpoch>,
}

impl State {
    /// Whether the label is new.
    fn add(&mut self, label: JobLabel) -> bool {
        self.uses += 1;
        let (job, uses) = (label.id(), self.uses);
        if let Some((_, used)) = self.known.get_mut(&job) {
            *used = uses;
            return false;
        }
        if self.known.len() >= JOB_LABELS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(job, _)| *job) {
                self.known.remove(&oldest);
                self.untold.remove(&oldest);
            }
        }
        self.known.insert(job, (label, uses));
        self.untold.insert(job);
        true
    }

    /// The labels of the next request to this instance.
    fn next(&mut self, instance: OwnerEpoch) -> Vec<JobLabel> {
        if self.told != instance {
            self.told = instance;
            self.untold = self.known.keys().copied().collect();
        }
        if self.refused_by == Some(instance) {
            self.untold.clear();
        }
        let untold = self.untold.iter().take(JOBS_NAMED_MAX);
        untold
            .filter_map(|job| Some(self.known.get(job)?.0.clone()))
            .collect()
    }

    fn told(&mut self, labels: &[JobLabel], instance: OwnerEpoch) {
        if self.told == instance {
            for label in labels {
                self.untold.remove(&label.id());
            }
        }
    }
}

impl MdsSession {
    /// The number of a job, whose label the server learns soon.
    pub fn name_job(&self, label: JobLabel) -> JobId {
        let job = label.id();
        let mut state = self.job_labels.state.lock();
        let is_new = state.add(label);
        if is_new && !state.is_telling {
            state.is_telling = true;
            drop(state);
            self.start_telling();
        }
        job
    }

    /// After a renewal: the server may be another instance, which has been told nothing.
    pub(super) fn tell_jobs_again(&self) {
        let (instance, _) = self.replay_log.position();
        let mut state = self.job_labels.state.lock();
        let is_needed = state.told != instance || !state.untold.is_empty();
        if is_needed && !state.known.is_empty() && !state.is_telling {
            state.is_telling = true;
            drop(state);
            self.start_telling();
        }
    }

    fn start_telling(&self) {
        let (clock, this) = (self.platform.clock.clone(), self.this.clone());
        (self.platform.tasks).spawn("tell the names of jobs", async move {
            // Jobs begin together.
            clock.sleep(JOB_LABELS_DELAY).await;
            if let Some(session) = this.upgrade() {
                session.tell_jobs().await;
            }
        });
    }

    async fn tell_jobs(self: Arc<Self>) {
        loop {
            let (instance, _) = self.replay_log.position();
            let labels = {
                let mut state = self.job_labels.state.lock();
                let labels = state.next(instance);
                state.is_telling = !labels.is_empty();
                labels
            };
            if labels.is_empty() {
                return;
            }
            let op = MetaOp::NameJobs {
                labels: labels.clone(),
            };
            let answer = self.call(&Caller::root(), op).await;
            let mut state = self.job_labels.state.lock();
            match answer {
                Ok(_) => state.told(&labels, instance),
                Err(error) => {
                    tracing::debug!(%error, "the metadata server does not learn the names of jobs");
                    if error == FsError::NotSupported {
                        state.refused_by = Some(instance);
                    }
                    // With the next renewal.
                    state.is_telling = false;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::JobName;

    fn label(name: usize) -> JobLabel {
        let name = JobName::from_bytes(format!("job {name}").as_bytes());
        JobLabel { uid: 7, name }
    }

    #[test]
    fn each_instance_is_told_each_label_once() {
        let mut state = State::default();
        assert!(state.add(label(1)));
        assert!(!state.add(label(1)));
        assert!(state.add(label(2)));
        let first = state.next(OwnerEpoch(1));
        assert_eq!(first.len(), 2);
        state.told(&first, OwnerEpoch(1));
        assert!(state.next(OwnerEpoch(1)).is_empty());
        let again = state.next(OwnerEpoch(2));
        assert_eq!(again.len(), 2);
        // The reply of the former instance says nothing of this one.
        state.told(&again, OwnerEpoch(1));
        assert_eq!(state.next(OwnerEpoch(2)).len(), 2);
    }

    #[test]
    fn a_million_labels_are_bounded() {
        let mut state = State::default();
        for name in 0..10 * JOB_LABELS_MAX {
            state.add(label(name));
            state.add(label(0));
        }
        assert_eq!(state.known.len(), JOB_LABELS_MAX);
        assert!(state.known.contains_key(&label(0).id()));
        assert!(state.untold.len() <= JOB_LABELS_MAX);
        assert!(state.next(OwnerEpoch(1)).len() <= JOBS_NAMED_MAX);
    }
}
