//! # drain_room: what a drain of an OST would move, and whether the other OSTs have space and failure domains for it
//!
//! Owns   the answer to an administrator's question before a drain, a part of the name space at a time.
//! Never  changes a record.
//! Enter  at `DrainRoom::next_part`.

use crate::limits::{LOST_FILES_EXAMINED, SCAN_STEP};
use crate::mirrors::{bytes_to_move, can_leave};
use crate::osts::Targets;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::{
    Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey, RecordKind, choose_layout,
};
use gupfs_proto::cluster::{DrainNeeds, DrainRoomPart, LostFilePosition};
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FsError, InodeId, OstId};
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct DrainRoom {
    pub store: Arc<MetadataStore>,
    pub targets: Arc<Targets>,
}

/// The cluster as it would be during the drain.
struct DuringDrain {
    ost: OstId,
    /// The OSTs from which objects would move: this one, and those that are being drained now.
    left: BTreeSet<OstId>,
    /// Without this one.
    placement: Vec<PlacementTarget>,
    /// What remains when all of `left` are removed.
    afterwards: Vec<PlacementTarget>,
}

impl DrainRoom {
    /// # Errors
    /// Of the store.
    pub async fn next_part(
        &self,
        ost: OstId,
        from: Option<LostFilePosition>,
    ) -> Result<DrainNeeds, FsError> {
        let (_, available) = self.targets.room_for_drain(ost);
        let mut needs = DrainNeeds {
            room: DrainRoomPart {
                files: 0,
                bytes: 0,
                examined: 0,
                next: None,
                available,
            },
            files_without_domain: 0,
            directories_without_domain: 0,
        };
        let cluster = DuringDrain::new(&self.targets, ost);
        let first = from.map_or(0, |position| usize::from(position.shard.0));
        let mut after = from.and_then(|position| position.after);
        for shard in self.store.all_shards().skip(first) {
            let mut range = KeyRange::of_kind(shard, RecordKind::Inode);
            if let Some(after) = after.take() {
                range.from = RecordKey::inode(after).successor();
            }
            loop {
                let records = self.store.scan_now(&range, SCAN_STEP).await?;
                for (key, value) in &records {
                    let inode = Inode::decode(value).map_err(|error| damaged_record(key, error))?;
                    if let Some(ParsedKey::Inode(ino)) = key.parse() {
                        cluster.add(ino, &inode, &mut needs);
                    }
                }
                needs.room.examined += records.len() as u64;
                let Some((last, _)) = records.last() else {
                    break;
                };
                range.from = last.successor();
                if let Some(ParsedKey::Inode(ino)) = last.parse()
                    && needs.room.examined >= LOST_FILES_EXAMINED as u64
                {
                    let after = Some(ino);
                    needs.room.next = Some(LostFilePosition { shard, after });
                    return Ok(needs);
                }
                if records.len() < SCAN_STEP {
                    break;
                }
            }
        }
        Ok(needs)
    }
}

impl DuringDrain {
    fn new(targets: &Targets, ost: OstId) -> DuringDrain {
        let mut left: BTreeSet<OstId> = targets.draining().into_keys().collect();
        left.insert(ost);
        let mut placement = targets.placement().to_vec();
        placement.retain(|target| target.ost != ost);
        let mut afterwards = placement.clone();
        afterwards.retain(|target| !left.contains(&target.ost));
        DuringDrain {
            ost,
            left,
            placement,
            afterwards,
        }
    }

    /// Adds what this inode needs.
    fn add(&self, ino: InodeId, inode: &Inode, needs: &mut DrainNeeds) {
        match &inode.body {
            InodeBody::File(file) => {
                let bytes = bytes_to_move(inode, |on| on == self.ost);
                needs.room.files += u64::from(bytes > 0);
                needs.room.bytes = needs.room.bytes.saturating_add(bytes);
                let is_left = |on| self.left.contains(&on);
                // Files without mirrors need space alone.
                let is_mirrored = file.layout.components.iter().any(|it| it.is_mirrored());
                let stays = is_mirrored && !can_leave(ino, &file.layout, &self.placement, is_left);
                needs.files_without_domain += u64::from(stays);
            }
            InodeBody::Directory(directory) => {
                let layout = directory.default_layout.as_ref().map(|it| &it.layout);
                let fails = layout.is_some_and(|layout| {
                    let is_mirrored = layout
                        .components
                        .iter()
                        .any(|it| it.redundancy.copies() > 1);
                    is_mirrored && choose_layout(layout, &self.afterwards, ino, 1).is_err()
                });
                needs.directories_without_domain += u64::from(fails);
            }
            InodeBody::Symlink(_) | InodeBody::Special => {}
        }
    }
}
