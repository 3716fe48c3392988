//! The shard machine: one operation in, what is needed or what comes of it out.

use crate::chores;
use crate::context::{Context, Op};
use crate::digest::digest;
use crate::held;
use crate::key::Key;
use crate::ops;
use crate::record::{Essence, Inode, Reply};
use crate::step::{Batch, Effects, Outcome, Records, Step, Stop, Work};
use crate::view::View;
use gupfs_proto::meta::{self, Answer, Lane};
use gupfs_proto::{InodeId, Refusal, Seq, VirtualShard};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// All that is remembered between operations and not in the records: inode numbers reserved and not yet used. Losing it
/// costs a gap in the numbers.
#[derive(Debug, Default)]
pub struct Machine {
    numbers: UnusedNumbers,
}

impl Machine {
    pub fn new() -> Machine {
        Machine::default()
    }

    /// One operation on the newest state. The same records, context and operation give the same step. After `Step::Need`
    /// nothing has happened; after `Step::Done` the machine counts on the batch being committed, and on no other operation
    /// seeing records without it.
    pub fn apply(&mut self, records: &dyn Records, ctx: &Context, op: Op) -> Step {
        let mut view = View::new(records, ctx, &self.numbers);
        let outcome = match op {
            Op::Client(op) => client(&mut view, op),
            Op::Chore(chore) => chores::apply(&mut view, chore).map(|()| Done::now(Answer::Done)),
        };
        let finished = outcome.and_then(|done| Ok((done, view.finish()?)));
        match finished {
            Ok((done, changes)) => {
                if let Some(ino) = changes.made
                    && ctx.again.is_none()
                {
                    self.numbers.used(ino);
                }
                assert!(
                    !changes.unfinished || !changes.batch.is_empty(),
                    "an operation that goes on has done something"
                );
                Step::Done(Effects {
                    batch: changes.batch,
                    repeats: done.repeats,
                    answer: Ok(done.answer),
                    work: changes.work,
                    unfinished: changes.unfinished,
                })
            }
            Err(Stop::Need(need)) => Step::Need(*need),
            Err(Stop::Refused(refusal)) => Step::Done(Effects {
                batch: Batch::new(),
                repeats: None,
                answer: Err(refusal),
                work: Vec::<Work>::new(),
                unfinished: false,
            }),
        }
    }

    /// Counters that `Work::Numbers` named, once its batch is durable.
    pub fn give_numbers(&mut self, shard: VirtualShard, counters: Range<u64>) {
        self.numbers.give(shard, counters);
    }
}

/// An operation's answer, and in which batch it was made if that was before.
struct Done {
    answer: Answer,
    repeats: Option<Seq>,
}

impl Done {
    fn now(answer: Answer) -> Done {
        Done {
            answer,
            repeats: None,
        }
    }
}

/// A client's request: done, or recognised as done before.
fn client(view: &mut View, op: &meta::Op) -> Outcome<Done> {
    if !op.changes() {
        return ops::dispatch(view, op).map(Done::now);
    }
    let Some(lane) = view.ctx.lane else {
        return Err(Refusal::Malformed(format!("{} without a lane", op.name())).into());
    };
    let key = Key::reply(ops::home(op).shard(), view.ctx.session, lane.slot);
    let digest = digest(op, view.ctx.caller);
    if let Some(last) = view.get::<Reply>(&key)?
        && last.sequence >= lane.sequence
    {
        // What is said again is asked by nobody: that it was done is all there is to know, also if the lane went on since.
        let answer = match view.ctx.again {
            Some(_) => Answer::Done,
            None => repeated(view, op, &last, lane, digest)?,
        };
        return Ok(Done {
            answer,
            repeats: Some(last.seq),
        });
    }
    let answer = ops::dispatch(view, op)?;
    // It is answered when all of it is done.
    let is_answered = !view.is_unfinished() && !matches!(op, meta::Op::CloseSession);
    if view.has_changes() && is_answered {
        let reply = Reply {
            sequence: lane.sequence,
            digest,
            essence: essence(&answer)?,
            seq: view.ctx.seq,
        };
        view.put(key, &reply);
    }
    Ok(Done::now(answer))
}

/// The answer to a request that was answered before: its essence, with attributes as they are now.
fn repeated(
    view: &mut View,
    op: &meta::Op,
    last: &Reply,
    lane: Lane,
    digest: u64,
) -> Outcome<Answer> {
    let malformed = |what: &str| {
        let number = lane.sequence;
        Err(Refusal::Malformed(format!(
            "{} {} of lane {} {what}",
            op.name(),
            number,
            lane.slot
        ))
        .into())
    };
    if last.sequence > lane.sequence {
        return malformed(&format!("comes after {}", last.sequence));
    }
    if last.digest != digest {
        return malformed("was another request before");
    }
    Ok(match last.essence {
        Essence::Done => Answer::Done,
        Essence::Attr(ino) => Answer::Attr(told(view, ino)?.attr()),
        Essence::Entry(ino) => Answer::Entry(told(view, ino)?.attr()),
        Essence::Opened { ino, created } => {
            Answer::Opened(ops::opened(&*told(view, ino)?, created))
        }
        Essence::Removed {
            victim,
            orphan,
            moved,
        } => {
            let attr = match moved {
                Some(ino) => view.find_inode(ino)?.map(|inode| inode.attr()),
                None => None,
            };
            Answer::Removed(meta::Removed {
                victim,
                orphan,
                attr,
            })
        }
    })
}

/// An inode as it is to be told of now.
fn told(view: &mut View, ino: InodeId) -> Outcome<Rc<Inode>> {
    let inode = view.inode(ino)?;
    held::must_have_told(view, &inode)?;
    Ok(inode)
}

/// What of an answer is stored. Only answers of changing operations come here.
fn essence(answer: &Answer) -> Outcome<Essence> {
    Ok(match answer {
        Answer::Done => Essence::Done,
        Answer::Attr(attr) => Essence::Attr(attr.ino),
        Answer::Entry(attr) => Essence::Entry(attr.ino),
        Answer::Opened(opened) => Essence::Opened {
            ino: opened.attr.ino,
            created: opened.created,
        },
        Answer::Removed(removed) => Essence::Removed {
            victim: removed.victim,
            orphan: removed.orphan,
            moved: removed.attr.map(|attr| attr.ino),
        },
        other => unreachable!("no changing operation answers {other:?}"),
    })
}

/// Inode counters reserved on disk and not used yet, per shard.
#[derive(Debug, Default)]
pub(crate) struct UnusedNumbers(BTreeMap<VirtualShard, Range<u64>>);

impl UnusedNumbers {
    pub fn first(&self, shard: VirtualShard) -> Option<InodeId> {
        let counters = self.0.get(&shard)?;
        (!counters.is_empty()).then(|| InodeId::new(shard, counters.start))
    }

    fn used(&mut self, ino: InodeId) {
        if let Some(counters) = self.0.get_mut(&ino.shard()) {
            counters.start = ino.counter() + 1;
        }
    }

    fn give(&mut self, shard: VirtualShard, counters: Range<u64>) {
        // Two operations may have asked at once: numbers in hand are used up first, a block that came too early is a gap.
        match self.first(shard) {
            Some(_) => {}
            None => {
                self.0.insert(shard, counters);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{Known, Machine, Op, Records, Step};
    use gupfs_proto::meta::{self, Answer, Lane};
    use gupfs_proto::{Caller, Refusal, Slot};

    fn lane(slot: u16, sequence: u64) -> Option<Lane> {
        Some(Lane {
            slot: Slot(slot),
            sequence,
        })
    }

    fn mkdir(text: &str) -> meta::Op {
        meta::Op::Mkdir {
            dir: ROOT,
            name: name(text),
            make: make(0o755),
        }
    }

    #[test]
    fn a_repeated_request_gets_its_answer_and_changes_nothing() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let first = server.apply(&root, lane(1, 5), Op::Client(&mkdir("a")));
        server.commit(first.batch.clone());
        let again = server.apply(&root, lane(1, 5), Op::Client(&mkdir("a")));
        assert_eq!((again.answer, again.batch), (first.answer, vec![]));
        // In another lane, or as another's, it is another request.
        let other = server.apply(&root, lane(2, 5), Op::Client(&mkdir("a")));
        assert_eq!(other.answer, Err(Refusal::Exists));
    }

    #[test]
    fn a_number_used_for_another_request_or_too_old_is_refused() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let first = server.apply(&root, lane(1, 5), Op::Client(&mkdir("a")));
        server.commit(first.batch);
        for (who, lane, op) in [
            (&root, lane(1, 5), mkdir("b")),
            (&user(1000), lane(1, 5), mkdir("a")),
            (&root, lane(1, 4), mkdir("a")),
            (&root, None, mkdir("b")),
        ] {
            let refused = server.apply(who, lane, Op::Client(&op));
            assert!(
                matches!(refused.answer, Err(Refusal::Malformed(_))),
                "{:?}",
                refused.answer
            );
        }
    }

    #[test]
    fn a_refused_request_may_be_asked_again_and_succeed() {
        let mut server = Server::new(2);
        let root = Caller::root();
        server.mkdir(&root, ROOT, "a", 0o755).unwrap();
        let refused = server.apply(&root, lane(1, 5), Op::Client(&mkdir("a")));
        assert_eq!(refused.answer, Err(Refusal::Exists));
        server.rmdir(&root, ROOT, "a").unwrap();
        let done = server.apply(&root, lane(1, 5), Op::Client(&mkdir("a")));
        assert!(matches!(done.answer, Ok(Answer::Entry(_))));
    }

    #[test]
    fn numbers_are_taken_when_an_operation_is_through_and_never_twice() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let first = server.create(&root, ROOT, "a", 0o644).unwrap().ino;
        assert_eq!(server.create(&root, ROOT, "a", 0o644), Err(Refusal::Exists));
        let second = server.create(&root, ROOT, "b", 0o644).unwrap().ino;
        assert_eq!(second.counter(), first.counter() + 1);
        // A new machine, as after a start, knows none: it goes on behind the reserved block.
        server.machine = Machine::new();
        let third = server.create(&root, ROOT, "c", 0o644).unwrap().ino;
        assert_eq!(
            third.counter(),
            crate::format::FIRST_NUMBER + gupfs_proto::limits::INODE_BLOCK
        );
        server.assert_clean();
    }

    /// Answers nothing.
    struct Cold;

    impl Records for Cold {
        fn get(&self, _: &crate::Key) -> Known {
            Known::Unknown
        }

        fn scan(&self, _: &crate::KeyRange, _: usize) -> Option<Vec<(crate::Key, bytes::Bytes)>> {
            None
        }
    }

    #[test]
    fn an_operation_on_a_cold_store_asks_and_changes_nothing() {
        let server = Server::new(1);
        let root = Caller::root();
        let ctx = server.context(&root, None);
        let step = Machine::new().apply(&Cold, &ctx, Op::Client(&meta::Op::GetAttr { ino: ROOT }));
        assert!(
            matches!(step, Step::Need(crate::Need::Keys(keys)) if keys == [crate::Key::inode(ROOT)])
        );
    }

    #[test]
    fn a_record_of_a_later_version_is_refused_by_name() {
        let mut server = Server::new(1);
        server.records.insert(
            crate::Key::inode(ROOT),
            bytes::Bytes::from_static(&[9, 1, 2]),
        );
        let answer = server.getattr(ROOT);
        assert!(
            matches!(&answer, Err(Refusal::StoreFailed(why)) if why.contains("version 9")),
            "{answer:?}"
        );
    }
}
