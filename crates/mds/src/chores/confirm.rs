//! Objects of files that were closed without a sync: a while later they are made durable, and the files' records call them
//! present. From then on a lost one is told as a loss; before, it reads as the hole that a power cut may leave of it.
//!
//! The records `L` are the truth. Nothing is kept of them here but whether there may be any, and what an OST was asked that has not
//! answered for a while: such an OST is asked nothing more, and only the files that need it wait.

use crate::core::Core;
use crate::limits::{CONFIRM_EVERY, CONFIRM_STEP, SILENT};
use crate::records::damaged;
use crate::targets::unexpected;
use crate::waits::Who;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gupfs_namespace::{Body, ChoreOp, File, Inode, Key, KeyRange, Kind, Op, Parsed, Record};
use gupfs_proto::data::{self, Answer};
use gupfs_proto::{InodeId, ObjectId, OstId, Presence, Refusal, Seq};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Confirms(Mutex<State>);

struct State {
    /// There may be records: at the start those of earlier times.
    expected: bool,
    status: ConfirmStatus,
}

/// How confirming goes, for `status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ConfirmStatus {
    /// Since the start.
    pub files_done: u64,
    /// Files that the last round had to leave, and why.
    pub files_left: u64,
    pub last_error: Option<String>,
}

/// What one round did.
#[derive(Default)]
struct Round {
    done: u64,
    left: u64,
    why: Option<Refusal>,
}

/// One file as it was when its objects were asked for.
struct Doubtful {
    ino: InodeId,
    /// Its record; None if it is gone.
    record: Option<Bytes>,
    objects: Vec<(u32, u32, OstId, ObjectId)>,
}

impl Doubtful {
    fn osts(&self) -> impl Iterator<Item = OstId> + '_ {
        self.objects.iter().map(|(_, _, ost, _)| *ost)
    }
}

/// What one OST said of objects.
struct Heard {
    ost: OstId,
    answer: Result<Vec<(ObjectId, bool)>, Refusal>,
}

/// Questions under way, and the files that wait for their answers. One that is dropped leaves the records as they are.
#[derive(Default)]
struct Asking<'a> {
    calls: FuturesUnordered<BoxFuture<'a, Heard>>,
    /// Whom they are for.
    silent: BTreeSet<OstId>,
    /// At most one step's for each OST, since one that is asked is asked nothing more.
    waiting: Vec<Doubtful>,
    there: BTreeMap<ObjectId, bool>,
}

impl Asking<'_> {
    fn waits_for(&self, ino: InodeId) -> bool {
        self.waiting.iter().any(|file| file.ino == ino)
    }

    fn hear(&mut self, heard: Heard, round: &mut Round) {
        self.silent.remove(&heard.ost);
        match heard.answer {
            Ok(objects) => self.there.extend(objects),
            Err(refusal) => round.why = Some(refusal),
        }
    }

    /// Only what waiting files still need is kept.
    fn forget_answers(&mut self) {
        let waiting = self.waiting.iter().flat_map(|file| &file.objects);
        let needed: BTreeSet<ObjectId> = waiting.map(|(.., object)| *object).collect();
        self.there.retain(|object, _| needed.contains(object));
    }

    /// The files none of whose OSTs is still to answer.
    fn take_answered(&mut self) -> Vec<Doubtful> {
        let waiting = std::mem::take(&mut self.waiting);
        let silent = &self.silent;
        let (waits, answered) = waiting
            .into_iter()
            .partition(|file| file.osts().any(|ost| silent.contains(&ost)));
        self.waiting = waits;
        answered
    }
}

impl Default for Confirms {
    fn default() -> Confirms {
        Confirms(Mutex::new(State {
            expected: true,
            status: ConfirmStatus::default(),
        }))
    }
}

impl Confirms {
    pub fn expect(&self) {
        self.0.lock().expected = true;
    }

    pub fn status(&self) -> ConfirmStatus {
        self.0.lock().status.clone()
    }

    /// Whether a round is due; whoever comes from now on expects the next.
    fn take(&self) -> bool {
        std::mem::take(&mut self.0.lock().expected)
    }

    fn ended(&self, round: Result<Round, Refusal>) {
        let mut state = self.0.lock();
        let round = round.unwrap_or_else(|refusal| Round {
            left: 1,
            why: Some(refusal),
            ..Round::default()
        });
        state.expected |= round.left > 0;
        state.status.files_done += round.done;
        state.status.files_left = round.left;
        state.status.last_error = round.why.map(|why| why.to_string());
    }
}

impl Core {
    pub(super) async fn confirm_for_ever(self: Arc<Self>) {
        let mut asking = Asking::default();
        while self.failure().is_none() {
            let next = self.platform.clock.sleep(CONFIRM_EVERY);
            tokio::pin!(next);
            loop {
                let heard = tokio::select! {
                    biased;
                    Some(heard) = asking.calls.next() => heard,
                    () = &mut next => break,
                };
                let round = self.hear_late(heard, &mut asking).await;
                self.confirms.ended(round);
            }
            self.confirm_with(&mut asking).await;
        }
    }

    /// One round over all files in doubt, if there may be any, with all its answers.
    pub async fn confirm_all(&self) {
        let mut asking = Asking::default();
        self.confirm_with(&mut asking).await;
        while let Some(heard) = asking.calls.next().await {
            let round = self.hear_late(heard, &mut asking).await;
            self.confirms.ended(round);
        }
    }

    /// One round; OSTs that do not answer are left to `asking`.
    async fn confirm_with<'a>(&'a self, asking: &mut Asking<'a>) {
        if self.confirms.take() {
            let round = self.confirm_round(asking).await;
            self.confirms.ended(round);
        }
    }

    async fn confirm_round<'a>(&'a self, asking: &mut Asking<'a>) -> Result<Round, Refusal> {
        let mut round = Round::default();
        // Over all shards: a target syncs many objects at the cost of a few.
        let mut files = Vec::new();
        for shard in self.all_shards() {
            let mut range = KeyRange::of_kind(shard, Kind::Unconfirmed);
            loop {
                let wanted = CONFIRM_STEP - files.len();
                let records = self.scan_now(&range, wanted).await?;
                files.extend(records.iter().filter_map(|(key, _)| match key.parse() {
                    Some(Parsed::Unconfirmed(ino)) => Some(ino),
                    _ => None,
                }));
                if files.len() >= CONFIRM_STEP {
                    let some = std::mem::take(&mut files);
                    self.confirm_some(some, asking, &mut round).await?;
                }
                match records.last() {
                    Some((last, _)) if records.len() == wanted => range.from = last.successor(),
                    _ => break,
                }
            }
        }
        self.confirm_some(files, asking, &mut round).await?;
        // They are left for now; their answers may come before the next round.
        round.left += asking.waiting.len() as u64;
        if let Some(ost) = asking.silent.first() {
            let why = format!("the objects of files on ost{ost}");
            round.why.get_or_insert(Refusal::TimedOut(why));
        }
        Ok(round)
    }

    async fn confirm_some<'a>(
        &'a self,
        files: Vec<InodeId>,
        asking: &mut Asking<'a>,
        round: &mut Round,
    ) -> Result<(), Refusal> {
        if files.is_empty() {
            return Ok(());
        }
        let files = self.doubtful(files).await?;
        // Who is silent from an earlier question is asked nothing more.
        let (waits, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| {
            let mut osts = file.osts();
            asking.waits_for(file.ino) || osts.any(|ost| asking.silent.contains(&ost))
        });
        let news = waits.iter().filter(|file| !asking.waits_for(file.ino));
        round.left += news.count() as u64;
        let mut by_ost: BTreeMap<OstId, BTreeSet<ObjectId>> = BTreeMap::new();
        for (_, _, ost, object) in files.iter().flat_map(|file| &file.objects) {
            by_ost.entry(*ost).or_default().insert(*object);
        }
        asking.waiting.extend(files);
        let asked: BTreeSet<OstId> = by_ost.keys().copied().collect();
        for (ost, objects) in by_ost {
            asking.silent.insert(ost);
            let call = self.ask_confirmation(ost, objects.into_iter().collect());
            asking.calls.push(Box::pin(call));
        }
        self.confirm_answered(asking, round).await?;
        let patience = self.platform.clock.sleep(SILENT);
        tokio::pin!(patience);
        while !asking.silent.is_disjoint(&asked) {
            let heard = tokio::select! {
                biased;
                Some(heard) = asking.calls.next() => heard,
                () = &mut patience => break,
            };
            asking.hear(heard, round);
            self.confirm_answered(asking, round).await?;
        }
        Ok(())
    }

    /// An OST that was silent has answered.
    async fn hear_late<'a>(
        &'a self,
        heard: Heard,
        asking: &mut Asking<'a>,
    ) -> Result<Round, Refusal> {
        let mut round = Round::default();
        asking.hear(heard, &mut round);
        self.confirm_answered(asking, &mut round).await?;
        round.left += asking.waiting.len() as u64;
        Ok(round)
    }

    /// Confirms the files whose OSTs have all answered.
    async fn confirm_answered<'a>(
        &'a self,
        asking: &mut Asking<'a>,
        round: &mut Round,
    ) -> Result<(), Refusal> {
        let mut newest = Seq(0);
        for file in asking.take_answered() {
            // A thousand files are 15 ms of work: who asks meanwhile should not wait for all of it.
            tokio::task::yield_now().await;
            match self.confirm_file(file, &asking.there).await? {
                Some(seq) => {
                    newest = newest.max(seq);
                    round.done += 1;
                }
                None => round.left += 1,
            }
        }
        asking.forget_answers();
        self.committed(Who::own("confirm"), newest).await
    }

    /// The files' records, and the objects that each may have.
    async fn doubtful(&self, files: Vec<InodeId>) -> Result<Vec<Doubtful>, Refusal> {
        let keys = files.iter().map(|ino| Key::inode(*ino)).collect();
        let records = self.get_all_now(keys).await?;
        let read = files.into_iter().zip(records).map(|(ino, record)| {
            let objects = match &record {
                Some(record) => objects_in_doubt(ino, record)?,
                None => Vec::new(),
            };
            Ok(Doubtful {
                ino,
                record,
                objects,
            })
        });
        read.collect()
    }

    /// Whether each of these objects of one OST is there.
    async fn ask_confirmation(&self, ost: OstId, objects: Vec<ObjectId>) -> Heard {
        let op = data::Op::Confirm {
            objects: objects.clone(),
        };
        let answer = match self.targets.call(ost, op).await {
            Ok(Answer::There(there)) if there.len() == objects.len() => {
                Ok(objects.into_iter().zip(there).collect())
            }
            Ok(other) => Err(unexpected(ost, &other)),
            Err(refusal) => Err(refusal),
        };
        Heard { ost, answer }
    }

    /// Records what was found, if the file is still as it was when its objects were asked for.
    async fn confirm_file(
        &self,
        file: Doubtful,
        there: &BTreeMap<ObjectId, bool>,
    ) -> Result<Option<Seq>, Refusal> {
        let found = file.objects.iter().map(|(component, stripe, _, object)| {
            let there = there.get(object)?;
            Some((*component, *stripe, *there))
        });
        let Some(found) = found.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let op = ChoreOp::Confirmed {
            ino: file.ino,
            found,
        };
        let expected = file.record.map(|record| (Key::inode(file.ino), record));
        let applied = self
            .drive_if(self.own(), Op::Chore(&op), expected.as_ref())
            .await?;
        match applied {
            Some(applied) => applied.answer.map(|_| Some(applied.seq)),
            None => Ok(None),
        }
    }
}

fn objects_in_doubt(
    ino: InodeId,
    record: &Bytes,
) -> Result<Vec<(u32, u32, OstId, ObjectId)>, Refusal> {
    let inode = Inode::decode(record).map_err(|error| damaged(&Key::inode(ino), error))?;
    let Body::File(File { layout, .. }) = &inode.body else {
        return Ok(Vec::new());
    };
    let objects = layout.objects(ino);
    let doubtful = objects.filter(|(.., presence)| *presence == Presence::Maybe);
    Ok(doubtful
        .map(|(component, stripe, ost, object, _)| (component as u32, stripe as u32, ost, object))
        .collect())
}
