//! Confirms the objects of files that were closed without a sync: a while later the server makes them durable and records them as
//! present. From then on a missing object is reported as a loss; before, it reads as the hole that a power loss may leave.
//!
//! An OST that has not replied to a request for a while gets no further request, and only the files that need it wait.

use crate::limits::{CONFIRM_EVERY, CONFIRM_STEP, OST_SILENT_AFTER};
use crate::origin::RequestOrigin;
use crate::osts::Targets;
use crate::pending_work::{ConfirmProgress, ConfirmRound};
use crate::shard_driver::ShardDriver;
use crate::store::{MetadataStore, damaged_record};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{
    BackgroundOp, FileBody, Inode, InodeBody, KeyRange, ParsedKey, Record, RecordKey, RecordKind,
};
use gupfs_platform::Clock;
use gupfs_proto::{FsError, InodeId, ObjectId, OstId, Presence, Seq};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One file as it was when the server asked for its objects.
struct UnconfirmedFile {
    ino: InodeId,
    /// The inode's record; None if it is gone.
    record: Option<Bytes>,
    objects: Vec<(u32, u32, OstId, ObjectId)>,
}

impl UnconfirmedFile {
    fn osts(&self) -> impl Iterator<Item = OstId> + '_ {
        self.objects.iter().map(|(_, _, ost, _)| *ost)
    }
}

/// One OST's reply about objects.
struct ConfirmReply {
    ost: OstId,
    result: Result<Vec<(ObjectId, bool)>, FsError>,
}

/// Requests in flight, and the files that wait for their replies. Dropping it leaves the records as they are.
#[derive(Default)]
struct PendingConfirms<'a> {
    calls: FuturesUnordered<BoxFuture<'a, ConfirmReply>>,
    /// The OSTs of these requests.
    unanswered: BTreeSet<OstId>,
    /// At most one step's files for each OST, since an OST with a request in flight gets no further one.
    waiting: Vec<UnconfirmedFile>,
    presence_of: BTreeMap<ObjectId, bool>,
}

impl PendingConfirms<'_> {
    fn is_waiting(&self, ino: InodeId) -> bool {
        self.waiting.iter().any(|file| file.ino == ino)
    }

    fn note_reply(&mut self, reply: ConfirmReply, round: &mut ConfirmRound) {
        self.unanswered.remove(&reply.ost);
        match reply.result {
            Ok(objects) => self.presence_of.extend(objects),
            Err(error) => round.why = Some(error),
        }
    }

    /// Keeps only replies that waiting files still need.
    fn prune_replies(&mut self) {
        let waiting = self.waiting.iter().flat_map(|file| &file.objects);
        let needed: BTreeSet<ObjectId> = waiting.map(|(.., object)| *object).collect();
        self.presence_of.retain(|object, _| needed.contains(object));
    }

    /// The files whose OSTs have all replied.
    fn take_answered(&mut self) -> Vec<UnconfirmedFile> {
        let waiting = std::mem::take(&mut self.waiting);
        let silent = &self.unanswered;
        let (waits, answered) = waiting
            .into_iter()
            .partition(|file| file.osts().any(|ost| silent.contains(&ost)));
        self.waiting = waits;
        answered
    }
}

pub struct ConfirmTask {
    pub store: Arc<MetadataStore>,
    pub driver: Arc<ShardDriver>,
    pub targets: Arc<Targets>,
    pub progress: Arc<ConfirmProgress>,
    pub clock: Clock,
}

impl ConfirmTask {
    pub async fn run(self: Arc<Self>) {
        let mut pending = PendingConfirms::default();
        while self.store.failure().is_none() {
            let next = self.clock.sleep(CONFIRM_EVERY);
            tokio::pin!(next);
            loop {
                let reply = tokio::select! {
                    biased;
                    Some(reply) = pending.calls.next() => reply,
                    () = &mut next => break,
                };
                let round = self.confirm_late_reply(reply, &mut pending).await;
                self.progress.ended(round);
            }
            self.confirm_with(&mut pending).await;
        }
    }

    /// One round over all files in doubt, if there may be any, with all replies.
    pub async fn confirm_all(&self) {
        let mut pending = PendingConfirms::default();
        self.confirm_with(&mut pending).await;
        while let Some(reply) = pending.calls.next().await {
            let round = self.confirm_late_reply(reply, &mut pending).await;
            self.progress.ended(round);
        }
    }

    /// One round; OSTs that do not reply stay in `pending`.
    async fn confirm_with<'a>(&'a self, pending: &mut PendingConfirms<'a>) {
        if self.progress.take() {
            let round = self.confirm_round(pending).await;
            self.progress.ended(round);
        }
    }

    async fn confirm_round<'a>(
        &'a self,
        pending: &mut PendingConfirms<'a>,
    ) -> Result<ConfirmRound, FsError> {
        let mut round = ConfirmRound::default();
        // Over all shards: a target syncs many objects at the cost of a few.
        let mut files = Vec::new();
        for shard in self.store.all_shards() {
            let mut range = KeyRange::of_kind(shard, RecordKind::Unconfirmed);
            loop {
                let wanted = CONFIRM_STEP - files.len();
                let records = self.store.scan_now(&range, wanted).await?;
                files.extend(records.iter().filter_map(|(key, _)| match key.parse() {
                    Some(ParsedKey::Unconfirmed(ino)) => Some(ino),
                    _ => None,
                }));
                if files.len() >= CONFIRM_STEP {
                    let some = std::mem::take(&mut files);
                    self.confirm_files(some, pending, &mut round).await?;
                }
                match records.last() {
                    Some((last, _)) if records.len() == wanted => range.from = last.successor(),
                    _ => break,
                }
            }
        }
        self.confirm_files(files, pending, &mut round).await?;
        // They are left for now; their replies may come before the next round.
        round.left += pending.waiting.len() as u64;
        if let Some(ost) = pending.unanswered.first() {
            let why = format!("the objects of files on ost{ost}");
            round.why.get_or_insert(FsError::TimedOut(why));
        }
        Ok(round)
    }

    async fn confirm_files<'a>(
        &'a self,
        files: Vec<InodeId>,
        pending: &mut PendingConfirms<'a>,
        round: &mut ConfirmRound,
    ) -> Result<(), FsError> {
        if files.is_empty() {
            return Ok(());
        }
        let files = self.unconfirmed_files(files).await?;
        // An OST that has not replied to an earlier request gets no further one.
        let (waits, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| {
            let mut osts = file.osts();
            pending.is_waiting(file.ino) || osts.any(|ost| pending.unanswered.contains(&ost))
        });
        let news = waits.iter().filter(|file| !pending.is_waiting(file.ino));
        round.left += news.count() as u64;
        let mut by_ost: BTreeMap<OstId, BTreeSet<ObjectId>> = BTreeMap::new();
        for (_, _, ost, object) in files.iter().flat_map(|file| &file.objects) {
            by_ost.entry(*ost).or_default().insert(*object);
        }
        pending.waiting.extend(files);
        let busy_osts: BTreeSet<OstId> = by_ost.keys().copied().collect();
        for (ost, objects) in by_ost {
            pending.unanswered.insert(ost);
            let call = self.confirm_objects(ost, objects.into_iter().collect());
            pending.calls.push(Box::pin(call));
        }
        self.confirm_answered(pending, round).await?;
        let timeout = self.clock.sleep(OST_SILENT_AFTER);
        tokio::pin!(timeout);
        while !pending.unanswered.is_disjoint(&busy_osts) {
            let reply = tokio::select! {
                biased;
                Some(reply) = pending.calls.next() => reply,
                () = &mut timeout => break,
            };
            pending.note_reply(reply, round);
            self.confirm_answered(pending, round).await?;
        }
        Ok(())
    }

    /// Handles the late reply of a silent OST.
    async fn confirm_late_reply<'a>(
        &'a self,
        reply: ConfirmReply,
        pending: &mut PendingConfirms<'a>,
    ) -> Result<ConfirmRound, FsError> {
        let mut round = ConfirmRound::default();
        pending.note_reply(reply, &mut round);
        self.confirm_answered(pending, &mut round).await?;
        round.left += pending.waiting.len() as u64;
        Ok(round)
    }

    /// Confirms the files whose OSTs have all replied.
    async fn confirm_answered<'a>(
        &'a self,
        pending: &mut PendingConfirms<'a>,
        round: &mut ConfirmRound,
    ) -> Result<(), FsError> {
        let mut newest = Seq(0);
        for file in pending.take_answered() {
            // A thousand files are 15 ms of work: requests should not wait for all of it.
            tokio::task::yield_now().await;
            match self.confirm_file(file, &pending.presence_of).await? {
                Some(seq) => {
                    newest = newest.max(seq);
                    round.done += 1;
                }
                None => round.left += 1,
            }
        }
        pending.prune_replies();
        self.store
            .committed(RequestOrigin::server("confirm"), newest)
            .await
    }

    /// The files' records, and the objects that each may have.
    async fn unconfirmed_files(
        &self,
        files: Vec<InodeId>,
    ) -> Result<Vec<UnconfirmedFile>, FsError> {
        let keys = files.iter().map(|ino| RecordKey::inode(*ino)).collect();
        let records = self.store.get_all_now(keys).await?;
        let read = files.into_iter().zip(records).map(|(ino, record)| {
            let objects = match &record {
                Some(record) => objects_in_doubt(ino, record, |ost| self.targets.is_lost(ost))?,
                None => Vec::new(),
            };
            Ok(UnconfirmedFile {
                ino,
                record,
                objects,
            })
        });
        read.collect()
    }

    /// Asks one OST whether each of these objects is present. Objects of a lost OST count as present, so that reads report their loss: an
    /// absent object reads as a hole.
    async fn confirm_objects(&self, ost: OstId, objects: Vec<ObjectId>) -> ConfirmReply {
        let result = match self.targets.is_lost(ost) {
            true => Ok(objects.into_iter().map(|object| (object, true)).collect()),
            false => self.targets.confirm_objects(ost, objects).await,
        };
        ConfirmReply { ost, result }
    }

    /// Records the result, if the file is still as it was when the server asked for its objects.
    async fn confirm_file(
        &self,
        file: UnconfirmedFile,
        there: &BTreeMap<ObjectId, bool>,
    ) -> Result<Option<Seq>, FsError> {
        let found = file.objects.iter().map(|(component, stripe, _, object)| {
            let there = there.get(object)?;
            Some((*component, *stripe, *there))
        });
        let Some(found) = found.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let op = BackgroundOp::ConfirmObjects {
            ino: file.ino,
            found,
        };
        let expected = file
            .record
            .map(|record| (RecordKey::inode(file.ino), record));
        let applied = self
            .driver
            .apply_if_unchanged(&op, expected.as_ref())
            .await?;
        match applied {
            Some(applied) => applied.result.map(|_| Some(applied.seq)),
            None => Ok(None),
        }
    }
}

fn objects_in_doubt(
    ino: InodeId,
    record: &Bytes,
    is_lost: impl Fn(OstId) -> bool,
) -> Result<Vec<(u32, u32, OstId, ObjectId)>, FsError> {
    let inode =
        Inode::decode(record).map_err(|error| damaged_record(&RecordKey::inode(ino), error))?;
    let InodeBody::File(FileBody { layout, .. }) = &inode.body else {
        return Ok(Vec::new());
    };
    let objects = layout.objects(ino);
    // What was written again and not synced may differ between members after a power loss.
    let is_doubtful = |component: usize, presence: Presence| match presence {
        Presence::Maybe => true,
        Presence::Present => layout.components[component].is_mirrored(),
        Presence::Never | Presence::Stale => false,
    };
    // What a lost OST had does not matter where another one has the same bytes.
    let is_dispensable = |component: usize, index: usize, ost: OstId| {
        let component = &layout.components[component];
        let mut members = component.full_members(component.stripe_of(index));
        is_lost(ost) && members.any(|member| !is_lost(component.targets[member]))
    };
    let doubtful = objects.filter(|(component, index, ost, _, presence)| {
        is_doubtful(*component, *presence) && !is_dispensable(*component, *index, *ost)
    });
    Ok(doubtful
        .map(|(component, stripe, ost, object, _)| (component as u32, stripe as u32, ost, object))
        .collect())
}
