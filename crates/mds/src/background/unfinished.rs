//! Work that an OST delays: truncates, and the cleanup of sessions whose files it stores. The task tries again until the work is
//! done, each in a job of its own, and few at a time for one OST: an OST that does not reply delays no work that does not need
//! it.

use crate::limits::{OST_CALLS, OST_CALLS_EACH, RETRY};
use crate::origin::RequestOrigin;
use crate::pending_work::{PendingTruncate, PendingTruncates, UnfinishedWork};
use crate::session_end::SessionEnd;
use crate::store::MetadataStore;
use crate::truncates::TruncateRunner;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::PurgeId;
use gupfs_platform::Clock;
use gupfs_proto::OstId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The work that is tried now.
#[derive(Default)]
struct Jobs<'a> {
    running: FuturesUnordered<BoxFuture<'a, Job>>,
    truncates: BTreeSet<PurgeId>,
    /// Truncates tried since the last pause: the task does not ask an OST again at once for what it refused.
    tried: BTreeSet<PurgeId>,
    sessions: usize,
    /// Truncates in progress that need each OST.
    osts: BTreeMap<OstId, usize>,
}

enum Job {
    Truncate(Arc<PendingTruncate>),
    Session,
}

impl Jobs<'_> {
    fn may_begin(&self, truncate: &PendingTruncate) -> bool {
        let is_busy = |ost| {
            self.osts
                .get(ost)
                .is_some_and(|jobs| *jobs >= OST_CALLS_EACH)
        };
        !self.truncates.contains(&truncate.id)
            && !self.tried.contains(&truncate.id)
            && !osts(truncate).iter().any(is_busy)
    }

    fn began(&mut self, truncate: &PendingTruncate) {
        self.truncates.insert(truncate.id);
        self.tried.insert(truncate.id);
        for ost in osts(truncate) {
            *self.osts.entry(ost).or_default() += 1;
        }
    }

    fn ended(&mut self, job: Job) {
        match job {
            Job::Session => self.sessions -= 1,
            Job::Truncate(truncate) => {
                self.truncates.remove(&truncate.id);
                for ost in osts(&truncate) {
                    *self.osts.entry(ost).or_default() -= 1;
                }
            }
        }
    }
}

fn osts(truncate: &PendingTruncate) -> BTreeSet<OstId> {
    truncate.objects.iter().map(|(ost, ..)| *ost).collect()
}

pub struct UnfinishedTask {
    pub store: Arc<MetadataStore>,
    pub truncates: Arc<TruncateRunner>,
    pub pending_truncates: Arc<PendingTruncates>,
    pub session_end: Arc<SessionEnd>,
    pub unfinished: Arc<UnfinishedWork>,
    pub clock: Clock,
}

impl UnfinishedTask {
    pub async fn run(self) {
        let mut jobs = Jobs::default();
        while self.store.failure().is_none() {
            let next = self.clock.sleep(RETRY);
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    Some(job) = jobs.running.next() => {
                        jobs.ended(job);
                        self.begin_truncates(&mut jobs);
                    }
                    () = &mut next => break,
                }
            }
            jobs.tried.clear();
            self.begin_truncates(&mut jobs);
            self.begin_sessions(&mut jobs);
        }
    }

    /// Begins truncates that no task runs now: the requests that promised them failed or are gone.
    fn begin_truncates<'a>(&'a self, jobs: &mut Jobs<'a>) {
        for truncate in self.pending_truncates.all() {
            let is_idle = truncate.done.try_lock().is_ok();
            if !is_idle || !jobs.may_begin(&truncate) {
                continue;
            }
            jobs.began(&truncate);
            jobs.running.push(Box::pin(async move {
                if let Err(error) = self
                    .truncates
                    .run_truncate(RequestOrigin::server("truncate"), truncate.clone())
                    .await
                {
                    self.unfinished.note_error(&error);
                }
                Job::Truncate(truncate)
            }));
        }
    }

    fn begin_sessions<'a>(&'a self, jobs: &mut Jobs<'a>) {
        while jobs.sessions < OST_CALLS {
            let Some(session) = self.unfinished.take_session() else {
                return;
            };
            jobs.sessions += 1;
            jobs.running.push(Box::pin(async move {
                self.session_end.evict(session).await;
                Job::Session
            }));
        }
    }
}
