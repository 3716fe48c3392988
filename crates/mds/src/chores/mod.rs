//! # chores: what the server does by itself, with progress
//!
//! Owns   giving back the space of removed files and of forgotten ones, confirming objects of files that were closed
//!        without a sync, asking who has removed files open, finishing what an OST kept from being finished, watching space,
//!        telling who waited for a lock that he has it.
//! Never  holds up a request: a step changes at most `CHORE_BATCH` records.
//! Enter  at `start`.

mod confirm;
mod purge;
mod removed;
mod space;
mod sweep;
mod sweeps;
mod unfinished;

pub use confirm::{ConfirmStatus, Confirms};
pub use purge::{PurgeStatus, Purges};
pub use removed::Removals;
pub use sweeps::{SweepStatus, Sweeps};
pub use unfinished::{Unfinished, UnfinishedStatus};

use crate::core::Core;
use gupfs_platform::Task;
use std::sync::Arc;

/// Starts all chores. They end with their tasks, at any await: each picks up from the records what another left.
/// `sweep`: the last owner did not stop in order.
/// `terms`: sessions that are not heard of are ended.
pub fn start(core: &Arc<Core>, sweep: bool, terms: bool) -> Vec<Task<()>> {
    let tasks = &core.platform.tasks;
    let mut started = vec![
        tasks.spawn("purge", after_grace(core, Core::purge_for_ever)),
        tasks.spawn("removed", after_grace(core, Core::ask_everybody_for_ever)),
        tasks.spawn("unfinished", after_grace(core, Core::finish_for_ever)),
        tasks.spawn("confirm", after_grace(core, Core::confirm_for_ever)),
        tasks.spawn("space", core.clone().watch_space_for_ever()),
        tasks.spawn("grants", core.clone().tell_grants_for_ever()),
    ];
    if !core.grace.is_over() {
        let core = core.clone();
        started.push(tasks.spawn("grace", async move { core.end_grace().await }));
    }
    if terms {
        started.push(tasks.spawn("terms", core.clone().watch_terms_for_ever()));
    }
    if sweep {
        core.sweeps.expect(core.targets.all().len() as u64);
        started.push(tasks.spawn("sweep", after_grace(core, Core::sweep_all)));
    }
    started
}

/// What clients bring back may change what there is to do.
fn after_grace<F: Future<Output = ()> + Send + 'static>(
    core: &Arc<Core>,
    chore: impl FnOnce(Arc<Core>) -> F + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let core = core.clone();
    async move {
        core.grace.over().await;
        chore(core).await;
    }
}
