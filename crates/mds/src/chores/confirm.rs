//! Objects of files that were closed without a sync: a while later they are made durable, and the files' records call them
//! present. From then on a lost one is told as a loss; before, it reads as the hole that a power cut may leave of it.
//!
//! The records `L` are the truth. Nothing is kept of them here but whether there may be any.

use crate::core::Core;
use crate::limits::{CONFIRM_EVERY, CONFIRM_STEP, OST_CALLS};
use crate::records::damaged;
use crate::targets::unexpected;
use crate::together;
use crate::waits::Who;
use bytes::Bytes;
use gupfs_names::{Body, ChoreOp, File, Inode, Key, KeyRange, Kind, Op, Parsed, Record};
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
        while self.failure().is_none() {
            self.world.clock.sleep(CONFIRM_EVERY).await;
            self.confirm_all().await;
        }
    }

    /// One round over all files in doubt, if there may be any.
    pub async fn confirm_all(&self) {
        if self.confirms.take() {
            let round = self.confirm_round().await;
            self.confirms.ended(round);
        }
    }

    async fn confirm_round(&self) -> Result<Round, Refusal> {
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
                    self.confirm_some(std::mem::take(&mut files), &mut round)
                        .await?;
                }
                match records.last() {
                    Some((last, _)) if records.len() == wanted => range.from = last.successor(),
                    _ => break,
                }
            }
        }
        self.confirm_some(files, &mut round).await?;
        Ok(round)
    }

    async fn confirm_some(&self, files: Vec<InodeId>, round: &mut Round) -> Result<(), Refusal> {
        if files.is_empty() {
            return Ok(());
        }
        let files = self.doubtful(files).await?;
        let (there, failed) = self.ask_confirmation(&files).await;
        let mut newest = Seq(0);
        for file in files {
            // A thousand files are 15 ms of work: who asks meanwhile should not wait for all of it.
            tokio::task::yield_now().await;
            match self.confirm_file(file, &there).await? {
                Some(seq) => {
                    newest = newest.max(seq);
                    round.done += 1;
                }
                None => round.left += 1,
            }
        }
        round.why = failed.or(round.why.take());
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

    /// Whether each object is there. An OST that cannot tell leaves its objects out, and its refusal.
    async fn ask_confirmation(
        &self,
        files: &[Doubtful],
    ) -> (BTreeMap<ObjectId, bool>, Option<Refusal>) {
        let mut by_ost: BTreeMap<OstId, BTreeSet<ObjectId>> = BTreeMap::new();
        for (_, _, ost, object) in files.iter().flat_map(|file| &file.objects) {
            by_ost.entry(*ost).or_default().insert(*object);
        }
        let asked = by_ost.into_iter().map(|(ost, objects)| async move {
            let objects: Vec<ObjectId> = objects.into_iter().collect();
            let op = data::Op::Confirm {
                objects: objects.clone(),
            };
            match self.targets.call(ost, op).await? {
                Answer::There(there) if there.len() == objects.len() => {
                    Ok(objects.into_iter().zip(there).collect::<Vec<_>>())
                }
                other => Err(unexpected(ost, &other)),
            }
        });
        let answers = together::all(asked.collect(), OST_CALLS).await;
        let (mut there, mut failed) = (BTreeMap::new(), None);
        for answer in answers {
            match answer {
                Ok(objects) => there.extend(objects),
                Err(refusal) => failed = Some(refusal),
            }
        }
        (there, failed)
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
