//! The resync task: copies the bytes of mirrored stripes to their stale members.
//!
//! It copies beside a session that has the file's write lease, and takes the lease away for the last step alone: what has changed since is copied
//! while no session has it. The members are recorded as full only if the file's record is still as it was then. A stale member on an OST that has been down for long gets another OST first.

use super::copy::{CopiedBytes, CopyPace, ObjectCopy};
use super::member_replacer::MemberReplacer;
use super::resync_pace::ResyncPace;
use super::writers::{FileWriters, WriterHolds};
use crate::join;
use crate::limits::{
    COPIES_BESIDE_WRITER, RESYNC_EVERY, RESYNC_FILES, RESYNC_OBJECTS, SCAN_STEP, WRITER_HELD_MAX,
    WRITER_PATIENCE,
};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{ResyncProgress, ResyncRound, RoundWork};
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use gupfs_namespace::{BackgroundOp, Inode, KeyRange, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_platform::Clock;
use gupfs_proto::data::ObjectOwner;
use gupfs_proto::{FsError, InodeId, OstId, Presence};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

pub struct ResyncTask {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub progress: Arc<ResyncProgress>,
    /// After so long the stale members on an OST that is down get other OSTs.
    pub rebuild_after: Option<Duration>,
    pub writers: Arc<dyn FileWriters>,
    pub clock: Clock,
}

/// What copying to a file's stale members has brought.
struct CopiedMembers {
    /// Component and index of each that has the bytes now.
    synced: Vec<(u32, u32)>,
    bytes: CopiedBytes,
    /// Why others have not.
    left: Option<String>,
}

/// The result for one file.
enum FileResync {
    Done(CopiedBytes),
    /// It has stale members that cannot be brought up to date now, for this reason.
    Left(String),
}

/// What the file's objects record of it.
pub fn owner_of(inode: &Inode) -> ObjectOwner {
    ObjectOwner {
        uid: inode.uid,
        gid: inode.gid,
        project: inode.project.0,
        volume: inode.volume.0,
    }
}

impl ResyncTask {
    pub async fn run(self) {
        while self.store.failure().is_none() {
            tokio::select! {
                biased;
                () = self.progress.wait() => {}
                () = self.clock.sleep(RESYNC_EVERY) => {}
            }
            self.resync_all().await;
        }
    }

    /// One round over all files with stale members, if there may be any.
    pub async fn resync_all(&self) {
        if self.progress.take(self.clock.boot()) {
            let round = self.resync_round().await;
            self.progress.ended(round);
        }
    }

    async fn resync_round(&self) -> Result<ResyncRound, FsError> {
        let mut round = ResyncRound::default();
        self.progress.round_found(self.work_found().await?);
        for shard in self.store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::StaleMembers);
            loop {
                let records = self.store.scan_now(&range, SCAN_STEP).await?;
                let files = records.iter().filter_map(|(key, _)| match key.parse() {
                    Some(ParsedKey::StaleMembers(ino)) => Some(self.resync_and_note(ino)),
                    _ => None,
                });
                for why_left in join::all(files.collect(), RESYNC_FILES).await {
                    if let Some(why) = why_left? {
                        round.left += 1;
                        round.why.get_or_insert(why);
                    }
                }
                match records.last() {
                    Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                    _ => break,
                }
            }
        }
        Ok(round)
    }

    /// The files with stale members, and the bytes of these.
    async fn work_found(&self) -> Result<RoundWork, FsError> {
        let mut found = RoundWork::default();
        for shard in self.store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::StaleMembers);
            loop {
                let records = self.store.scan_now(&range, SCAN_STEP).await?;
                for (key, _) in &records {
                    if let Some(ParsedKey::StaleMembers(ino)) = key.parse() {
                        found.files += 1;
                        found.bytes = found.bytes.saturating_add(self.stale_bytes(ino).await);
                    }
                }
                match records.last() {
                    Some((last, _)) if records.len() == SCAN_STEP => range.from = last.successor(),
                    _ => break,
                }
            }
        }
        Ok(found)
    }

    /// How long the file's stale members are when they are full again, and not more than what all objects of the file occupy. 0 for a file whose
    /// record cannot be read: its resync tells why.
    async fn stale_bytes(&self, ino: InodeId) -> u64 {
        let value = self.store.get_now(&RecordKey::inode(ino)).await;
        let inode = value.ok().flatten().map(|value| Inode::decode(&value));
        let Some(Ok(inode)) = inode else {
            return 0;
        };
        let Ok(file) = inode.file() else {
            return 0;
        };
        let objects = file.layout.objects(ino);
        let stale = objects.filter(|(.., presence)| *presence == Presence::Stale);
        let bytes = stale.fold(0u64, |bytes, (component, index, ..)| {
            let component = &file.layout.components[component];
            bytes.saturating_add(component.object_size(index, inode.size))
        });
        bytes.min(inode.blocks.saturating_mul(512))
    }

    /// Resyncs a file and notes what it took; returns why it has stale members still.
    ///
    /// # Errors
    /// Of the store.
    async fn resync_and_note(&self, ino: InodeId) -> Result<Option<String>, FsError> {
        let bytes = self.stale_bytes(ino).await;
        let resynced = self.resync_file(ino).await;
        self.progress.round_passed(bytes);
        match resynced {
            Ok(FileResync::Done(bytes)) => {
                self.progress.file_done(bytes.compared, bytes.copied);
                Ok(None)
            }
            Ok(FileResync::Left(why)) => Ok(Some(why)),
            Err(error @ FsError::StoreFailed(_)) => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    async fn resync_file(&self, ino: InodeId) -> Result<FileResync, FsError> {
        if self.progress.is_paused() {
            return Ok(FileResync::Left("the resync is paused".into()));
        }
        let key = RecordKey::inode(ino);
        let Some(mut value) = self.store.get_now(&key).await? else {
            return self.record_synced(ino, Vec::new(), None).await;
        };
        let mut inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        if self.replace_stale_members(ino, &inode).await? {
            value = self.store.get_now(&key).await?.ok_or(FsError::Stale)?;
            inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        }
        if inode.file()?.write_leases == 0 {
            return self
                .resync_at_rest(ino, (key, value), &inode, &self.pace())
                .await;
        }
        if let Some(why) = self.copy_beside_writer(ino, &inode).await? {
            return Ok(FileResync::Left(why));
        }
        let Some(held) = self.holds().hold(ino).await? else {
            let why = format!("inode {ino} is being written by a session that does not give it up");
            return Ok(FileResync::Left(why));
        };
        let Some(value) = self.store.get_now(&key).await? else {
            return self.record_synced(ino, Vec::new(), None).await;
        };
        let inode = Inode::decode(&value).map_err(|error| damaged_record(&key, error))?;
        let mut resync = pin!(self.resync_at_rest(ino, (key, value), &inode, &CopyPace::Full));
        tokio::select! {
            biased;
            resynced = resync.as_mut() => return resynced,
            () = self.clock.sleep(WRITER_PATIENCE) => {}
        }
        // A target is slow. The writer goes on, and its lease makes the resync begin again.
        drop(held);
        resync.await
    }

    fn holds(&self) -> WriterHolds<'_> {
        WriterHolds::new(&*self.writers, &self.clock)
    }

    /// The pace of a copy while no writer waits for it.
    fn pace(&self) -> CopyPace<'_> {
        CopyPace::Resync(ResyncPace {
            progress: &self.progress,
            clock: &self.clock,
        })
    }

    /// Copies until little is left to copy, while a session writes the file. Returns why the file must be left as it is.
    async fn copy_beside_writer(
        &self,
        ino: InodeId,
        inode: &Inode,
    ) -> Result<Option<String>, FsError> {
        for _ in 0..COPIES_BESIDE_WRITER {
            let begun = self.clock.boot();
            let copied = self.copy_members(ino, inode, &self.pace()).await?;
            if let (true, Some(why)) = (copied.synced.is_empty(), copied.left) {
                return Ok(Some(why));
            }
            // The next pass is not held back. It has what was written during this one to copy.
            if self.clock.boot().since(begun) <= WRITER_HELD_MAX {
                return Ok(None);
            }
        }
        Ok(Some(format!(
            "inode {ino} is being written, and comparing its copies takes longer than a writer may wait"
        )))
    }

    /// Resyncs a file that no session writes, by its record.
    async fn resync_at_rest(
        &self,
        ino: InodeId,
        record: (RecordKey, Bytes),
        inode: &Inode,
        pace: &CopyPace<'_>,
    ) -> Result<FileResync, FsError> {
        let file = inode.file()?;
        if file.write_leases > 0 {
            return Ok(FileResync::Left(format!("inode {ino} is being written")));
        }
        if file.truncating.is_some() {
            return Ok(FileResync::Left(format!("inode {ino} is being truncated")));
        }
        let copied = self.copy_members(ino, inode, pace).await?;
        if let (true, Some(why)) = (copied.synced.is_empty(), &copied.left) {
            return Ok(FileResync::Left(why.clone()));
        }
        let result = self.record_synced(ino, copied.synced, Some(record)).await?;
        Ok(match (result, copied.left) {
            (FileResync::Done(_), None) => FileResync::Done(copied.bytes),
            (FileResync::Done(_), Some(why)) | (FileResync::Left(why), _) => FileResync::Left(why),
        })
    }

    /// Copies the file's bytes to its stale members.
    async fn copy_members(
        &self,
        ino: InodeId,
        inode: &Inode,
        pace: &CopyPace<'_>,
    ) -> Result<CopiedMembers, FsError> {
        let (file, owner) = (inode.file()?, owner_of(inode));
        let (mut copies, mut left) = (Vec::new(), None);
        for (component, index, ost, object, presence) in file.layout.objects(ino) {
            if presence != Presence::Stale {
                continue;
            }
            let part = &file.layout.components[component];
            let source = part.first_full_member(part.stripe_of(index));
            let source = (part.targets[source], part.object(ino, source));
            if let Some(down) = [ost, source.0]
                .iter()
                .find(|ost| !self.targets.is_up(**ost))
            {
                left = Some(format!("ost{down} is not up"));
                continue;
            }
            let copy = ObjectCopy {
                targets: &self.targets,
                source,
                to: (ost, object),
                owner,
            };
            copies.push(async move {
                // A change that a client has given up since may still be on its way.
                self.targets.fence_object(ost, object).await?;
                let copied = copy.run(pace).await?;
                Ok::<_, FsError>(((component as u32, index as u32), copied))
            });
        }
        let (mut synced, mut bytes) = (Vec::new(), CopiedBytes::default());
        for copied in join::all(copies, RESYNC_OBJECTS).await {
            match copied {
                Ok((object, copied)) => {
                    bytes.compared += copied.compared;
                    bytes.copied += copied.copied;
                    synced.push(object);
                }
                Err(error) => left = Some(error.to_string()),
            }
        }
        Ok(CopiedMembers {
            synced,
            bytes,
            left,
        })
    }

    /// Gives the file's stale members on OSTs that have been down for long other OSTs, if there are any. Returns whether there are such members.
    async fn replace_stale_members(&self, ino: InodeId, inode: &Inode) -> Result<bool, FsError> {
        let Some(rebuild_after) = self.rebuild_after else {
            return Ok(false);
        };
        let objects = inode.file()?.layout.objects(ino);
        let stale = objects.filter(|(.., presence)| *presence == Presence::Stale);
        let osts: BTreeSet<OstId> = stale.map(|(_, _, ost, ..)| ost).collect();
        let is_down = |ost: &OstId| self.targets.is_down_for(*ost, rebuild_after);
        let down: Vec<OstId> = osts.into_iter().filter(is_down).collect();
        if down.is_empty() {
            return Ok(false);
        }
        let replacer = MemberReplacer {
            store: &self.store,
            driver: &self.driver,
            targets: &self.targets,
            holds: &self.holds(),
        };
        let newest = replacer.replace(ino, down, true).await?;
        let origin = RequestOrigin::server("replace members");
        self.store.durable(origin, newest).await?;
        Ok(true)
    }

    async fn record_synced(
        &self,
        ino: InodeId,
        objects: Vec<(u32, u32)>,
        expected: Option<(RecordKey, Bytes)>,
    ) -> Result<FileResync, FsError> {
        let op = BackgroundOp::MembersSynced { ino, objects };
        let applied = self
            .driver
            .apply_if_unchanged(&op, expected.as_ref())
            .await?;
        let Some(applied) = applied else {
            return Ok(FileResync::Left(format!(
                "inode {ino} has changed meanwhile"
            )));
        };
        applied.result?;
        let origin = RequestOrigin::server("resync");
        self.store.durable(origin, applied.seq).await?;
        Ok(FileResync::Done(CopiedBytes::default()))
    }
}
