//! Somebody who is connected, and the way to ask him something back.

use super::admit::Loads;
use super::{ConnectionStatus, age};
use crate::call::{Outcome, Table};
use crate::frame::{Flags, pack};
use crate::handshake::{Guest, Met};
use crate::link::Link;
use crate::peer::{Answering, Peer, Way};
use gupfs_platform::BootTime;
use gupfs_proto::Refusal;
use gupfs_proto::wire::{Message, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub struct Caller {
    met: Met,
    number: u64,
    since: BootTime,
    pub(super) link: Arc<Link>,
    pub(super) loads: Loads,
    /// What we asked him.
    pub(super) asked: Table,
    /// Questions of his that could not be read.
    unreadable: AtomicU64,
    /// It asked what its role may not.
    asked_wrongly: AtomicBool,
}

impl Caller {
    pub(super) fn new(guest: Guest, since: BootTime, link: Arc<Link>, loads: Loads) -> Caller {
        Caller {
            met: guest.met,
            number: guest.number,
            since,
            link,
            loads,
            asked: Table::default(),
            unreadable: AtomicU64::new(0),
            asked_wrongly: AtomicBool::new(false),
        }
    }

    pub fn met(&self) -> &Met {
        &self.met
    }

    /// Of this connection, among those of the same process.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn since(&self) -> BootTime {
        self.since
    }

    /// One more question of his could not be read; how many are they.
    pub(crate) fn sent_unreadable(&self) -> u64 {
        self.unreadable.fetch_add(1, Relaxed) + 1
    }

    /// "host:port" of his end.
    pub fn from(&self) -> &str {
        self.link.stream().peer()
    }

    /// He is on this host.
    pub fn is_local(&self) -> bool {
        self.link.stream().is_local()
    }

    /// It asks what its role may not; whether for the first time: the log has one line for each connection.
    pub(crate) fn asks_wrongly(&self) -> bool {
        !self.asked_wrongly.swap(true, Relaxed)
    }

    pub fn is_gone(&self) -> bool {
        self.link.is_closed()
    }

    /// Returns when the connection is over.
    pub async fn gone(&self) {
        self.link.ended().await;
    }

    /// Ends the connection; what is under way goes on, and its answers go nowhere.
    pub fn end(&self) {
        self.link.close();
        let gone = Refusal::TimedOut(format!("{}: it is gone", self.met.name));
        self.asked.fail_all(&gone);
    }

    /// The way to ask him, as long as this connection lives: afterwards every question is refused with `TimedOut`.
    pub fn peer<Q: Message, A: Reply>(self: &Arc<Self>) -> Peer<Q, A> {
        Peer::over(Arc::new(Back(self.clone())))
    }

    pub(super) fn status(&self, now: BootTime) -> ConnectionStatus {
        ConnectionStatus {
            role: self.met.role.name(),
            name: self.met.name.clone(),
            from: self.from().to_string(),
            number: self.number,
            questions: self.loads.one.questions(),
            for_ms: age(now, self.since),
            silent_ms: age(now, self.link.heard()),
        }
    }
}

struct Back(Arc<Caller>);

impl<Q: Message, A: Reply> Way<Q, A> for Back {
    fn call(&self, question: Q) -> Answering<A> {
        let caller = self.0.clone();
        let number = caller.asked.number();
        let packed = match pack(Q::KIND, Flags::empty(), number, question.write()) {
            Ok(packed) => packed,
            Err(error) => {
                let refusal =
                    Refusal::Malformed(format!("a question to {}: {error}", caller.met.name));
                return Box::pin(std::future::ready(A::refused(refusal)));
            }
        };
        caller.asked.insert(number, packed.clone(), None, false);
        caller.link.send(packed);
        if caller.is_gone() {
            caller.end();
        }
        Box::pin(async move {
            let waiting = Waiting { caller, number };
            let outcome = std::future::poll_fn(|cx| waiting.caller.asked.poll(number, cx)).await;
            Outcome::read(outcome)
        })
    }
}

/// Forgets the question when nobody waits for its answer any more.
struct Waiting {
    caller: Arc<Caller>,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.caller.asked.forget(self.number);
    }
}
