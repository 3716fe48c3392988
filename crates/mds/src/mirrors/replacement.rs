//! The replacement task: members of mirrored stripes on lost OSTs get other OSTs, where the resync task fills them; objects on OSTs that are
//! drained move to others.
//!
//! After a declaration, and after a start with such OSTs, it walks over all inodes. Files that it must leave, because a session writes them or
//! no other failure domain has an OST with space, make it walk again.

use super::lost_members::{has_lost_bytes, lost_member_osts};
use super::member_replacer::MemberReplacer;
use super::moves::{FileMove, FileMover, bytes_to_move};
use super::writers::{FileWriters, WriterHolds};
use crate::limits::{INODE_WALK_PAUSE, INODE_WALK_REST, REPLACE_EVERY, SCAN_STEP};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{
    DrainEstimate, ReplacementProgress, ReplacementRound, ResyncProgress, WalkedDrain,
};
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::{FsError, InodeId, Layout, OstId, Seq};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub struct ReplacementTask {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub progress: Arc<ReplacementProgress>,
    pub resync: Arc<ResyncProgress>,
    pub writers: Arc<dyn FileWriters>,
    pub clock: Clock,
}

/// How far a walk is with the bytes that it has found to move.
struct PassedBytes {
    found: u64,
    bytes: u64,
    begun: BootTime,
}

impl ReplacementTask {
    pub async fn run(self) {
        while self.store.failure().is_none() {
            let mut pause = REPLACE_EVERY;
            if self.progress.take() {
                let begun = self.clock.boot();
                let mut moving = Duration::ZERO;
                let round = self.walk(&mut moving).await;
                self.resync.wake();
                if self.progress.ended(round) {
                    // The rest is for the store, which the moves have hardly used.
                    let walking = self.clock.boot().since(begun).saturating_sub(moving);
                    pause += walking * INODE_WALK_REST;
                }
            }
            tokio::select! {
                biased;
                () = self.progress.wait() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// `moving`: how much of the time of the walk moves took is added.
    async fn walk(&self, moving: &mut Duration) -> Result<ReplacementRound, FsError> {
        let mut round = ReplacementRound::default();
        let lost = self.targets.lost();
        // Before the first record is read: each file with an object there that the walk does not find was made after the target was out of use.
        round.draining = self.draining();
        if lost.is_empty() && round.draining.is_empty() {
            return Ok(round);
        }
        tracing::trace!(target: "walk", file = file!(), "walk");
        if !round.draining.is_empty() {
            // A copy that has chosen the target before may put it into a layout behind the walk.
            drop(self.targets.unnamed_objects.write().await);
        }
        let found = self.bytes_to_move(&round.draining).await?;
        let mut passed = PassedBytes {
            found,
            bytes: 0,
            begun: self.clock.boot(),
        };
        let holds = WriterHolds::new(&*self.writers, &self.clock);
        let mut examined = 0;
        for shard in self.store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Inode);
            loop {
                let records = self.store.scan_now(&range, SCAN_STEP).await?;
                self.replace_step(&records, &lost, &holds, &mut round)
                    .await?;
                for (key, _) in &records {
                    let begun = self.clock.boot();
                    self.move_objects(key, &holds, &mut round, &mut passed)
                        .await?;
                    *moving += self.clock.boot().since(begun);
                    examined += 1;
                    self.progress.examined(examined);
                }
                match records.last() {
                    Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                    _ => break,
                }
                self.clock.sleep(INODE_WALK_PAUSE).await;
            }
        }
        Ok(round)
    }

    fn draining(&self) -> Vec<WalkedDrain> {
        let draining = self.targets.moving().into_iter();
        let not_walked = draining.map(|(ost, since)| WalkedDrain {
            ost,
            since,
            files_left: 0,
        });
        not_walked.collect()
    }

    /// Moves the objects of this file away from the OSTs that are being drained.
    async fn move_objects(
        &self,
        key: &RecordKey,
        holds: &WriterHolds<'_>,
        round: &mut ReplacementRound,
        passed: &mut PassedBytes,
    ) -> Result<(), FsError> {
        if round.draining.is_empty() {
            return Ok(());
        }
        // The newest record: the walk may be slow.
        let Some(value) = self.store.get_now(key).await? else {
            return Ok(());
        };
        let Some((ino, layout)) = file_layout(key, &value)? else {
            return Ok(());
        };
        let moving = self.targets.moving();
        let osts: BTreeSet<OstId> = layout.objects(ino).map(|(_, _, ost, ..)| ost).collect();
        // The walk that has passed a file while the drain was paused has not shown that the OST is empty, whether it goes on meanwhile or not.
        for drain in &mut round.draining {
            if osts.contains(&drain.ost) && !moving.contains_key(&drain.ost) {
                drain.files_left += 1;
                round.why.get_or_insert_with(|| {
                    format!("the drain of ost{} was paused or cancelled", drain.ost)
                });
            }
        }
        let is_left = |ost| moving.contains_key(&ost);
        let inode = Inode::decode(&value).map_err(|error| damaged_record(key, error))?;
        let bytes = bytes_to_move(&inode, is_left);
        let mover = FileMover {
            holds,
            clock: &self.clock,
            store: &self.store,
            driver: &self.driver,
            targets: &self.targets,
        };
        match mover.move_file(ino, key, value, is_left).await? {
            FileMove::Elsewhere => {}
            FileMove::Moved { bytes } => self.progress.moved(bytes),
            FileMove::Left(why) => {
                for drain in &mut round.draining {
                    let was_to_move = moving.contains_key(&drain.ost) && osts.contains(&drain.ost);
                    drain.files_left += u64::from(was_to_move);
                }
                round.why.get_or_insert(why);
            }
        }
        if bytes > 0 {
            passed.bytes += bytes;
            let time = self.clock.boot().since(passed.begun);
            let estimate = DrainEstimate::new(passed.found, passed.bytes, time);
            self.progress.estimate(estimate);
        }
        Ok(())
    }

    /// The bytes on these OSTs.
    async fn bytes_to_move(&self, draining: &[WalkedDrain]) -> Result<u64, FsError> {
        let mut found = 0;
        if draining.is_empty() {
            return Ok(found);
        }
        let is_left = |ost| draining.iter().any(|drain| drain.ost == ost);
        for shard in self.store.all_shards() {
            let add = |key: &RecordKey, value: &Bytes| {
                let inode = Inode::decode(value).map_err(|error| damaged_record(key, error))?;
                found += bytes_to_move(&inode, is_left);
                Ok(())
            };
            let range = KeyRange::of_kind(shard, RecordKind::Inode);
            self.store.each_record(range, add).await?;
        }
        Ok(found)
    }

    /// Replaces the members of these files that are on lost OSTs.
    async fn replace_step(
        &self,
        records: &[(RecordKey, Bytes)],
        lost: &[OstId],
        holds: &WriterHolds<'_>,
        round: &mut ReplacementRound,
    ) -> Result<(), FsError> {
        let mut newest = Seq(0);
        for (key, value) in records {
            let Some((ino, layout)) = file_layout(key, value)? else {
                continue;
            };
            let is_lost = |ost| lost.contains(&ost);
            if lost
                .iter()
                .any(|ost| has_lost_bytes(&layout, ino, *ost, is_lost))
            {
                round.lost += 1;
            }
            let osts = lost_member_osts(&layout, is_lost);
            if osts.is_empty() {
                continue;
            }
            let replacer = MemberReplacer {
                store: &self.store,
                driver: &self.driver,
                targets: &self.targets,
                holds,
            };
            newest = newest.max(replacer.replace(ino, osts, false).await?);
            self.note_outcome(key, layout, is_lost, round).await?;
        }
        self.store
            .durable(RequestOrigin::server("replace members"), newest)
            .await
    }

    /// Notes whether the file has got other OSTs, and whether it has still members on lost ones.
    async fn note_outcome(
        &self,
        key: &RecordKey,
        before: Layout,
        is_lost: impl Fn(OstId) -> bool + Copy,
        round: &mut ReplacementRound,
    ) -> Result<(), FsError> {
        let Some(value) = self.store.get_now(key).await? else {
            return Ok(());
        };
        let Some((ino, layout)) = file_layout(key, &value)? else {
            return Ok(());
        };
        let members = |layout: &Layout| lost_member_osts(layout, is_lost);
        let left = members(&layout);
        if left != members(&before) {
            round.replaced += 1;
        }
        // Without a full member on another OST nothing is left to copy.
        let has_source = |ost: &OstId| !has_lost_bytes(&layout, ino, *ost, is_lost);
        if left.iter().any(has_source) {
            round.left += 1;
            round.why.get_or_insert_with(|| {
                format!(
                    "inode {ino} is written, or no other failure domain has an OST with space for its copy"
                )
            });
        }
        Ok(())
    }
}

/// The number and the layout of a file; None for what is no file.
fn file_layout(key: &RecordKey, value: &Bytes) -> Result<Option<(InodeId, Layout)>, FsError> {
    let Some(ParsedKey::Inode(ino)) = key.parse() else {
        return Ok(None);
    };
    let inode = Inode::decode(value).map_err(|error| damaged_record(key, error))?;
    Ok(match inode.body {
        InodeBody::File(file) => Some((ino, file.layout)),
        InodeBody::Directory(_) | InodeBody::Symlink(_) | InodeBody::Special => None,
    })
}
