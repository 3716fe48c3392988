//! Background tasks of a target: flushing checksums, raising the stamp, removing expired objects from quarantine.

use super::flush_checksums::FlushMode;
use super::limits::{CHECKSUM_FLUSH_EVERY, QUARANTINE_CHECK_EVERY, STAMP_EVERY};
use super::scrubber::{ScrubOptions, ScrubScope};
use super::target::Target;
use gupfs_platform::Platform;
use gupfs_proto::FsError;
use std::sync::{Arc, Weak};

/// Starts the background tasks of an adopted target; they end with it.
pub(super) fn start(target: &Arc<Target>) {
    let weak = Arc::downgrade(target);
    let platform = &target.platform;
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
    // After a crash.
    if !target.identity.was_stopped {
        tasks.push(
            platform
                .tasks
                .spawn("object checksummer", checksum_dirty_regions(weak)),
        );
    }
    target.background_tasks.set(tasks);
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
            return; // the target is closed; `ClosingState::close` has logged the reason
        }
    }
}

async fn remove_expired_objects(target: Weak<Target>, platform: Platform) {
    loop {
        let Some(target) = target.upgrade() else {
            return;
        };
        if target.closing.check_open().is_err() {
            return;
        }
        if let Err(error) = target.lost_found.remove_expired().await {
            tracing::warn!(ost = target.identity.ost.0, %error, "the OST could not remove expired objects from its lost+found");
        }
        drop(target);
        platform.clock.sleep(QUARANTINE_CHECK_EVERY).await;
    }
}

async fn flush_and_stamp(target: &Target, raise_stamp: bool) -> Result<(), FsError> {
    target.closing.check_open()?;
    if raise_stamp {
        target.raise_stamp().await?;
    }
    match target.flusher.flush_due(FlushMode::Idle).await {
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
    match target.scrubber.scrub(scrub, |_| {}).await {
        Ok(done) => tracing::info!(
            ost = target.identity.ost.0,
            summed = done.summed,
            "the OST has computed the checksums of the regions that a crash left dirty"
        ),
        Err(error) => {
            tracing::warn!(ost = target.identity.ost.0, %error, "the OST stopped computing the checksums of the regions that a crash left dirty")
        }
    }
}
