//! What an OST kept from being finished: cuts, and clearing up after sessions whose files it holds. Tried again until done, each by a job of its
//! own, and few at a time for one OST: one that does not answer holds up nothing that can do without it.

use crate::core::Core;
use crate::cuts::Cut;
use crate::limits::{OST_CALLS, OST_CALLS_EACH, RETRY};
use crate::waits::Who;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::PurgeId;
use gupfs_proto::{OstId, Refusal, SessionId};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub struct Unfinished(Mutex<List>);

#[derive(Default)]
struct List {
    sessions: BTreeSet<SessionId>,
    last_error: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UnfinishedStatus {
    /// Files that were truncated and not cut yet: their bytes cannot be used.
    pub cuts: u64,
    /// Sessions that ended and are not cleared up after.
    pub sessions: u64,
    /// What kept the last of them from being finished.
    pub last_error: Option<String>,
}

impl Unfinished {
    pub fn add(&self, session: SessionId, why: &Refusal) {
        let mut list = self.0.lock();
        list.sessions.insert(session);
        list.last_error = Some(why.to_string());
    }
}

/// What is tried now.
#[derive(Default)]
struct Jobs<'a> {
    running: FuturesUnordered<BoxFuture<'a, Job>>,
    cuts: BTreeSet<PurgeId>,
    /// Cuts that were tried since the last pause: what an OST refuses is not asked again at once.
    tried: BTreeSet<PurgeId>,
    sessions: usize,
    /// Cuts under way that need each OST.
    osts: BTreeMap<OstId, usize>,
}

enum Job {
    Cut(Arc<Cut>),
    Session,
}

impl Jobs<'_> {
    fn may_begin(&self, cut: &Cut) -> bool {
        let is_busy = |ost| {
            self.osts
                .get(ost)
                .is_some_and(|jobs| *jobs >= OST_CALLS_EACH)
        };
        !self.cuts.contains(&cut.id)
            && !self.tried.contains(&cut.id)
            && !osts(cut).iter().any(is_busy)
    }

    fn begins(&mut self, cut: &Cut) {
        self.cuts.insert(cut.id);
        self.tried.insert(cut.id);
        for ost in osts(cut) {
            *self.osts.entry(ost).or_default() += 1;
        }
    }

    fn ended(&mut self, job: Job) {
        match job {
            Job::Session => self.sessions -= 1,
            Job::Cut(cut) => {
                self.cuts.remove(&cut.id);
                for ost in osts(&cut) {
                    *self.osts.entry(ost).or_default() -= 1;
                }
            }
        }
    }
}

fn osts(cut: &Cut) -> BTreeSet<OstId> {
    cut.objects.iter().map(|(ost, ..)| *ost).collect()
}

impl Core {
    pub(super) async fn finish_for_ever(self: Arc<Self>) {
        let mut jobs = Jobs::default();
        while self.failure().is_none() {
            let next = self.platform.clock.sleep(RETRY);
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    Some(job) = jobs.running.next() => {
                        jobs.ended(job);
                        self.begin_cuts(&mut jobs);
                    }
                    () = &mut next => break,
                }
            }
            jobs.tried.clear();
            self.begin_cuts(&mut jobs);
            self.begin_sessions(&mut jobs);
        }
    }

    pub fn unfinished_status(&self) -> UnfinishedStatus {
        let list = self.unfinished.0.lock();
        UnfinishedStatus {
            cuts: self.cuts.len() as u64,
            sessions: list.sessions.len() as u64,
            last_error: list.last_error.clone(),
        }
    }

    /// Cuts that nobody is carrying out now: whoever promised them gave up or is dead.
    fn begin_cuts<'a>(&'a self, jobs: &mut Jobs<'a>) {
        for cut in self.cuts.all() {
            let is_idle = cut.done.try_lock().is_ok();
            if !is_idle || !jobs.may_begin(&cut) {
                continue;
            }
            jobs.begins(&cut);
            jobs.running.push(Box::pin(async move {
                if let Err(refusal) = self.carry_out(Who::own("cut"), cut.clone()).await {
                    self.unfinished.0.lock().last_error = Some(refusal.to_string());
                }
                Job::Cut(cut)
            }));
        }
    }

    fn begin_sessions<'a>(&'a self, jobs: &mut Jobs<'a>) {
        while jobs.sessions < OST_CALLS {
            let Some(session) = self.unfinished.0.lock().sessions.pop_first() else {
                return;
            };
            jobs.sessions += 1;
            jobs.running.push(Box::pin(async move {
                self.evict(session).await;
                Job::Session
            }));
        }
    }
}
