//! adopt: an open instance becomes the target's current one.
//!
//! An open instance finds (stamp, run) in the superblock, and changes nothing there until the metadata server, which
//! remembers both, has confirmed that the target is the one it knows. So a copy of a target that is refused stays
//! unchanged, however often it is opened.

use super::target::{SuperblockUpdate, Target};
use gupfs_proto::FsError;
use gupfs_proto::cluster::OwnerMark;
use std::sync::Arc;

pub(super) async fn adopt(target: &Arc<Target>, owner: OwnerMark) -> Result<(), FsError> {
    target.check_open()?;
    let known = target.identity().owner;
    if owner.epoch < known.epoch || (owner.epoch == known.epoch && owner.run != known.run) {
        return Err(FsError::TargetDown {
            ost: target.ost,
            reason: format!(
                "it knows the metadata server's owner epoch {}; the owner epoch {} is stale or that of a restored copy",
                known.epoch, owner.epoch
            ),
        });
    }
    if target.is_adopted() && owner.is_same_instance(&known) {
        target.note_owner_durable(&owner);
        return Ok(());
    }
    let write = SuperblockUpdate {
        run: Some(target.open_instance),
        owner: Some(owner),
        raise_stamp: true,
        clean_stop: false,
    };
    serve(target, write).await
}

pub(super) async fn serve_unadopted(target: &Arc<Target>) -> Result<(), FsError> {
    target.check_open()?;
    let write = SuperblockUpdate {
        run: None,
        owner: None,
        raise_stamp: false,
        clean_stop: false,
    };
    target.freeze_stamp();
    serve(target, write).await
}

async fn serve(target: &Arc<Target>, write: SuperblockUpdate) -> Result<(), FsError> {
    let written = target.write_superblock(write).await;
    written.map_err(|error| target.sync_failed(&error))?;
    if target.set_adopted() {
        *target.background_tasks.lock() =
            super::background::start(target, &target.platform, !target.was_stopped);
    }
    Ok(())
}
