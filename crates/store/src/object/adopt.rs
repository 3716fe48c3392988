//! adopt: an open instance becomes the target's current one.
//!
//! An open instance finds (stamp, run) in the superblock, and changes nothing there until the metadata server, which
//! remembers both, has confirmed that the target is the one it knows. So a copy of a target that is refused stays
//! unchanged, however often it is opened.

use super::background;
use super::identity::SuperblockUpdate;
use super::target::Target;
use gupfs_proto::FsError;
use gupfs_proto::cluster::OwnerMark;
use std::sync::Arc;

pub(super) async fn adopt(target: &Arc<Target>, owner: OwnerMark) -> Result<(), FsError> {
    target.closing.check_open()?;
    let identity = &target.identity;
    let known = identity.known().owner;
    let is_other_run = owner.epoch == known.epoch && owner.run != known.run;
    if !owner.epoch.may_follow(known.epoch) || is_other_run {
        return Err(FsError::TargetDown {
            ost: identity.ost,
            reason: format!(
                "it knows the metadata server's owner epoch {}; the owner epoch {} is stale, that of a restored copy, or of another shard group",
                known.epoch, owner.epoch
            ),
        });
    }
    if identity.is_adopted() && owner.is_same_instance(&known) {
        identity.note_owner_durable(&owner);
        return Ok(());
    }
    let update = SuperblockUpdate {
        run: Some(identity.open_instance),
        owner: Some(owner),
        raise_stamp: true,
        clean_stop: false,
    };
    serve(target, update).await
}

pub(super) async fn serve_unadopted(target: &Arc<Target>) -> Result<(), FsError> {
    target.closing.check_open()?;
    let update = SuperblockUpdate {
        run: None,
        owner: None,
        raise_stamp: false,
        clean_stop: false,
    };
    target.identity.freeze_stamp();
    serve(target, update).await
}

async fn serve(target: &Arc<Target>, update: SuperblockUpdate) -> Result<(), FsError> {
    let recorded = target.writing.write_slots.record_recovered().await;
    recorded.map_err(|error| target.closing.sync_failed(&error))?;
    target.syncer.sync_write_slots().await?;
    let written = target.identity.write(update).await;
    written.map_err(|error| target.closing.sync_failed(&error))?;
    if target.identity.set_adopted() {
        background::start(target);
    }
    Ok(())
}
