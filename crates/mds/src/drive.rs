//! One operation through the machine: apply, fetch what is missing, apply again, stage.

use crate::core::Core;
use crate::cuts::Cut;
use crate::hear::Hearing;
use crate::limits::ROUNDS_MAX;
use crate::records::{Scanned, View, to_store};
use crate::shard::{SessionInfo, Shard};
use crate::waits::{Awaited, Who};
use bytes::Bytes;
use gupfs_namespace::rights::Opens;
use gupfs_namespace::{
    Again, Batch, ChoreOp, Context, Effects, Key, Known, Need, Op, PurgeId, Records, Step, Work,
};
use gupfs_proto::meta::{self, Answer, Change, Lane};
use gupfs_proto::{Caller, Refusal, Seq, SessionId, Timestamp, VirtualShard};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// For whom an operation is done.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    pub who: Who,
    /// The server itself, that needs no session.
    pub own: bool,
    pub lane: Option<Lane>,
    pub caller: &'a Caller,
    /// What its session has proved to have open.
    pub opens: &'a Opens,
    /// It was done before, and a power cut made it forgotten.
    pub before: Option<Before<'a>>,
}

/// How something was done before.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    pub at: Timestamp,
    pub again: &'a Again,
}

/// A record that an operation counts on: it is not done if the record has changed.
pub type Expected = (Key, Bytes);

/// What came of an operation. It is staged, not committed.
pub struct Applied {
    pub answer: Result<Answer, Refusal>,
    /// The newest batch that the answer rests on, its own or one that it saw.
    pub seq: Seq,
    /// Whether it changed anything.
    pub changed: bool,
    /// The change that it made, now or when it was asked first.
    pub change: Option<Change>,
    /// A cut to carry out before the answer leaves.
    pub cut: Option<Arc<Cut>>,
    /// A session that is to be cleared up after.
    pub ended: Option<SessionId>,
    numbers: Option<(VirtualShard, Range<u64>)>,
    /// The answer leaves when `seq` is durable.
    pub durable: bool,
    /// It rests on what other sessions told meanwhile.
    pub heard: bool,
    /// More is to be done than one batch holds.
    unfinished: bool,
}

/// How one try ended.
enum Tried {
    Done(Applied),
    /// `given` tells how many blocks of numbers the shard had had: whoever finds more does not ask for another.
    Need(Need, u64),
    ExpectedOther,
}

impl Applied {
    /// Nothing was staged.
    fn refused(refusal: Refusal, seen: Seq) -> Applied {
        Applied {
            answer: Err(refusal),
            seq: seen,
            changed: false,
            change: None,
            cut: None,
            ended: None,
            numbers: None,
            durable: false,
            heard: false,
            unfinished: false,
        }
    }
}

impl Core {
    /// Applies an operation and stages its batch, or its batches if it has more to do than one holds.
    ///
    /// # Errors
    /// What kept it from being applied; the operation's own refusal is in `Applied::answer`.
    pub async fn drive(&self, asker: Asker<'_>, op: Op<'_>) -> Result<Applied, Refusal> {
        match self.drive_if(asker, op, None).await? {
            Some(applied) => Ok(applied),
            None => unreachable!("nothing was expected"),
        }
    }

    /// The same, but None and nothing done if the expected record is another at that moment.
    pub async fn drive_if(
        &self,
        asker: Asker<'_>,
        op: Op<'_>,
        expected: Option<&Expected>,
    ) -> Result<Option<Applied>, Refusal> {
        let mut scanned = Scanned::new(self);
        let mut hearing = Hearing::default();
        let mut rounds = 0;
        while rounds < ROUNDS_MAX {
            rounds += 1;
            let need = match self.attempt(asker, op, expected, &scanned, &hearing)? {
                Tried::Done(applied) if applied.unfinished => {
                    // It has got further, and what it saw is not the newest any more.
                    (rounds, scanned) = (0, Scanned::new(self));
                    self.room(asker.who).await?;
                    continue;
                }
                Tried::Done(mut applied) => {
                    applied.heard = hearing.asked_anybody();
                    return Ok(Some(applied));
                }
                Tried::ExpectedOther => return Ok(None),
                Tried::Need(need, given) => (need, given),
            };
            match need {
                (Need::Keys(keys), _) => self.fetch_all(asker.who, keys).await?,
                (Need::Scan { range, limit }, _) => {
                    scanned.read(asker.who, range, limit).await?;
                }
                (Need::Numbers(shard), given) => {
                    self.reserve_numbers(asker.who, shard, given).await?
                }
                (Need::Cut(id), _) => self.finish_cut(asker.who, id).await?,
                // What is said again comes in its order, and waits for nobody.
                (Need::Word { .. } | Need::Turn(_), _) if asker.before.is_some() => {
                    return Err(Refusal::Busy);
                }
                (Need::Word { ino, give_back }, _) => {
                    self.hear_holder(&mut hearing, asker, ino, give_back)
                        .await?;
                }
                (Need::Turn(ino), _) => self.take_turn(&mut hearing, asker.who, ino).await?,
            }
        }
        // Every round brings records that were missing; only a store that forgets faster than we ask gets here.
        Err(Refusal::Overloaded)
    }

    /// One try, under the shard's lock.
    fn attempt(
        &self,
        asker: Asker<'_>,
        op: Op<'_>,
        expected: Option<&Expected>,
        scanned: &Scanned<'_>,
        hearing: &Hearing<'_>,
    ) -> Result<Tried, Refusal> {
        let mut guard = self.shard.lock();
        let shard = &mut *guard;
        let session = self.session_of(shard, asker, op)?;
        let now = match &asker.before {
            Some(before) => shard.now_again(before.at),
            None => shard.now(),
        };
        let entropy = shard.entropy.next();
        let view = View::new(self, scanned, &shard.recent);
        if let Some((key, value)) = expected {
            match view.get(key) {
                Known::Value(now) if now.as_ref() == Some(value) => {}
                Known::Value(_) => return Ok(Tried::ExpectedOther),
                Known::Unknown => return Ok(Tried::Need(Need::Keys(vec![key.clone()]), 0)),
            }
        }
        let ctx = Context {
            now,
            entropy,
            session,
            lane: asker.lane,
            caller: asker.caller,
            opens: asker.opens,
            shards: self.shards,
            owner_epoch: self.owner_epoch,
            targets: &shard.targets,
            growth_allowed: self.growth_allowed.load(Relaxed),
            alone: shard.sessions.len() <= 1,
            unseen: match op {
                // Alone, the client knows whether it has promised them.
                Op::Client(meta::Op::Spilled { ino, .. }) => {
                    !self.keeps_sessions || shard.newborn.is_unseen(*ino, session)
                }
                _ => false,
            },
            queues: match op {
                Op::Client(meta::Op::BeginWrite { ino, .. }) => {
                    !hearing.has_turn(*ino) && self.turns.is_taken(*ino)
                }
                _ => false,
            },
            words: &hearing.words,
            seq: Seq(self.kv.last_seq().0 + 1),
            again: asker.before.map(|before| before.again),
        };
        match shard.machine.apply(&view, &ctx, op) {
            Step::Need(need) => {
                if let Some(error) = view.failure() {
                    return Err(self.fail(&error));
                }
                let given = match &need {
                    Need::Numbers(of) => shard.blocks_given(*of),
                    _ => 0,
                };
                Ok(Tried::Need(need, given))
            }
            Step::Done(effects) => {
                let seen = view.newest();
                let applied = self.stage(shard, effects, seen, op, (session, now));
                Ok(Tried::Done(applied))
            }
        }
    }

    /// Whose operation it is. A new session is numbered like the batch that registers it, so its number is above all that
    /// were ever given; it is used once that batch is durable.
    fn session_of(
        &self,
        shard: &Shard,
        asker: Asker<'_>,
        op: Op<'_>,
    ) -> Result<SessionId, Refusal> {
        match op {
            Op::Client(meta::Op::OpenSession { .. }) => {
                Ok(SessionId(self.sessions_skipped + self.kv.last_seq().0 + 1))
            }
            Op::Client(_) if !asker.own && !shard.sessions.contains_key(&asker.who.session) => {
                Err(Refusal::SessionEnded)
            }
            _ => Ok(asker.who.session),
        }
    }

    /// Stages the batch and notes, in the same moment, what others must know: cuts, purges, who is registered.
    fn stage(
        &self,
        shard: &mut Shard,
        effects: Effects,
        seen: Seq,
        op: Op<'_>,
        (session, now): (SessionId, Timestamp),
    ) -> Applied {
        let changed = !effects.batch.is_empty();
        let seq = if changed {
            match self.stage_batch(shard, effects.batch) {
                Ok(seq) => seq,
                Err(refusal) => return Applied::refused(refusal, seen),
            }
        } else {
            seen
        };
        let made = effects.repeats.or(changed.then_some(seq));
        let change = made.map(|seq| Change { seq, at: now });
        let mut applied = Applied {
            answer: effects.answer,
            seq,
            changed,
            change,
            cut: None,
            ended: None,
            numbers: None,
            durable: false,
            heard: false,
            unfinished: effects.unfinished,
        };
        for work in effects.work {
            match work {
                Work::Cut { id, objects } => applied.cut = Some(self.cuts.add(id, seq, objects)),
                Work::Purge { id, objects } => self.purges.add(id, seq, objects),
                Work::Confirm(_) => self.confirms.expect(),
                Work::Numbers { shard, counters } => applied.numbers = Some((shard, counters)),
                Work::SessionEnded(session) => {
                    self.ends(shard, session);
                    self.may_tell_end(session);
                    applied.ended = Some(session);
                }
                Work::Durable => applied.durable = true,
                Work::AskEverybody { ino, by } => self.removals.add(ino, by, seq),
                Work::Gone(_) => {} // nothing is kept about an inode here
            }
        }
        if let (Op::Client(op), Ok(answer)) = (op, &applied.answer)
            && self.keeps_sessions
        {
            shard.newborn.hear(session, op, answer);
        }
        match op {
            Op::Client(meta::Op::BeginWrite { ino, .. }) if applied.answer.is_ok() => {
                self.turns.holds(*ino, session);
            }
            Op::Client(meta::Op::EndWrite { keep: false, .. })
            | Op::Chore(ChoreOp::RecoverWriter { .. }) => self.holding_ended.notify_waiters(),
            Op::Chore(ChoreOp::CutDone { id, .. }) if applied.answer.is_ok() => {
                self.cuts.remove(*id)
            }
            Op::Client(meta::Op::Forgotten { inodes }) if applied.answer.is_ok() => {
                self.removals.forgotten(session, inodes);
            }
            Op::Client(meta::Op::OpenSession { client }) => {
                if let Ok(Answer::Session { session, .. }) = &applied.answer {
                    let info = SessionInfo {
                        client: client.clone(),
                        since: now,
                    };
                    shard.register(*session, info, self.platform.clock.boot());
                }
            }
            _ => {}
        }
        applied
    }

    /// Stages changes that are not the machine's: records of the server itself.
    pub fn stage_own(&self, batch: Batch) -> Result<Seq, Refusal> {
        self.stage_batch(&mut self.shard.lock(), batch)
    }

    /// # Errors
    /// When the batch is larger than the log takes: a bug of the operation's, and nothing was staged.
    fn stage_batch(&self, shard: &mut Shard, batch: Batch) -> Result<Seq, Refusal> {
        if shard.recent.is_noting() {
            let next = Seq(self.kv.last_seq().0 + 1);
            shard.recent.note(next, batch.iter().map(|(key, _)| key));
        }
        // One log for all virtual shards so far.
        self.kv.stage(0, to_store(batch)).map_err(|error| {
            tracing::error!(%error, "a change of the metadata is refused");
            Refusal::Malformed(error.to_string())
        })
    }

    /// One step of a chore, staged and not committed.
    pub async fn chore(&self, op: &ChoreOp) -> Result<Seq, Refusal> {
        let applied = self.drive(self.own(), Op::Chore(op)).await?;
        applied.answer.map(|_| applied.seq)
    }

    /// The server itself as an asker.
    pub fn own(&self) -> Asker<'_> {
        Asker {
            who: Who::own("chore"),
            own: true,
            lane: None,
            caller: &self.root,
            opens: Opens::NONE,
            before: None,
        }
    }

    /// The next block of inode numbers, unless somebody got one while this waited for its turn.
    ///
    /// Durable before the first is used: a number that a power cut makes forgotten would be given to two files.
    async fn reserve_numbers(
        &self,
        who: Who,
        shard: VirtualShard,
        given: u64,
    ) -> Result<(), Refusal> {
        let turn = self
            .waits
            .wait(who, Awaited::Numbers(shard), self.reserving.lock());
        let _turn = turn.await?;
        if self.shard.lock().blocks_given(shard) > given {
            return Ok(());
        }
        self.give_numbers(who, &[shard]).await
    }

    /// Reserves a block for each of these shards, with one sync for all. Boxed because it drives the machine by itself.
    pub fn give_numbers<'a>(
        &'a self,
        who: Who,
        shards: &'a [VirtualShard],
    ) -> Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>> {
        Box::pin(async move {
            let mut blocks = Vec::with_capacity(shards.len());
            let mut newest = Seq(0);
            for shard in shards {
                let op = ChoreOp::ReserveNumbers { shard: *shard };
                let applied = self.drive(self.own(), Op::Chore(&op)).await?;
                applied.answer?;
                newest = newest.max(applied.seq);
                blocks.extend(applied.numbers);
            }
            self.durable(who, newest).await?;
            let mut guard = self.shard.lock();
            for (shard, counters) in blocks {
                guard.give_numbers(shard, counters);
                self.stats.number_blocks.fetch_add(1, Relaxed);
            }
            Ok(())
        })
    }

    /// Waits until nothing of this cut is left to do. If it is not listed it was done just now.
    pub async fn finish_cut(&self, who: Who, id: PurgeId) -> Result<(), Refusal> {
        match self.cuts.get(id) {
            Some(cut) => self.carry_out(who, cut).await,
            None => Ok(()),
        }
    }
}
