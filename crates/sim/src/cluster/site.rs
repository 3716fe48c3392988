//! All hosts of one cluster, and what everybody who works there has in common.

use super::judged::History;
use super::machine::Machine;
use super::metadata::Metadata;
use super::objects::ObjectHost;
use super::own;
use super::shared::Commons;
use super::troubles::Troubles;
use super::watch::Watch;
use crate::events::Events;
use gupfs_client::{Client, OpenFile};
use gupfs_proto::cluster::{Answer, Request};
use gupfs_proto::layout::{ComponentRule, LayoutRule};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{FileOffset, Incarnation, InodeId};
use gupfs_rpc::Service;
use gupfs_world::Task;
use gupfs_world::fake::{FakeDice, FakeNet, FakeWorld};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The largest file that lies in one object; what is larger is striped.
pub const ONE_OBJECT: u64 = 128 << 10;

pub struct Site {
    pub net: FakeNet,
    pub metadata: Metadata,
    pub osses: Vec<ObjectHost>,
    pub machines: Vec<Arc<Machine>>,
    pub watch: Arc<Watch>,
    pub troubles: Troubles,
    /// What all programs change.
    pub commons: Mutex<Commons>,
    /// Beside it, what is judged as a whole.
    pub judged: Mutex<History>,
    /// The programs come to their end.
    pub ends: AtomicBool,
    events: Mutex<Events>,
    moment: AtomicU64,
    value: AtomicU64,
    /// Every number that a file or directory ever had.
    given: Mutex<BTreeSet<InodeId>>,
    lab: FakeWorld,
}

impl Site {
    /// Everything runs, and nothing is there yet.
    pub async fn found(seed: u64, events: Events) -> Arc<Site> {
        let dice = FakeDice::new(seed);
        let delay = match dice.below(3) {
            0 => (Duration::from_micros(50), Duration::from_micros(200)),
            1 => (Duration::from_micros(100), Duration::from_millis(5)),
            _ => (Duration::from_millis(1), Duration::from_millis(60)),
        };
        let net = FakeNet::new(dice.u64(), delay);
        let watch = Arc::new(Watch::default());
        let metadata = Metadata::new(&net, &dice, &watch);
        metadata.start().await.expect("nothing is faulty yet");
        let mds = metadata.mds().expect("it was started");
        let mut osses = Vec::new();
        for number in 0..2 + dice.below(2) {
            let mut host = ObjectHost::new(number, &net, &dice, &watch);
            for _ in 0..1 + dice.below(2) {
                let incarnation = Incarnation(dice.u64());
                let admitted = mds.clone().answer(Request::Admit { incarnation }).await;
                let Ok(Answer::Admitted { ost }) = admitted else {
                    panic!("no number for a target: {admitted:?}");
                };
                host.add(ost, incarnation).await;
            }
            host.start().await.expect("nothing is faulty yet");
            osses.push(host);
        }
        let machine = |number| Arc::new(Machine::new(number, &net, &dice, &watch));
        let machines: Vec<Arc<Machine>> = (0..3 + dice.below(2) as usize).map(machine).collect();
        machines.iter().for_each(Machine::start);
        Arc::new(Site {
            troubles: Troubles::new(machines.len()),
            commons: Mutex::default(),
            judged: Mutex::default(),
            net,
            metadata,
            osses,
            machines,
            watch,
            ends: AtomicBool::new(false),
            events: Mutex::new(events),
            moment: AtomicU64::new(1),
            value: AtomicU64::new(1),
            given: Mutex::default(),
            lab: FakeWorld::new(seed),
        })
    }

    /// Borders close together, so that short files have several objects.
    pub async fn lay_out_small(&self, client: &Client) {
        let targets: usize = self.osses.iter().map(|oss| oss.targets.len()).sum();
        let component = |to, count| ComponentRule {
            to: FileOffset(to),
            unit: STRIPE_UNIT_MIN,
            count,
            first: None,
        };
        let rule = LayoutRule {
            components: vec![
                component(ONE_OBJECT, 1),
                component(u64::MAX, targets as u32),
            ],
        };
        let root = client.root();
        let caller = own::me();
        self.metadata.give_root_directory_to(&caller).await;
        let ruled = client.set_layout_rule(&caller, root, Some(rule));
        ruled.await.expect("nothing is faulty yet");
    }

    /// Beside everything else, until it ends by itself: neither a host's task nor ended with one.
    pub fn spawn(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Task<()> {
        self.lab.world().tasks.spawn(name, work)
    }

    /// Closes a file of another life or session, some time: it may be stale already.
    pub fn close_late(&self, client: &Arc<Client>, file: &Arc<OpenFile>) {
        let (client, id) = (client.clone(), file.id());
        self.spawn("close a stale file", async move {
            let _ = client.release(id).await; // it may be stale already
        });
    }

    pub fn say(&self, what: impl fmt::Display) {
        let now = self.lab.clock.boot().0 / 1_000_000;
        self.events.lock().say(format_args!("{now:6} {what}"));
    }

    /// Milliseconds since the beginning.
    pub fn millis(&self) -> u64 {
        self.lab.clock.boot().0 / 1_000_000
    }

    /// Rises with each use: what has the lower one came first.
    pub fn moment(&self) -> u64 {
        self.moment.fetch_add(1, SeqCst)
    }

    /// That nobody ever wrote.
    pub fn value(&self) -> u64 {
        self.value.fetch_add(1, SeqCst)
    }

    pub fn ends(&self) -> bool {
        self.ends.load(SeqCst)
    }

    pub async fn sleep(&self, time: Duration) {
        self.lab.world().clock.sleep(time).await;
    }

    /// # Panics
    /// When it was given before: files and directories get numbers that nobody ever had, whatever a crash made forgotten.
    pub fn given(&self, ino: InodeId) {
        assert!(self.given.lock().insert(ino), "{ino} was given twice");
    }

    /// The metadata server loses power now.
    pub fn cut_names(&self) {
        let now = self.moment();
        self.commons.lock().cut_names(now);
    }

    /// An object server loses power now.
    pub fn cut_bytes(&self) {
        let now = self.moment();
        self.commons.lock().cut_bytes(now);
    }

    pub fn take_events(&self) -> Events {
        std::mem::replace(&mut *self.events.lock(), Events::new(true))
    }
}
