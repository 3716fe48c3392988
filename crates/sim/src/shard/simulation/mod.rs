//! The simulation of one seed: clients, a shard, and the messages, commits and crashes between them.

mod crash;

use super::client::Client;
use super::event_queue::EventQueue;
use super::model::{ComparedReply, ComparedResult, Model, RequestContext};
use super::model_log::{ModelLog, compared_reply};
use super::server::{Applied, Server};
use crate::event_log::EventLog;
use crate::rare_events::RareEvents;
use crate::seeds::SeedRun;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, RenameMode};
use gupfs_proto::{FsError, InodeId, SessionId, Timestamp};
use std::collections::BTreeSet;

const CLIENTS: usize = 5;
const EVENTS_PER_SEED: u64 = 20_000;
/// Number of events between two crashes, on average.
const EVENTS_PER_CRASH: u64 = 1_500;

enum Event {
    /// A slot has no request in flight.
    SlotFree(usize, usize),
    Request(usize, usize),
    Commit(u64),
    Sync(u64),
    SyncTick,
    Reply(usize, usize, Box<Result<MetaReplyBody, FsError>>),
}

/// A reply that waits for the commit of its batch.
struct WaitingReply {
    seq: u64,
    to: (usize, usize),
    reply: Result<MetaReplyBody, FsError>,
}

struct ShardSimulation {
    event_queue: EventQueue<Event>,
    random: FakeRandom,
    server: Server,
    clients: Vec<Client>,
    model_log: ModelLog,
    waiting_replies: Vec<WaitingReply>,
    /// Requests (client, slot) that wait for inode numbers.
    waiting_for_numbers: Vec<(usize, usize)>,
    commit_scheduled: bool,
    next_session: u64,
    /// Every inode number in a reply that a client received. No other inode may get one of these, even after a crash that undid
    /// the create.
    reported_inodes: BTreeSet<InodeId>,
    /// Slots whose request is resent after a crash.
    resent: BTreeSet<(usize, usize)>,
    events: EventLog,
    rare_events: RareEvents,
}

/// # Panics
/// When a reply differs from the model's, or records are inconsistent.
pub fn run(shards: u16, seed: u64, verbose: bool) -> SeedRun {
    let mut simulation = ShardSimulation::new(shards, seed, verbose);
    while simulation.events.len() < EVENTS_PER_SEED {
        if simulation.random.one_in(EVENTS_PER_CRASH) {
            simulation.crash();
        }
        let event = simulation
            .event_queue
            .pop()
            .expect("a slot or a sync is always scheduled");
        simulation.handle(event);
    }
    simulation.crash();
    SeedRun {
        events: simulation.events,
        rare_events: simulation.rare_events,
    }
}

impl ShardSimulation {
    fn new(shards: u16, seed: u64, verbose: bool) -> ShardSimulation {
        let random = FakeRandom::new(seed ^ 0x7037);
        let server = Server::new(shards, random.fork());
        let mut simulation = ShardSimulation {
            event_queue: EventQueue::new(),
            model_log: ModelLog::new(Model::new(server.now)),
            server,
            clients: Vec::new(),
            waiting_replies: Vec::new(),
            waiting_for_numbers: Vec::new(),
            commit_scheduled: false,
            next_session: 0,
            reported_inodes: BTreeSet::new(),
            resent: BTreeSet::new(),
            events: EventLog::new(verbose),
            rare_events: RareEvents::default(),
            random,
        };
        for _ in 0..CLIENTS {
            let session = simulation.new_session();
            let client = Client::new(session, simulation.random.fork());
            simulation.clients.push(client);
        }
        simulation.resume_all();
        simulation
    }

    fn new_session(&mut self) -> SessionId {
        self.next_session += 1;
        let session = SessionId(self.next_session);
        self.server.open_session(session);
        session
    }

    /// The delay of a message: mostly short, sometimes so long that later messages overtake it.
    fn delay(&self) -> u64 {
        match self.random.below(10) {
            0 => 10_000 + self.random.below(2_000_000),
            _ => 10_000 + self.random.below(50_000),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::SlotFree(client, slot) => {
                self.clients[client].begin_request(slot);
                self.send(client, slot);
            }
            Event::Request(client, slot) => self.handle_request(client, slot),
            Event::Commit(up_to) => self.finish_commit(up_to),
            Event::Sync(up_to) => self.finish_sync(up_to),
            Event::SyncTick => {
                let up_to = self.server.store.committed;
                self.event_queue
                    .schedule(200_000 + self.random.below(400_000), Event::Sync(up_to));
                self.event_queue.schedule(2_000_000, Event::SyncTick);
            }
            Event::Reply(client, slot, reply) => self.handle_reply(client, slot, &reply),
        }
    }

    fn send(&mut self, client: usize, slot: usize) {
        let delay = self.delay();
        self.event_queue
            .schedule(delay, Event::Request(client, slot));
    }

    fn handle_request(&mut self, client: usize, slot: usize) {
        let (session, slot_seq) = (
            self.clients[client].session,
            self.clients[client].slot_seq(slot),
        );
        let op = self.clients[client].slots[slot].waiting.clone();
        let op = op.expect("the slot has a request");
        self.server.now = Timestamp::from_nanos(1_000_000_000_000 + self.event_queue.now as i64);
        let changes = op.changes().then_some(slot_seq);
        let effects = match self.server.apply(session, changes, &op) {
            Applied::Done(effects) => effects,
            Applied::NeedsNumbers => {
                self.waiting_for_numbers.push((client, slot));
                self.schedule_commit();
                return;
            }
        };
        self.events
            .print_line(|| format!("{client}.{slot} {op:?}: {:?}", effects.reply));
        let reply = compared_reply(&effects.reply);
        self.events
            .record_numbers(&[client as u64, slot as u64, fingerprint(&reply)]);
        let context = RequestContext {
            session,
            now: self.server.now,
            new_inode: inode_of(&reply),
        };
        let changed = !effects.batch.is_empty();
        let seq = match changed {
            true => self.server.store.stage(effects.batch),
            false => self.server.store.last,
        };
        let new_inode = context
            .new_inode
            .filter(|ino| !self.model_log.model().nodes.contains_key(ino));
        let is_reused = new_inode.is_some_and(|ino| changed && self.reported_inodes.contains(&ino));
        assert!(!is_reused, "inode number {new_inode:?} was reported before");
        self.check_reply(
            (client, slot),
            (&op, &reply),
            context,
            changed.then_some(seq),
        );
        self.waiting_replies.push(WaitingReply {
            seq,
            to: (client, slot),
            reply: effects.reply,
        });
        self.schedule_commit();
    }

    /// Compares the reply to a request with the model's. `batch`: the number of the batch, if the request changed something.
    fn check_reply(
        &mut self,
        (client, slot): (usize, usize),
        (op, reply): (&MetaOp, &ComparedResult),
        context: RequestContext,
        batch: Option<u64>,
    ) {
        let session = context.session;
        let slot_seq = self.clients[client].slot_seq(slot);
        let is_resent = self.model_log.was_applied(session, slot_seq) && op.changes();
        if self.resent.remove(&(client, slot)) && op.changes() {
            self.rare_events
                .count_if(is_resent, "reply lost by a crash");
            self.rare_events
                .count_if(!is_resent, "request lost by a crash");
        }
        if is_resent {
            assert!(batch.is_none(), "{op:?} was executed twice");
            self.check_resent_reply(op, reply, session, slot_seq);
        } else {
            let replaced = self.replaces_entry(op);
            let expected_reply = match batch {
                Some(seq) => self.model_log.apply_change(seq, op, context, slot_seq),
                None => self.model_log.expected_read(op, context),
            };
            assert_eq!(*reply, expected_reply, "{op:?}");
            self.rare_events
                .count_if(reply.is_err(), "conflict refused");
            self.rare_events
                .count_if(replaced && batch.is_some(), "rename over a target");
        }
    }

    /// The inode, or the removed inode, must be the same as in the first reply; attributes may have changed since.
    fn check_resent_reply(
        &self,
        op: &MetaOp,
        reply: &ComparedResult,
        session: SessionId,
        slot_seq: gupfs_proto::meta::SlotSeq,
    ) {
        let before = self
            .model_log
            .reply_of(session, slot_seq)
            .expect("the model has the reply");
        let same = match (before, reply) {
            (ComparedReply::Inode { ino: before, .. }, Ok(ComparedReply::Inode { ino, .. })) => {
                before == ino
            }
            // Another request removed the created inode.
            (ComparedReply::Inode { .. }, Err(FsError::Stale)) => true,
            (before, Ok(reply)) => before == reply,
            (_, Err(_)) => false,
        };
        assert!(
            same,
            "the first reply to {op:?} was {before:?}, the reply to the resent request is {reply:?}"
        );
    }

    fn replaces_entry(&self, op: &MetaOp) -> bool {
        match op {
            MetaOp::Rename {
                to,
                new_name,
                mode: RenameMode::Replace,
                ..
            } => {
                let dir = self.model_log.model().nodes.get(to);
                dir.is_some_and(|dir| dir.children.contains_key(new_name.as_bytes()))
            }
            _ => false,
        }
    }

    fn schedule_commit(&mut self) {
        if !self.commit_scheduled {
            self.commit_scheduled = true;
            self.event_queue.schedule(
                30_000 + self.random.below(100_000),
                Event::Commit(self.server.store.last),
            );
        }
    }

    /// A group commit has ended. The batches that were staged meanwhile form the next group.
    fn finish_commit(&mut self, up_to: u64) {
        self.commit_scheduled = false;
        self.events.record_numbers(&[1, up_to]);
        let store = &mut self.server.store;
        store.committed = store.committed.max(up_to);
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting_replies)
            .into_iter()
            .partition(|waiting| waiting.seq <= up_to);
        self.waiting_replies = rest;
        for waiting in ready {
            let delay = self.delay();
            let (client, slot) = waiting.to;
            self.event_queue
                .schedule(delay, Event::Reply(client, slot, Box::new(waiting.reply)));
        }
        if self.server.store.last > up_to || !self.waiting_replies.is_empty() {
            self.schedule_commit();
        }
    }

    fn finish_sync(&mut self, up_to: u64) {
        self.events.record_numbers(&[2, up_to]);
        if up_to > self.server.store.durable {
            self.server.finish_sync(up_to);
            self.model_log.note_synced(up_to);
        }
        for (client, slot) in std::mem::take(&mut self.waiting_for_numbers) {
            self.event_queue.schedule(0, Event::Request(client, slot));
        }
    }

    fn handle_reply(&mut self, client: usize, slot: usize, reply: &Result<MetaReplyBody, FsError>) {
        let op = self.clients[client].slots[slot].waiting.take();
        let op = op.expect("the slot has a request");
        self.events.record_numbers(&[3, client as u64, slot as u64]);
        match compared_reply(reply) {
            Ok(ComparedReply::Inode { ino, kind, .. }) => {
                self.reported_inodes.insert(ino);
                self.clients[client].note_inode(ino, kind);
            }
            Ok(ComparedReply::Removed {
                victim: Some(victim),
                orphan: true,
            }) if matches!(
                op,
                MetaOp::Unlink { .. } | MetaOp::Rmdir { .. } | MetaOp::Rename { .. }
            ) =>
            {
                self.clients[client].note_orphan(victim);
            }
            _ => {}
        }
        let pause = self.random.below(100_000);
        self.event_queue
            .schedule(pause, Event::SlotFree(client, slot));
    }
}

fn inode_of(reply: &ComparedResult) -> Option<InodeId> {
    match reply {
        Ok(ComparedReply::Inode { ino, .. }) => Some(*ino),
        _ => None,
    }
}

/// A number that differs between most replies, for the hash of events.
fn fingerprint(reply: &ComparedResult) -> u64 {
    match reply {
        Ok(ComparedReply::Inode { ino, nlink, .. }) => ino.0 ^ u64::from(*nlink) << 40,
        Ok(ComparedReply::Removed { victim, orphan }) => {
            victim.map_or(1, |ino| ino.0) ^ u64::from(*orphan)
        }
        Ok(ComparedReply::Entries(entries)) => entries.len() as u64,
        Ok(ComparedReply::Done) => 2,
        Ok(ComparedReply::TooLarge) => 3,
        Err(refusal) => refusal.to_string().len() as u64,
    }
}
