//! At the doors: what comes twice, and what is answered from store.

use crate::rare::Rare;
use gupfs_cluster::{MetaDoor, Recalled};
use gupfs_oss::Oss;
use gupfs_proto::{Refusal, SessionId, Slot, data, meta, recall};
use gupfs_rpc::{Caller, Host, Service};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub struct Watch(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    rare: Rare,
    /// Which life of the metadata server this is.
    life: u64,
    /// The last change that was answered in each lane, and in which life.
    answered: BTreeMap<(SessionId, Slot), (u64, u64)>,
    /// Writes of objects that were heard: by whom, where, and how they begin.
    written: BTreeSet<(u64, u64, u64, u64, Vec<u8>)>,
}

impl Watch {
    pub fn saw(&self, what: &'static str) {
        self.0.lock().rare.saw(what);
    }

    pub fn rare(&self) -> Rare {
        self.0.lock().rare.clone()
    }

    pub fn metadata_begins_again(&self) {
        self.0.lock().life += 1;
    }

    fn life(&self) -> u64 {
        self.0.lock().life
    }

    fn asked(&self, request: &meta::Request) {
        let Some(lane) = request.lane else { return };
        let mut seen = self.0.lock();
        let life = seen.life;
        let Some((sequence, of)) = seen.answered.get(&(request.session, lane.slot)).copied() else {
            return;
        };
        if sequence == lane.sequence {
            seen.rare.saw(match of == life {
                true => "answered change asked again",
                false => "change answered by a former life asked again",
            });
        }
    }

    fn answered(&self, request: &meta::Request, reply: &meta::Reply) {
        let mut seen = self.0.lock();
        if reply.result == Err(Refusal::SessionEnded) {
            seen.rare.saw("session ended");
        }
        let Some(lane) = request.lane.filter(|_| reply.result.is_ok()) else {
            return;
        };
        let life = seen.life;
        let key = (request.session, lane.slot);
        seen.answered.insert(key, (lane.sequence, life));
    }

    fn wrote(&self, request: &data::Request) {
        let data::Op::Write {
            object, at, data, ..
        } = &request.op
        else {
            return;
        };
        let begins = data[..data.len().min(16)].to_vec();
        let (ino, stripe) = (object.ino.0, u64::from(object.stripe));
        let mut seen = self.0.lock();
        let new = (seen.written).insert((request.session.0, ino, stripe, at.0, begins));
        seen.rare.saw_if(!new, "object write delivered twice");
    }
}

/// The metadata server's door.
pub struct WatchedMeta {
    pub door: Arc<MetaDoor>,
    pub watch: Arc<Watch>,
}

impl Host<meta::Request, meta::Reply> for WatchedMeta {
    async fn answer(self: Arc<Self>, from: Arc<Caller>, request: meta::Request) -> meta::Reply {
        self.watch.asked(&request);
        let reply = self.door.clone().answer(from, request.clone()).await;
        self.watch.answered(&request, &reply);
        reply
    }
}

/// An object server's door.
pub struct WatchedData {
    pub oss: Arc<Oss>,
    pub watch: Arc<Watch>,
}

impl Service<data::Request, data::Reply> for WatchedData {
    async fn answer(self: Arc<Self>, request: data::Request) -> data::Reply {
        self.watch.wrote(&request);
        self.oss.clone().answer(request).await
    }
}

/// What a client is asked by the metadata server.
pub struct WatchedRecall {
    pub recalled: Arc<Recalled>,
    pub watch: Arc<Watch>,
}

impl Service<recall::Request, recall::Reply> for WatchedRecall {
    async fn answer(self: Arc<Self>, question: recall::Request) -> recall::Reply {
        let before = self.watch.life();
        self.watch.saw(match question {
            recall::Request::Tell { .. } => "client asked to tell",
            recall::Request::GiveBack { .. } => "client asked to give back",
            recall::Request::Removed { .. } => "client asked what it has open",
            recall::Request::Granted { .. } => "client told of a lock",
        });
        let reply = self.recalled.clone().answer(question).await;
        if self.watch.life() != before {
            self.watch.saw("recall crossed a restart");
        }
        reply
    }
}
