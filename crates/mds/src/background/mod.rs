//! # background: the tasks that the server runs by itself, with progress
//!
//! Owns   freeing the space of removed and forgotten files, confirming objects of files that were closed without a sync, asking
//!        sessions whether they have removed files open, finishing work that an OST delayed, watching free space, telling
//!        sessions of locks that were granted to their waiters.
//! Never  blocks a request: a step changes at most `BACKGROUND_BATCH` records.
//! Enter  at `start`.

mod confirm;
mod purge;
mod removed_files;
mod space;
mod sweep;
mod sweep_progress;
mod unfinished;

pub use confirm::{ConfirmProgress, ConfirmStatus};
pub use purge::{PurgeQueue, PurgeStatus};
pub use removed_files::RemovedFiles;
pub use sweep_progress::{SweepProgress, SweepStatus};
pub use unfinished::{UnfinishedStatus, UnfinishedWork};

use crate::core::Core;
use gupfs_platform::Task;
use std::sync::Arc;

/// Starts all background tasks. They end with their tasks, at any await: each continues from the records that another left.
/// `sweep`: the last owner did not stop in order.
/// `terms`: the server ends sessions that do not renew.
pub fn start(core: &Arc<Core>, sweep: bool, terms: bool) -> Vec<Task<()>> {
    let tasks = &core.platform.tasks;
    let mut started = vec![
        tasks.spawn("purge", run_after_grace(core, Core::run_purge)),
        tasks.spawn("removed", run_after_grace(core, Core::run_open_queries)),
        tasks.spawn("unfinished", run_after_grace(core, Core::run_unfinished)),
        tasks.spawn("confirm", run_after_grace(core, Core::run_confirms)),
        tasks.spawn("space", core.clone().run_space_watch()),
        tasks.spawn("grants", core.clone().run_lock_grants()),
    ];
    if !core.grace.is_over() {
        let core = core.clone();
        started.push(tasks.spawn("grace", async move { core.finish_grace().await }));
    }
    if terms {
        started.push(tasks.spawn("terms", core.clone().run_session_expiry()));
    }
    if sweep {
        core.sweep.expect(core.targets.all().len() as u64);
        started.push(tasks.spawn("sweep", run_after_grace(core, Core::sweep_all)));
    }
    started
}

/// Runs a task after the grace: replayed changes may change what there is to do.
fn run_after_grace<F: Future<Output = ()> + Send + 'static>(
    core: &Arc<Core>,
    task: impl FnOnce(Arc<Core>) -> F + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let core = core.clone();
    async move {
        core.grace.wait_until_over().await;
        task(core).await;
    }
}
