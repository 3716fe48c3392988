//! Scrubs the objects of one file.

use super::copies::{Copy, StripeCopies};
use super::pacer::Pacer;
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{DamagedObject, FileScrubbed, ScrubProgress};
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{BackgroundOp, FileBody, Inode, InodeBody, Record, RecordKey};
use gupfs_proto::{Component, FsError, InodeId, ObjectId, OstId, Presence};
use std::sync::Arc;

#[derive(Clone)]
pub struct FileScrubber {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub progress: Arc<ScrubProgress>,
}

impl FileScrubber {
    /// Verifies all objects of the file whose targets are up, and repairs what it can; returns those that are in order now.
    ///
    /// # Errors
    /// Of the store. That a file was not verified whole is no error; the progress has it.
    pub async fn scrub(
        &self,
        ino: InodeId,
        pacer: &Pacer,
    ) -> Result<Vec<(OstId, ObjectId)>, FsError> {
        let key = RecordKey::inode(ino);
        let Some(value) = self.store.get_now(&key).await? else {
            self.progress.forget(ino);
            return Ok(Vec::new());
        };
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        let InodeBody::File(file) = inode.body else {
            self.progress.forget(ino);
            return Ok(Vec::new());
        };
        let record = (key, value);
        let mut done = FileScrubbed::default();
        for (number, component) in file.layout.components.iter().enumerate() {
            for stripe in 0..component.stripes() {
                let scrubbed = self
                    .scrub_stripe(ino, &record, &file, (number, component), stripe, pacer)
                    .await;
                match scrubbed {
                    Ok(stripe) => done.add(stripe),
                    Err(error @ FsError::StoreFailed(_)) => return Err(error),
                    Err(error) => done.left = Some(format!("inode {ino}: {error}")),
                }
            }
        }
        let intact = done.intact.clone();
        self.progress.scrubbed(ino, done);
        Ok(intact)
    }

    async fn scrub_stripe(
        &self,
        ino: InodeId,
        record: &(RecordKey, Bytes),
        file: &FileBody,
        (number, component): (usize, &Component),
        stripe: usize,
        pacer: &Pacer,
    ) -> Result<FileScrubbed, FsError> {
        let mut done = FileScrubbed::default();
        let presence = component.presence.get(component.first_full_member(stripe));
        if presence == Presence::Never {
            return Ok(done);
        }
        let (up, down): (Vec<usize>, Vec<usize>) = component
            .full_members(stripe)
            .partition(|index| self.targets.is_up(component.targets[*index]));
        if let Some(index) = down.first() {
            let ost = component.targets[*index];
            done.left = Some(format!("inode {ino}: ost{ost} is not up"));
        }
        let copy = |index: usize| Copy {
            index,
            ost: component.targets[index],
            object: component.object(ino, index),
            must_exist: presence == Presence::Present,
            is_missing: false,
            is_damaged: false,
            differs: false,
            repaired: 0,
            bytes: 0,
        };
        let mut copies = StripeCopies {
            targets: &self.targets,
            pacer,
            members: up.into_iter().map(copy).collect(),
        };
        copies.scrub().await?;
        let members = copies.members;
        for member in members.iter().filter(|member| member.repaired > 0) {
            let object = std::iter::once((member.ost, member.object));
            self.targets.sync_objects(object).await?;
        }
        // What is being written, or has changed meanwhile, may be missing here and differ for a moment.
        let rests = file.write_leases == 0
            && file.truncating.is_none()
            && self.store.get_now(&record.0).await?.as_ref() == Some(&record.1);
        let is_intact = |member: &Copy| !member.is_damaged && !member.differs;
        let mut renewed = false;
        let damaged: Vec<(u32, u32)> = members
            .iter()
            .filter(|member| member.is_damaged)
            .map(|member| (number as u32, member.index as u32))
            .collect();
        let nothing_differs = members.iter().all(|member| !member.differs);
        if rests && !damaged.is_empty() && nothing_differs && members.iter().any(is_intact) {
            renewed = self.renew(ino, damaged, record).await?;
        }
        for member in &members {
            done.bytes += member.bytes;
            done.repaired += member.repaired;
            done.renewed += u64::from(renewed && member.is_damaged);
            let what = match member {
                member if member.is_damaged && renewed => None,
                member if member.is_damaged && rests => Some("is damaged"),
                member if member.differs && rests => Some("differs from another copy"),
                member if is_intact(member) => None,
                _ => {
                    done.left = Some(format!("inode {ino} is being written"));
                    continue;
                }
            };
            match what {
                Some(what) => done.damaged.push(DamagedObject {
                    ino,
                    ost: member.ost,
                    object: member.object,
                    what,
                }),
                None => done.intact.push((member.ost, member.object)),
            }
        }
        Ok(done)
    }

    /// Makes these members stale, if the file is as it was when they were examined: the resync task fills them. Returns whether it was.
    async fn renew(
        &self,
        ino: InodeId,
        objects: Vec<(u32, u32)>,
        record: &(RecordKey, Bytes),
    ) -> Result<bool, FsError> {
        let op = BackgroundOp::MarkStale { ino, objects };
        let applied = self.driver.apply_if_unchanged(&op, Some(record)).await?;
        let Some(applied) = applied else {
            return Ok(false);
        };
        applied.result?;
        let origin = RequestOrigin::server("renew a damaged member");
        self.store.durable(origin, applied.seq).await?;
        Ok(true)
    }
}

impl FileScrubbed {
    fn add(&mut self, other: FileScrubbed) {
        self.bytes += other.bytes;
        self.repaired += other.repaired;
        self.renewed += other.renewed;
        self.intact.extend(other.intact);
        self.damaged.extend(other.damaged);
        self.left = self.left.take().or(other.left);
    }
}
