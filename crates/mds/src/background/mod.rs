//! # background: the tasks that the server runs by itself, with progress
//!
//! Owns   freeing the space of removed and forgotten files, confirming objects of files that were closed without a sync, asking
//!        sessions whether they have removed files open, finishing work that an OST delayed, watching free space, verifying and
//!        repairing objects, giving files other layouts, evening out the use of the targets, telling sessions of locks that were granted to their waiters, revoking leases of which there are too many.
//! Never  blocks a request: a step changes at most `BACKGROUND_BATCH` records.
//! Enter  at `start`.

mod confirm;
mod open_queries;
mod purge;
mod space;
mod sweep;
mod unfinished;

pub use confirm::ConfirmTask;
pub use open_queries::OpenQueryTask;
pub use purge::PurgeTask;
pub use space::SpaceWatch;
pub use sweep::SweepTask;
pub use unfinished::UnfinishedTask;

use crate::conversion::ConversionTask;
use crate::grace::Grace;
use crate::locks::LockService;
use crate::metadata_leases::LeaseService;
use crate::mirrors::{ReplacementTask, ResyncTask};
use crate::rebalance::RebalanceTask;
use crate::replay::Replay;
use crate::scrub::{DamageTask, ScrubTask};
use crate::session_end::SessionEnd;
use gupfs_platform::{Task, Tasks};
use std::sync::Arc;

/// The background tasks of one server.
pub struct BackgroundTasks {
    pub grace: Arc<Grace>,
    pub replay: Arc<Replay>,
    pub purge: PurgeTask,
    pub open_queries: OpenQueryTask,
    pub unfinished: UnfinishedTask,
    pub confirm: Arc<ConfirmTask>,
    pub resync: ResyncTask,
    pub replacement: ReplacementTask,
    pub scrub: ScrubTask,
    pub damage: DamageTask,
    pub conversion: ConversionTask,
    pub rebalance: RebalanceTask,
    pub space: Arc<SpaceWatch>,
    pub locks: Arc<LockService>,
    pub leases: Arc<LeaseService>,
    /// Where sessions outlive the server: it ends those that do not renew.
    pub expiry: Option<Arc<SessionEnd>>,
    pub sweep: SweepTask,
    /// The last owner did not stop in order.
    pub sweeps_at_start: bool,
}

impl BackgroundTasks {
    /// Starts all background tasks. They end with their tasks, at any await: each continues from the records that another left.
    pub fn start(self, tasks: &Tasks) -> Vec<Task<()>> {
        let grace = &self.grace;
        let mut started = vec![
            tasks.spawn("purge", run_after(grace, self.purge.run())),
            tasks.spawn("removed", run_after(grace, self.open_queries.run())),
            tasks.spawn("unfinished", run_after(grace, self.unfinished.run())),
            tasks.spawn("confirm", run_after(grace, self.confirm.run())),
            tasks.spawn("resync", run_after(grace, self.resync.run())),
            tasks.spawn("replacement", run_after(grace, self.replacement.run())),
            tasks.spawn("scrub", run_after(grace, self.scrub.run())),
            tasks.spawn("damage", run_after(grace, self.damage.run())),
            tasks.spawn("conversion", run_after(grace, self.conversion.run())),
            tasks.spawn("rebalance", run_after(grace, self.rebalance.run())),
            tasks.spawn("space", self.space.run()),
            tasks.spawn("grants", self.locks.run_lock_grants()),
            tasks.spawn("lease excess", self.leases.run_excess(tasks.clone())),
        ];
        if !grace.is_over() {
            let replay = self.replay;
            started.push(tasks.spawn("grace", async move { replay.finish_grace().await }));
        }
        if let Some(session_end) = self.expiry {
            started.push(tasks.spawn("terms", session_end.run_session_expiry()));
        }
        let sweep = self.sweep.run(self.sweeps_at_start);
        started.push(tasks.spawn("sweep", run_after(grace, sweep)));
        started
    }
}

/// Runs a task after the grace: replayed changes may change what there is to do.
fn run_after<F: Future<Output = ()> + Send + 'static>(
    grace: &Arc<Grace>,
    task: F,
) -> impl Future<Output = ()> + Send + 'static + use<F> {
    let grace = grace.clone();
    async move {
        grace.wait_until_over().await;
        task.await;
    }
}
