//! Moving a file's objects away from targets that are being drained.
//!
//! Beside a session that has the file's write lease the bytes are copied until little is left; then the session gives the lease back for the last
//! step. The layout changes only if the file's record is still as it was when no session had the lease. The objects on the former targets stay: a
//! read that is under way may still use the former layout.

use super::copy::{CopyPace, ObjectCopy};
use super::drain_pace::DrainPace;
use super::resync::owner_of;
use super::writers::WriterHolds;
use crate::limits::{COPIES_BESIDE_WRITER, WRITER_HELD_MAX, WRITER_PATIENCE};
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
use gupfs_proto::{Component, FsError, Generation, InodeId, Layout, ObjectId, OstId, Presence};
use std::pin::pin;

pub struct FileMover<'a> {
    pub store: &'a MetadataStore,
    pub driver: &'a ShardDriver,
    pub targets: &'a Targets,
    pub holds: &'a WriterHolds<'a>,
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

/// Whether writers wait for a copy.
#[derive(Clone, Copy)]
enum PacedBy {
    Drain,
    Nothing,
}

/// An object that goes to another target.
struct ObjectMove {
    /// Component and object index.
    position: (u32, u32),
    object: ObjectId,
    from: OstId,
    to: OstId,
    presence: Presence,
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
        // Until the layout names the copies, the sweep would take them for leftovers of a power loss.
        let _no_sweep = self.targets.unnamed_objects.read().await;
        match file.write_leases {
            0 => {
                let moves = match self.plan(ino, &inode, &[], &is_left)? {
                    Ok(moves) => moves,
                    Err(why) => return Ok(FileMove::Left(why)),
                };
                self.move_at_rest(ino, (key.clone(), value), &inode, &moves, PacedBy::Drain)
                    .await
            }
            _ => self.move_beside_writers(ino, key, &inode, is_left).await,
        }
    }

    /// Copies while sessions write the file, and takes it from them for the last step.
    async fn move_beside_writers(
        &self,
        ino: InodeId,
        key: &RecordKey,
        inode: &Inode,
        is_left: impl Fn(OstId) -> bool,
    ) -> Result<FileMove, FsError> {
        let moves = match self.plan(ino, inode, &[], &is_left)? {
            Ok(moves) => moves,
            Err(why) => return Ok(FileMove::Left(why)),
        };
        let why = format!("inode {ino} is being written by a session that does not give it up");
        if self.holds.are_over() {
            return Ok(FileMove::Left(why));
        }
        if let Err(why) = self.copy_beside_writers(ino, inode, &moves).await {
            return Ok(FileMove::Left(why));
        }
        let Some(held) = self.holds.hold(ino).await? else {
            return Ok(FileMove::Left(why));
        };
        let Some(value) = self.store.get_now(key).await? else {
            return Ok(FileMove::Elsewhere);
        };
        let before = all_targets(inode)?;
        let inode = Inode::decode(&value).map_err(|error| damaged_record(key, error))?;
        // A member of the same stripe may have got the OST meanwhile to which another one was copied.
        if all_targets(&inode)? != before {
            return Ok(FileMove::Left(format!("inode {ino} has changed meanwhile")));
        }
        let moving = self.targets.moving();
        if moves
            .iter()
            .any(|planned| !moving.contains_key(&planned.from))
        {
            return Ok(FileMove::Left("the drain was paused or cancelled".into()));
        }
        // To where they were copied; objects may have been created since.
        let moves = match self.plan(ino, &inode, &moves, &is_left)? {
            Ok(moves) => moves,
            Err(why) => return Ok(FileMove::Left(why)),
        };
        let moving = self.move_at_rest(ino, (key.clone(), value), &inode, &moves, PacedBy::Nothing);
        let mut moving = pin!(moving);
        tokio::select! {
            biased;
            moved = moving.as_mut() => return moved,
            () = self.clock.sleep(WRITER_PATIENCE) => {}
        }
        // A target is slow. The writers go on, and their leases make the move begin again.
        drop(held);
        moving.await
    }

    /// Copies until little is left to copy.
    ///
    /// # Errors
    /// Why the file must be left as it is.
    async fn copy_beside_writers(
        &self,
        ino: InodeId,
        inode: &Inode,
        moves: &[ObjectMove],
    ) -> Result<(), String> {
        for _ in 0..COPIES_BESIDE_WRITER {
            let begun = self.clock.boot();
            self.copy_all(inode, moves, PacedBy::Drain).await?;
            if self.clock.boot().since(begun) <= WRITER_HELD_MAX {
                return Ok(());
            }
        }
        Err(format!(
            "inode {ino} is being written, and copying it takes longer than a writer may wait"
        ))
    }

    /// Where the file's objects go that are on targets for which `is_left` holds: there where `before` has moved them, if it has.
    ///
    /// # Errors
    /// The inner result: why the file must be left as it is.
    fn plan(
        &self,
        ino: InodeId,
        inode: &Inode,
        before: &[ObjectMove],
        is_left: impl Fn(OstId) -> bool,
    ) -> Result<Result<Vec<ObjectMove>, String>, FsError> {
        let file = inode.file()?;
        if file.truncating.is_some() {
            return Ok(Err(format!("inode {ino} is being truncated")));
        }
        let placement = self.targets.placement();
        let moves = choose_moves(ino, &file.layout, &placement, before, is_left);
        Ok(moves.ok_or_else(|| format!("no OST with space can take an object of inode {ino}")))
    }

    /// Copies the objects that have bytes; returns how many were copied.
    ///
    /// # Errors
    /// Why the file must be left as it is.
    async fn copy_all(
        &self,
        inode: &Inode,
        moves: &[ObjectMove],
        paced_by: PacedBy,
    ) -> Result<u64, String> {
        let mut bytes = 0;
        for planned in moves {
            let has_bytes = !matches!(planned.presence, Presence::Stale | Presence::Never);
            let source = has_bytes.then_some(planned.from);
            let mut ends = source.into_iter().chain([planned.to]);
            if let Some(down) = ends.find(|ost| !self.targets.is_up(*ost)) {
                return Err(format!("ost{down} is not up"));
            }
            if !has_bytes {
                // A stale member is filled there by the resync, and what was never written is nowhere.
                let removed = self.remove_leftover(planned).await;
                removed.map_err(|error| error.to_string())?;
                continue;
            }
            let copy = ObjectCopy {
                targets: self.targets,
                source: (planned.from, planned.object),
                to: (planned.to, planned.object),
                owner: owner_of(inode),
            };
            let copied = self.copy(&copy, paced_by).await;
            bytes += copied.map_err(|error| error.to_string())?;
        }
        Ok(bytes)
    }

    /// Removes what a move that ended half way has left of an object that was never written, as the layout says by now.
    async fn remove_leftover(&self, planned: &ObjectMove) -> Result<(), FsError> {
        let (to, object) = (planned.to, planned.object);
        if planned.presence != Presence::Never {
            return Ok(());
        }
        if let Ok(None) = self.targets.stat_object(to, object).await {
            return Ok(());
        }
        self.targets.fence_object(to, object).await?;
        self.targets.remove_object(to, object).await?;
        self.targets
            .sync_objects(std::iter::once((to, object)))
            .await?;
        Ok(())
    }

    /// Moves the objects of a file that no session writes, by its record.
    async fn move_at_rest(
        &self,
        ino: InodeId,
        record: (RecordKey, Bytes),
        inode: &Inode,
        moves: &[ObjectMove],
        paced_by: PacedBy,
    ) -> Result<FileMove, FsError> {
        if inode.file()?.write_leases > 0 {
            return Ok(FileMove::Left(format!("inode {ino} is being written")));
        }
        let bytes = match self.copy_all(inode, moves, paced_by).await {
            Ok(bytes) => bytes,
            Err(why) => return Ok(FileMove::Left(why)),
        };
        let to = |planned: &ObjectMove| {
            let (component, index) = planned.position;
            (component, index, planned.to)
        };
        let objects = moves.iter().map(to).collect();
        let op = BackgroundOp::MoveObjects { ino, objects };
        let applied = self.driver.apply_if_unchanged(&op, Some(&record)).await?;
        let Some(applied) = applied else {
            return Ok(FileMove::Left(format!("inode {ino} has changed meanwhile")));
        };
        applied.result?;
        let origin = RequestOrigin::server("move objects");
        self.store.durable(origin, applied.seq).await?;
        Ok(FileMove::Moved { bytes })
    }

    /// Returns the number of bytes copied.
    async fn copy(&self, copy: &ObjectCopy<'_>, paced_by: PacedBy) -> Result<u64, FsError> {
        let (ost, object) = copy.to;
        // The object may have been there before, and a change that a client gave up then may still be on its way.
        self.targets.fence_object(ost, object).await?;
        let pace = match paced_by {
            PacedBy::Nothing => CopyPace::Full,
            PacedBy::Drain => {
                CopyPace::Drain(DrainPace::new(self.targets, self.clock, copy.source.0))
            }
        };
        copy.run(&pace).await.map(|bytes| bytes.copied)
    }
}

/// Where the objects go that are on targets for which `is_left` holds: there where `before` has moved them, if it has. None if one of them has no
/// target to go to.
fn choose_moves(
    ino: InodeId,
    before_moves: &Layout,
    placement: &[PlacementTarget],
    before: &[ObjectMove],
    is_left: impl Fn(OstId) -> bool,
) -> Option<Vec<ObjectMove>> {
    let mut layout = before_moves.clone();
    let mut moves = Vec::new();
    for (at, component) in before_moves.components.iter().enumerate() {
        for (index, from) in component.targets.iter().enumerate() {
            if !is_left(*from) {
                continue;
            }
            let object = component.object(ino, index);
            let same = |other: &&ObjectMove| other.object == object && other.from == *from;
            let chosen = before.iter().find(same).map(|other| other.to);
            let choose = || destination(&layout.components[at], index, placement, ino);
            let to = chosen.or_else(choose)?;
            layout.components[at].targets[index] = to;
            moves.push(ObjectMove {
                position: (at as u32, index as u32),
                object,
                from: *from,
                to,
                presence: component.presence.get(index),
            });
        }
    }
    Some(moves)
}

/// Whether all objects on targets for which `is_left` holds could go to other targets.
pub fn can_leave(
    ino: InodeId,
    layout: &Layout,
    placement: &[PlacementTarget],
    is_left: impl Fn(OstId) -> bool,
) -> bool {
    choose_moves(ino, layout, placement, &[], is_left).is_some()
}

/// The targets of each component, with its generation.
fn all_targets(inode: &Inode) -> Result<Vec<(Generation, Vec<OstId>)>, FsError> {
    let components = inode.file()?.layout.components.iter();
    let targets = components.map(|component| (component.generation, component.targets.clone()));
    Ok(targets.collect())
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
