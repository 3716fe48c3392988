//! What a target does by itself: settling, raising its stamp, removing what was set aside long ago.

use super::limits::{LOST_FOUND_EVERY, SETTLE_EVERY, STAMP_EVERY};
use super::scrub::{Scrub, Verify};
use super::settle::Due;
use super::target::Target;
use gupfs_platform::{Platform, Task};
use gupfs_proto::Refusal;
use std::sync::{Arc, Weak};

/// Starts the chores; they end with the target.
pub(super) fn start(target: &Arc<Target>, platform: &Platform, sum_marked: bool) -> Vec<Task<()>> {
    let weak = Arc::downgrade(target);
    let mut tasks = vec![
        platform.tasks.spawn(
            "object settler",
            keep_settled(weak.clone(), platform.clone()),
        ),
        platform.tasks.spawn(
            "lost and found",
            tidy_lost_found(weak.clone(), platform.clone()),
        ),
    ];
    if sum_marked {
        tasks.push(
            platform
                .tasks
                .spawn("object summer", sum_marked_regions(weak)),
        );
    }
    tasks
}

async fn keep_settled(target: Weak<Target>, platform: Platform) {
    let mut stamped = platform.clock.boot();
    loop {
        platform.clock.sleep(SETTLE_EVERY).await;
        let Some(target) = target.upgrade() else {
            return;
        };
        let raise = platform.clock.boot().since(stamped) >= STAMP_EVERY;
        if raise {
            stamped = platform.clock.boot();
        }
        if work(&target, raise).await.is_err() {
            return; // the target is closed, and whoever closed it has told why
        }
    }
}

async fn tidy_lost_found(target: Weak<Target>, platform: Platform) {
    loop {
        let Some(target) = target.upgrade() else {
            return;
        };
        if target.check().is_err() {
            return;
        }
        if let Err(error) = target.tidy_lost_found().await {
            tracing::warn!(ost = target.ost.0, %error, "lost+found could not be tidied");
        }
        drop(target);
        platform.clock.sleep(LOST_FOUND_EVERY).await;
    }
}

async fn work(target: &Target, raise_stamp: bool) -> Result<(), Refusal> {
    target.check()?;
    if raise_stamp {
        target.raise_stamp().await?;
    }
    match target.settle_due(Due::Idle).await {
        // One object that cannot be read does not keep the others dirty.
        Err(Refusal::ObjectDamaged { .. }) | Ok(_) => Ok(()),
        Err(other) => Err(other),
    }
}

/// After a crash: what was marked then is read and summed again.
async fn sum_marked_regions(target: Weak<Target>) {
    let Some(target) = target.upgrade() else {
        return;
    };
    let scrub = Scrub::new(Verify::OnlyMarked);
    match target.scrub(scrub, |_| {}).await {
        Ok(done) => tracing::info!(
            ost = target.ost.0,
            summed = done.summed,
            "summed what a crash left marked"
        ),
        Err(error) => {
            tracing::warn!(ost = target.ost.0, %error, "stopped summing what a crash left marked")
        }
    }
}
