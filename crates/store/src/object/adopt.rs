//! adopt: an opening becomes the target's own.
//!
//! An opening finds (stamp, run) in the superblock and changes nothing there until whoever remembers these has said that the
//! target is who it was. So a copy that is refused stays the copy it was, however often it is opened.

use super::target::{Target, Write};
use gupfs_proto::Refusal;
use gupfs_proto::cluster::OwnerMark;
use std::sync::Arc;

pub(super) async fn adopt(target: &Arc<Target>, owner: OwnerMark) -> Result<(), Refusal> {
    target.check()?;
    let known = target.identity().owner;
    if owner.epoch < known.epoch || (owner.epoch == known.epoch && owner.run != known.run) {
        return Err(Refusal::TargetDown {
            ost: target.ost,
            why: format!(
                "it has heard of owner {} of the metadata, and does not believe owner {}",
                known.epoch, owner.epoch
            ),
        });
    }
    if target.is_adopted() && owner.is_same_start(&known) {
        target.hear_durable(&owner);
        return Ok(());
    }
    let write = Write {
        run: Some(target.opening),
        owner: Some(owner),
        raise: true,
        clean_stop: false,
    };
    serve(target, write).await
}

pub(super) async fn go_on(target: &Arc<Target>) -> Result<(), Refusal> {
    target.check()?;
    let write = Write {
        run: None,
        owner: None,
        raise: false,
        clean_stop: false,
    };
    target.keeps_stamp();
    serve(target, write).await
}

async fn serve(target: &Arc<Target>, write: Write) -> Result<(), Refusal> {
    let written = target.write_superblock(write).await;
    written.map_err(|error| target.sync_failed(&error))?;
    if target.set_adopted() {
        *target.chores.lock() = super::chores::start(target, &target.platform, !target.was_stopped);
    }
    Ok(())
}
