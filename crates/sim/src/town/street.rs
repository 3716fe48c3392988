//! The run of one seed: clients and a shard, and the messages, commits and crashes between them.

use super::client::{Client, LANES};
use super::compare::compare;
use super::model::{Asked, Model, Seen, Try};
use super::queue::Queue;
use super::server::{Applied, Server};
use super::shadow::{Shadow, seen};
use crate::events::Events;
use crate::rare::Rare;
use crate::seeds::Ran;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, RenameMode};
use gupfs_proto::{FsError, InodeId, SessionId, Timestamp};
use std::collections::BTreeSet;

const CLIENTS: usize = 5;
const EVENTS: u64 = 20_000;
/// One event in so many is a crash.
const CRASH: u64 = 1_500;

enum Event {
    /// A lane has nothing under way.
    Idle(usize, usize),
    Request(usize, usize),
    Commit(u64),
    Sync(u64),
    SyncTick,
    Reply(usize, usize, Box<Result<MetaReplyBody, FsError>>),
}

/// An answer that waits for its batch.
struct Held {
    seq: u64,
    to: (usize, usize),
    answer: Result<MetaReplyBody, FsError>,
}

struct Street {
    queue: Queue<Event>,
    dice: FakeRandom,
    server: Server,
    clients: Vec<Client>,
    shadow: Shadow,
    held: Vec<Held>,
    /// Requests that wait for numbers.
    parked: Vec<(usize, usize)>,
    committing: bool,
    next_session: u64,
    /// Every number ever told to anybody: never to be another inode's, whatever a crash made forgotten.
    told: BTreeSet<InodeId>,
    /// Lanes whose request is sent again after a crash.
    resent: BTreeSet<(usize, usize)>,
    events: Events,
    rare: Rare,
}

/// # Panics
/// When an answer is not the model's, or records do not fit together.
pub fn run(shards: u16, seed: u64, aloud: bool) -> Ran {
    let mut street = Street::new(shards, seed, aloud);
    while street.events.len() < EVENTS {
        if street.dice.one_in(CRASH) {
            street.crash();
        }
        let event = street.queue.pop().expect("somebody always waits");
        street.happen(event);
    }
    street.crash();
    Ran {
        events: street.events,
        rare: street.rare,
    }
}

impl Street {
    fn new(shards: u16, seed: u64, aloud: bool) -> Street {
        let dice = FakeRandom::new(seed ^ 0x7037);
        let server = Server::new(shards, dice.fork());
        let mut street = Street {
            queue: Queue::new(),
            shadow: Shadow::new(Model::new(server.now)),
            server,
            clients: Vec::new(),
            held: Vec::new(),
            parked: Vec::new(),
            committing: false,
            next_session: 0,
            told: BTreeSet::new(),
            resent: BTreeSet::new(),
            events: Events::new(aloud),
            rare: Rare::default(),
            dice,
        };
        for _ in 0..CLIENTS {
            let session = street.new_session();
            let client = Client::new(session, street.dice.fork());
            street.clients.push(client);
        }
        street.wake_all();
        street
    }

    fn new_session(&mut self) -> SessionId {
        self.next_session += 1;
        let session = SessionId(self.next_session);
        self.server.open_session(session);
        session
    }

    /// A message's way: mostly short, sometimes so long that others overtake it.
    fn delay(&self) -> u64 {
        match self.dice.below(10) {
            0 => 10_000 + self.dice.below(2_000_000),
            _ => 10_000 + self.dice.below(50_000),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Idle(client, lane) => {
                self.clients[client].next(lane);
                self.send(client, lane);
            }
            Event::Request(client, lane) => self.request(client, lane),
            Event::Commit(upto) => self.committed(upto),
            Event::Sync(upto) => self.synced(upto),
            Event::SyncTick => {
                let upto = self.server.store.committed;
                self.queue
                    .after(200_000 + self.dice.below(400_000), Event::Sync(upto));
                self.queue.after(2_000_000, Event::SyncTick);
            }
            Event::Reply(client, lane, answer) => self.reply(client, lane, &answer),
        }
    }

    fn send(&mut self, client: usize, lane: usize) {
        let delay = self.delay();
        self.queue.after(delay, Event::Request(client, lane));
    }

    fn request(&mut self, client: usize, number: usize) {
        let (session, lane) = (
            self.clients[client].session,
            self.clients[client].lane(number),
        );
        let op = self.clients[client].lanes[number].waiting.clone();
        let op = op.expect("it was sent");
        self.server.now = Timestamp::from_nanos(1_000_000_000_000 + self.queue.now as i64);
        let changes = op.changes().then_some(lane);
        let effects = match self.server.apply(session, changes, &op) {
            Applied::Done(effects) => effects,
            Applied::Wait => {
                self.parked.push((client, number));
                self.commit_soon();
                return;
            }
        };
        self.events
            .remark(|| format!("{client}.{number} {op:?}: {:?}", effects.reply));
        let answer = seen(&effects.reply);
        self.events
            .count(&[client as u64, number as u64, fingerprint(&answer)]);
        let asked = Asked {
            session,
            now: self.server.now,
            number: number_of(&answer),
        };
        let changed = !effects.batch.is_empty();
        let seq = match changed {
            true => self.server.store.stage(effects.batch),
            false => self.server.store.last,
        };
        let new = asked
            .number
            .filter(|ino| !self.shadow.model().nodes.contains_key(ino));
        let taken = new.is_some_and(|ino| changed && self.told.contains(&ino));
        assert!(!taken, "{new:?} is given again");
        let repeated = self.shadow.is_done(session, lane) && op.changes();
        if self.resent.remove(&(client, number)) && op.changes() {
            self.rare.saw_if(repeated, "reply lost by a crash");
            self.rare.saw_if(!repeated, "request lost by a crash");
        }
        if repeated {
            assert!(!changed, "{op:?} was done twice");
            self.same_as_before(&op, &answer, session, lane);
        } else {
            let over = self.replaces(&op);
            let expected = match changed {
                true => self.shadow.change(seq, &op, asked, lane),
                false => self.shadow.look(&op, asked),
            };
            assert_eq!(answer, expected, "{op:?}");
            self.rare.saw_if(answer.is_err(), "conflict refused");
            self.rare.saw_if(over && changed, "rename over a target");
        }
        self.held.push(Held {
            seq,
            to: (client, number),
            answer: effects.reply,
        });
        self.commit_soon();
    }

    /// The essence is as it was; attributes may have moved on.
    fn same_as_before(
        &self,
        op: &MetaOp,
        answer: &Try,
        session: SessionId,
        lane: gupfs_proto::meta::SlotSeq,
    ) {
        let before = self.shadow.answered(session, lane).expect("it was done");
        let same = match (before, answer) {
            (Seen::Inode { ino: before, .. }, Ok(Seen::Inode { ino, .. })) => before == ino,
            // The inode it made was removed since.
            (Seen::Inode { .. }, Err(FsError::Stale)) => true,
            (before, Ok(answer)) => before == answer,
            (_, Err(_)) => false,
        };
        assert!(
            same,
            "{op:?} was {before:?} and is {answer:?} when asked again"
        );
    }

    fn replaces(&self, op: &MetaOp) -> bool {
        match op {
            MetaOp::Rename {
                to,
                new_name,
                mode: RenameMode::Replace,
                ..
            } => {
                let dir = self.shadow.model().nodes.get(to);
                dir.is_some_and(|dir| dir.children.contains_key(new_name.as_bytes()))
            }
            _ => false,
        }
    }

    fn commit_soon(&mut self) {
        if !self.committing {
            self.committing = true;
            self.queue.after(
                30_000 + self.dice.below(100_000),
                Event::Commit(self.server.store.last),
            );
        }
    }

    /// The group that was written is committed; what came meanwhile is the next.
    fn committed(&mut self, upto: u64) {
        self.committing = false;
        self.events.count(&[1, upto]);
        let store = &mut self.server.store;
        store.committed = store.committed.max(upto);
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|held| held.seq <= upto);
        self.held = rest;
        for held in ready {
            let delay = self.delay();
            let (client, lane) = held.to;
            self.queue
                .after(delay, Event::Reply(client, lane, Box::new(held.answer)));
        }
        if self.server.store.last > upto || !self.held.is_empty() {
            self.commit_soon();
        }
    }

    fn synced(&mut self, upto: u64) {
        self.events.count(&[2, upto]);
        if upto > self.server.store.durable {
            self.server.synced(upto);
            self.shadow.synced(upto);
        }
        for (client, lane) in std::mem::take(&mut self.parked) {
            self.queue.after(0, Event::Request(client, lane));
        }
    }

    fn reply(&mut self, client: usize, lane: usize, answer: &Result<MetaReplyBody, FsError>) {
        let op = self.clients[client].lanes[lane].waiting.take();
        let op = op.expect("it was asked");
        self.events.count(&[3, client as u64, lane as u64]);
        match seen(answer) {
            Ok(Seen::Inode { ino, kind, .. }) => {
                self.told.insert(ino);
                self.clients[client].saw(ino, kind);
            }
            Ok(Seen::Removed {
                victim: Some(victim),
                orphan: true,
            }) if matches!(
                op,
                MetaOp::Unlink { .. } | MetaOp::Rmdir { .. } | MetaOp::Rename { .. }
            ) =>
            {
                self.clients[client].orphaned(victim);
            }
            _ => {}
        }
        let think = self.dice.below(100_000);
        self.queue.after(think, Event::Idle(client, lane));
    }

    /// The shard's process dies, or its power goes: on the way is nothing any more.
    fn crash(&mut self) {
        let store = &self.server.store;
        let power_cut = self.dice.one_in(2);
        let kept = match power_cut {
            true => store.durable + self.dice.below(store.committed - store.durable + 1),
            false => store.committed,
        };
        self.rare.saw(if power_cut { "power loss" } else { "kill" });
        self.rare
            .saw_if(kept < store.last, "staged batches lost by a crash");
        self.rare.saw_if(
            self.server.blocks > 0,
            "reserved numbers forgotten by a crash",
        );
        self.rare
            .saw_if(!self.parked.is_empty(), "crash while numbers were reserved");
        self.events
            .say(format_args!("crash: {kept} of {} kept", store.last));
        self.queue.clear();
        self.held.clear();
        self.parked.clear();
        self.committing = false;
        self.server.restart(kept);
        for lost in self.shadow.crash(kept) {
            let over = matches!(
                lost,
                MetaOp::Rename {
                    mode: RenameMode::Replace,
                    ..
                }
            );
            self.rare.saw_if(over, "rename crossed a crash");
        }
        compare(&self.server, self.shadow.model());
        if self.dice.one_in(4) {
            self.sessions_die();
        }
        self.wake_all();
    }

    /// No client reconnected in time.
    fn sessions_die(&mut self) {
        let orphans = self.server.clear_up();
        self.rare.add("orphan removed at recovery", orphans);
        self.shadow.sessions_died();
        for index in 0..CLIENTS {
            let session = self.new_session();
            self.clients[index].renew(session);
            self.clients[index].lanes = Default::default();
        }
        self.resent.clear();
        compare(&self.server, self.shadow.model());
    }

    /// All clients continue, and send their unanswered requests again.
    fn wake_all(&mut self) {
        for client in 0..CLIENTS {
            for lane in 0..LANES {
                match self.clients[client].lanes[lane].waiting {
                    Some(_) => {
                        self.resent.insert((client, lane));
                        self.send(client, lane);
                    }
                    None => self.queue.after(1, Event::Idle(client, lane)),
                }
            }
        }
        self.queue.after(1, Event::SyncTick);
    }
}

fn number_of(answer: &Try) -> Option<InodeId> {
    match answer {
        Ok(Seen::Inode { ino, .. }) => Some(*ino),
        _ => None,
    }
}

/// Tells answers apart well enough for a hash of events.
fn fingerprint(answer: &Try) -> u64 {
    match answer {
        Ok(Seen::Inode { ino, nlink, .. }) => ino.0 ^ u64::from(*nlink) << 40,
        Ok(Seen::Removed { victim, orphan }) => victim.map_or(1, |ino| ino.0) ^ u64::from(*orphan),
        Ok(Seen::Entries(entries)) => entries.len() as u64,
        Ok(Seen::Done) => 2,
        Ok(Seen::Outgrown) => 3,
        Err(refusal) => refusal.to_string().len() as u64,
    }
}
