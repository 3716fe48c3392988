//! Moving a file's objects away from targets that are being drained.
//!
//! The bytes are copied while no session has the file's write lease, and the layout changes only if the file's record is still as it was. The
//! objects on the former targets stay: a read that is under way may still use the former layout.

use super::copy::ObjectCopy;
use super::drain_pace::DrainPace;
use super::resync::owner_of;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{
    BackgroundOp, Inode, InodeBody, Record, RecordKey, choose_move, choose_replacement,
};
use gupfs_platform::Clock;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{Component, FsError, InodeId, OstId, Presence};

pub struct FileMover<'a> {
    pub store: &'a MetadataStore,
    pub driver: &'a ShardDriver,
    pub targets: &'a Targets,
    pub clock: &'a Clock,
}

/// The result for one file.
pub enum FileMove {
    /// It has no object on these targets.
    Elsewhere,
    Moved {
        bytes: u64,
    },
    /// Objects must stay there now, for this reason.
    Left(String),
}

impl FileMover<'_> {
    /// Moves the file's objects away from targets for which `is_left` holds. `key` and `value`: the inode's record.
    ///
    /// # Errors
    /// Of the store.
    pub async fn move_file(
        &self,
        ino: InodeId,
        key: &RecordKey,
        value: Bytes,
        is_left: impl Fn(OstId) -> bool,
    ) -> Result<FileMove, FsError> {
        let inode = Inode::decode(&value).map_err(|error| damaged_record(key, error))?;
        let InodeBody::File(file) = &inode.body else {
            return Ok(FileMove::Elsewhere);
        };
        if !file.layout.objects(ino).any(|(_, _, ost, ..)| is_left(ost)) {
            return Ok(FileMove::Elsewhere);
        }
        if file.write_leases > 0 {
            return Ok(FileMove::Left(format!("inode {ino} is being written")));
        }
        if file.truncating.is_some() {
            return Ok(FileMove::Left(format!("inode {ino} is being truncated")));
        }
        // Until the layout names the copies, the sweep would take them for leftovers of a power loss.
        let _no_sweep = self.targets.unnamed_objects.read().await;
        let placement = self.targets.placement();
        let mut layout = file.layout.clone();
        let (mut objects, mut bytes) = (Vec::new(), 0);
        for (at, component) in file.layout.components.iter().enumerate() {
            for (index, from) in component.targets.iter().enumerate() {
                if !is_left(*from) {
                    continue;
                }
                let Some(to) = destination(&layout.components[at], index, &placement, ino) else {
                    return Ok(FileMove::Left(format!(
                        "no OST with space can take an object of inode {ino}"
                    )));
                };
                layout.components[at].targets[index] = to;
                objects.push((at as u32, index as u32, to));
                // A stale member is filled there by the resync, and what was never written is nowhere.
                let presence = component.presence.get(index);
                if matches!(presence, Presence::Stale | Presence::Never) {
                    continue;
                }
                if let Some(down) = [*from, to].iter().find(|ost| !self.targets.is_up(**ost)) {
                    return Ok(FileMove::Left(format!("ost{down} is not up")));
                }
                let object = component.object(ino, index);
                let copy = ObjectCopy {
                    targets: self.targets,
                    source: (*from, object),
                    to: (to, object),
                    owner: owner_of(&inode),
                };
                match self.copy(&copy).await {
                    Ok(copied) => bytes += copied,
                    Err(error) => return Ok(FileMove::Left(error.to_string())),
                }
            }
        }
        let op = BackgroundOp::MoveObjects { ino, objects };
        let unchanged = (key.clone(), value);
        let applied = self
            .driver
            .apply_if_unchanged(&op, Some(&unchanged))
            .await?;
        let Some(applied) = applied else {
            return Ok(FileMove::Left(format!("inode {ino} has changed meanwhile")));
        };
        applied.result?;
        let origin = RequestOrigin::server("move objects");
        self.store.durable(origin, applied.seq).await?;
        Ok(FileMove::Moved { bytes })
    }

    /// Returns the number of bytes copied.
    async fn copy(&self, copy: &ObjectCopy<'_>) -> Result<u64, FsError> {
        let (ost, object) = copy.to;
        // The object may have been there before, and a change that a client gave up then may still be on its way.
        self.targets.fence_object(ost, object).await?;
        let pace = DrainPace {
            targets: self.targets,
            clock: self.clock,
            ost: copy.source.0,
        };
        copy.run_at(Some(&pace)).await.map(|bytes| bytes.copied)
    }
}

/// The bytes of a file's objects on the OSTs for which `is_left` holds: their lengths, and not more than what all objects of the file occupy.
pub fn bytes_to_move(inode: &Inode, is_left: impl Fn(OstId) -> bool) -> u64 {
    let InodeBody::File(file) = &inode.body else {
        return 0;
    };
    let mut bytes = 0u64;
    for component in &file.layout.components {
        for (index, ost) in component.targets.iter().enumerate() {
            let presence = component.presence.get(index);
            if is_left(*ost) && !matches!(presence, Presence::Stale | Presence::Never) {
                bytes = bytes.saturating_add(component.object_size(index, inode.size));
            }
        }
    }
    bytes.min(inode.blocks.saturating_mul(512))
}

/// The OST to which an object moves. Members of a mirrored stripe stay in different failure domains.
fn destination(
    component: &Component,
    index: usize,
    placement: &[PlacementTarget],
    ino: InodeId,
) -> Option<OstId> {
    if !component.is_mirrored() {
        return choose_move(placement, &component.targets, ino);
    }
    let members = component.members(component.stripe_of(index));
    let others: Vec<OstId> = members
        .filter(|member| *member != index)
        .map(|member| component.targets[member])
        .collect();
    choose_replacement(placement, &others, ino)
}
