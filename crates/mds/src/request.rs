//! One client's request, from its arrival to its answer.

use crate::core::Core;
use crate::drive::{Applied, Asker};
use crate::stats::Kind;
use crate::waits::{Awaited, Who};
use gupfs_namespace::Op;
use gupfs_namespace::rights::Opens;
use gupfs_proto::meta::{self, Answer, Change, Reply, Request};
use gupfs_proto::{Refusal, Seq, SessionId};
use std::sync::atomic::Ordering::SeqCst;

impl Core {
    pub async fn answer(&self, request: Request) -> Reply {
        let _under_way = UnderWay::enter(self);
        let begun = self.platform.clock.boot();
        let (mut seq, mut change) = (self.kv.committed_seq(), None);
        let asked = Kind::of(&request.op);
        let (kind, result) = match self.take_proofs(request) {
            Ok((request, opens)) => {
                let kind = Kind::of(&request.op);
                (
                    kind,
                    self.serve(&request, &opens, &mut seq, &mut change).await,
                )
            }
            Err(refusal) => (asked, Err(refusal)),
        };
        let took = self.platform.clock.boot().since(begun);
        self.stats.finished(kind, took, result.is_err());
        Reply {
            seq,
            durable: self.kv.durable_seq(),
            map_epoch: self.targets.epoch(),
            change: change.filter(|_| result.is_ok()),
            result,
        }
    }

    /// `seq` becomes the newest batch that the answer, or the refusal, rests on; it is committed. `change` becomes what the
    /// request changed.
    async fn serve(
        &self,
        request: &Request,
        opens: &Opens,
        seq: &mut Seq,
        change: &mut Option<Change>,
    ) -> Result<Answer, Refusal> {
        if self.failure().is_some() || self.stopping.load(SeqCst) {
            return Err(self.refusal_to_serve());
        }
        let who = Who {
            session: request.session,
            op: request.op.name(),
        };
        self.must_be_of_this_life(request)?;
        match &request.op {
            meta::Op::Renew => {
                let pass = self.renew(request.session)?;
                return Ok(Answer::Renewed { pass });
            }
            meta::Op::Return {
                of,
                kept,
                locks,
                last,
            } => {
                self.renew(request.session)?;
                self.hear_locks(request, opens, locks, *last).await?;
                return self.come_back(request.session, *of, kept, *last).await;
            }
            _ => self.after_grace(who).await?,
        }
        if let meta::Op::Permit { ino, .. } = &request.op {
            return self.permit(request, opens, *ino).await;
        }
        let newest = self.kv.last_seq();
        if request.seen > newest {
            return Err(Refusal::StoreFailed(format!(
                "the client has seen change {}, and the log ends at {newest}: changes are lost",
                request.seen
            )));
        }
        match &request.op {
            meta::Op::Sync { upto } => return self.sync(who, *upto, newest).await,
            meta::Op::Lock(ask) => {
                self.must_have_right(request.session, &request.caller, opens, &request.op)
                    .await?;
                return self.lock(who, ask).await;
            }
            _ => {}
        }
        let asker = Asker {
            who,
            own: false,
            lane: request.lane,
            caller: &request.caller,
            opens,
            before: None,
        };
        if request.op.changes() {
            self.room(who).await?;
        }
        let applied = self.place(asker, request).await?;
        let mut ending = applied.ended.map(|session| Ending {
            core: self,
            session,
            is_done: false,
        });
        self.committed(who, applied.seq).await?;
        *seq = applied.seq.max(*seq);
        *change = applied.change;
        if applied.heard {
            // What was told meanwhile is committed, and the answer rests on it.
            *seq = self.kv.committed_seq().max(*seq);
        }
        let answer = self.settle(who, &request.op, applied, seq).await;
        if let Some(ending) = &mut ending {
            ending.is_done = true;
        }
        self.permitted(request, answer?)
    }

    /// Drives an operation. That there is no space is not believed while no target's server has been heard of: after a start
    /// they come within a second or two. Nor if the operation chose among targets as they were before a report: a report is
    /// told to placement after what it brings is durable.
    async fn place(&self, asker: Asker<'_>, request: &Request) -> Result<Applied, Refusal> {
        let mut is_newest = false;
        loop {
            let applied = self.drive(asker, Op::Client(&request.op)).await?;
            if !matches!(applied.answer, Err(Refusal::NoSpace)) {
                return Ok(applied);
            }
            if self.targets.are_all_expected() {
                let heard = self.targets.one_is_usable();
                self.waits.wait(asker.who, Awaited::Targets, heard).await?;
                is_newest = false;
            } else if is_newest {
                return Ok(applied);
            } else {
                is_newest = true;
            }
            self.tell_placement();
        }
    }

    /// What a client has seen and kept is counted in one life of the server.
    fn must_be_of_this_life(&self, request: &Request) -> Result<(), Refusal> {
        let opens = matches!(request.op, meta::Op::OpenSession { .. });
        if opens || request.life == self.owner_epoch {
            return Ok(());
        }
        // Who is back, and waits for others who are not, lives.
        if !self.grace.is_missing(request.session) {
            self.renew(request.session)?;
        }
        Err(Refusal::AnotherLife(self.owner_epoch))
    }

    async fn sync(&self, who: Who, upto: Seq, newest: Seq) -> Result<Answer, Refusal> {
        if upto > newest {
            return Err(Refusal::Malformed(format!(
                "sync up to change {upto}, and the newest is {newest}"
            )));
        }
        self.durable(who, upto).await?;
        Ok(Answer::Synced)
    }

    /// What must have happened besides the commit before the answer may leave.
    async fn settle(
        &self,
        who: Who,
        op: &meta::Op,
        applied: Applied,
        seq: &mut Seq,
    ) -> Result<Answer, Refusal> {
        // The new size is committed. If an OST keeps the cut from being done the caller is told why: the promise stands,
        // a chore keeps it, and until then whoever would use the file's bytes meets the same refusal. A repetition of the
        // request comes here without the cut and must find it.
        let cut = match op {
            meta::Op::Truncate { ino, .. } => applied.cut.or_else(|| self.cuts.of(*ino)),
            _ => applied.cut,
        };
        if let Some(cut) = cut {
            self.carry_out(who, cut).await?;
            // And that it is done: a sync of what the client writes next must cover it, or the start after a power cut
            // would find the promise and cut those bytes off.
            *seq = self.kv.committed_seq().max(*seq);
        }
        if let Some(session) = applied.ended {
            self.end_session(session).await;
        }
        // A session that a power cut makes forgotten would be another's.
        let names_a_session = matches!(op, meta::Op::OpenSession { .. }) && applied.changed;
        if applied.durable || names_a_session {
            self.durable(who, applied.seq).await?;
        }
        applied.answer
    }

    /// Why nothing is served.
    fn refusal_to_serve(&self) -> Refusal {
        let why = self.failure().unwrap_or("the metadata server is stopped");
        Refusal::StoreFailed(why.into())
    }
}

/// A session that has ended is cleared up after, also when its client is gone before it was told so.
struct Ending<'a> {
    core: &'a Core,
    session: SessionId,
    is_done: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.core
                .unfinished
                .add(self.session, &Refusal::Interrupted);
        }
    }
}

/// Counts a request while it is not answered.
struct UnderWay<'a>(&'a Core);

impl UnderWay<'_> {
    fn enter(core: &Core) -> UnderWay<'_> {
        core.under_way.fetch_add(1, SeqCst);
        UnderWay(core)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, SeqCst) == 1 && self.0.stopping.load(SeqCst) {
            self.0.last_answered.notify_waiters();
        }
    }
}
