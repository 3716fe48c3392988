//! # drain_room: what a drain of an OST would move, and the space that there is for it
//!
//! Owns   the answer to an administrator's question before a drain, a part of the name space at a time.
//! Never  changes a record.
//! Enter  at `DrainRoom::next_part`.

use crate::limits::{LOST_FILES_EXAMINED, SCAN_STEP};
use crate::mirrors::bytes_to_move;
use crate::osts::Targets;
use crate::store::{MetadataStore, damaged_record};
use gupfs_namespace::{Inode, KeyRange, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_proto::OstId;
use gupfs_proto::cluster::{ClusterReply, ClusterReplyBody, DrainRoomPart, LostFilePosition};
use std::sync::Arc;

pub struct DrainRoom {
    pub store: Arc<MetadataStore>,
    pub targets: Arc<Targets>,
}

impl DrainRoom {
    /// # Errors
    /// Of the store.
    pub async fn next_part(&self, ost: OstId, from: Option<LostFilePosition>) -> ClusterReply {
        let (_, available) = self.targets.room_for_drain(ost);
        let mut part = DrainRoomPart {
            files: 0,
            bytes: 0,
            examined: 0,
            next: None,
            available,
        };
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
                    let bytes = bytes_to_move(&inode, |on| on == ost);
                    part.files += u64::from(bytes > 0);
                    part.bytes = part.bytes.saturating_add(bytes);
                }
                part.examined += records.len() as u64;
                let Some((last, _)) = records.last() else {
                    break;
                };
                range.from = last.successor();
                if let Some(ParsedKey::Inode(ino)) = last.parse()
                    && part.examined >= LOST_FILES_EXAMINED as u64
                {
                    let after = Some(ino);
                    part.next = Some(LostFilePosition { shard, after });
                    return Ok(ClusterReplyBody::DrainRoom(part));
                }
                if records.len() < SCAN_STEP {
                    break;
                }
            }
        }
        Ok(ClusterReplyBody::DrainRoom(part))
    }
}
