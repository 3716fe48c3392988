//! Crashes of the shard's process, the end of all sessions, and the restart.

use super::{CLIENTS, Event, ShardSimulation};
use crate::shard::client::SLOTS;
use crate::shard::compare::compare;
use gupfs_proto::meta::{MetaOp, RenameMode};

impl ShardSimulation {
    /// The shard's process is killed or loses power, and all messages in transit are lost.
    pub(super) fn crash(&mut self) {
        let store = &self.server.store;
        let power_cut = self.random.one_in(2);
        let kept_seq = match power_cut {
            true => store.durable + self.random.below(store.committed - store.durable + 1),
            false => store.committed,
        };
        self.rare_events
            .count(if power_cut { "power loss" } else { "kill" });
        self.rare_events
            .count_if(kept_seq < store.last, "staged batches lost by a crash");
        self.rare_events.count_if(
            self.server.blocks_added > 0,
            "reserved numbers forgotten by a crash",
        );
        self.rare_events.count_if(
            !self.waiting_for_numbers.is_empty(),
            "crash while numbers were reserved",
        );
        self.events
            .record(format_args!("crash: {kept_seq} of {} kept", store.last));
        self.event_queue.clear();
        self.waiting_replies.clear();
        self.waiting_for_numbers.clear();
        self.commit_scheduled = false;
        self.server.restart(kept_seq);
        for lost in self.model_log.crash(kept_seq) {
            let replaced = matches!(
                lost,
                MetaOp::Rename {
                    mode: RenameMode::Replace,
                    ..
                }
            );
            self.rare_events
                .count_if(replaced, "rename crossed a crash");
        }
        compare(&self.server, self.model_log.model());
        if self.random.one_in(4) {
            self.end_sessions();
        }
        self.resume_all();
    }

    /// All sessions end because no client reconnected in time.
    fn end_sessions(&mut self) {
        let orphans = self.server.recover();
        self.rare_events.add("orphan removed at recovery", orphans);
        self.model_log.end_sessions();
        for index in 0..CLIENTS {
            let session = self.new_session();
            self.clients[index].begin_session(session);
            self.clients[index].slots = Default::default();
        }
        self.resent.clear();
        compare(&self.server, self.model_log.model());
    }

    /// All clients go on and resend their unanswered requests.
    pub(super) fn resume_all(&mut self) {
        for client in 0..CLIENTS {
            for slot in 0..SLOTS {
                match self.clients[client].slots[slot].waiting {
                    Some(_) => {
                        self.resent.insert((client, slot));
                        self.send(client, slot);
                    }
                    None => self.event_queue.schedule(1, Event::SlotFree(client, slot)),
                }
            }
        }
        self.event_queue.schedule(1, Event::SyncTick);
    }
}
