//! Background tasks of a target: flushing checksums, raising the stamp, removing expired objects from quarantine.

use super::flush_checksums::FlushMode;
use super::limits::{CHECKSUM_FLUSH_EVERY, QUARANTINE_CHECK_EVERY, STAMP_EVERY};
use super::scrub::{ScrubOptions, ScrubScope};
use super::target::Target;
use gupfs_platform::{Platform, Task};
use gupfs_proto::FsError;
use std::sync::{Arc, Weak};

/// Starts the background tasks; they end with the target.
pub(super) fn start(target: &Arc<Target>, platform: &Platform, after_crash: bool) -> Vec<Task<()>> {
    let weak = Arc::downgrade(target);
    let mut tasks = vec![
        platform.tasks.spawn(
            "object checksum flusher",
            run_checksum_flusher(weak.clone(), platform.clone()),
        ),
        platform.tasks.spawn(
            "object quarantine cleaner",
            remove_expired_objects(weak.clone(), platform.clone()),
        ),
    ];
    if after_crash {
        tasks.push(
            platform
                .tasks
                .spawn("object checksummer", checksum_dirty_regions(weak)),
        );
    }
    tasks
}

async fn run_checksum_flusher(target: Weak<Target>, platform: Platform) {
    let mut stamped = platform.clock.boot();
    loop {
        platform.clock.sleep(CHECKSUM_FLUSH_EVERY).await;
        let Some(target) = target.upgrade() else {
            return;
        };
        let raise = platform.clock.boot().since(stamped) >= STAMP_EVERY;
        if raise {
            stamped = platform.clock.boot();
        }
        if flush_and_stamp(&target, raise).await.is_err() {
            return; // the target is closed; `Target::close` has logged the reason
        }
    }
}

async fn remove_expired_objects(target: Weak<Target>, platform: Platform) {
    loop {
        let Some(target) = target.upgrade() else {
            return;
        };
        if target.check_open().is_err() {
            return;
        }
        if let Err(error) = target.remove_expired_objects().await {
            tracing::warn!(ost = target.ost.0, %error, "the OST could not remove expired objects from its lost+found");
        }
        drop(target);
        platform.clock.sleep(QUARANTINE_CHECK_EVERY).await;
    }
}

async fn flush_and_stamp(target: &Target, raise_stamp: bool) -> Result<(), FsError> {
    target.check_open()?;
    if raise_stamp {
        target.raise_stamp().await?;
    }
    match target.flush_due_checksums(FlushMode::Idle).await {
        // One unreadable object does not keep the others dirty.
        Err(FsError::ObjectDamaged { .. }) | Ok(_) => Ok(()),
        Err(other) => Err(other),
    }
}

/// After a crash: reads the regions that were dirty then, and computes their checksums.
async fn checksum_dirty_regions(target: Weak<Target>) {
    let Some(target) = target.upgrade() else {
        return;
    };
    let scrub = ScrubOptions::new(ScrubScope::OnlyDirty);
    match target.scrub(scrub, |_| {}).await {
        Ok(done) => tracing::info!(
            ost = target.ost.0,
            summed = done.summed,
            "the OST has computed the checksums of the regions that a crash left dirty"
        ),
        Err(error) => {
            tracing::warn!(ost = target.ost.0, %error, "the OST stopped computing the checksums of the regions that a crash left dirty")
        }
    }
}
