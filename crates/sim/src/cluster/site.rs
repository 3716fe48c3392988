//! All hosts of one cluster, and the state that their tasks share.

use super::arguments::{ONE_OBJECT, me};
use super::history::History;
use super::machine::{Failure, Machine, With};
use super::metadata::Metadata;
use super::objects::ObjectHost;
use super::plan::Plan;
use super::shared_state::Commons;
use super::troubles::{Asked, SYNCED, Troubles};
use super::watch::{Watch, millis};
use crate::event_log::EventLog;
use gupfs_client::{Client, OpenFile};
use gupfs_platform::Task;
use gupfs_platform::fake::{FakeNet, FakePlatform, FakeRandom};
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::layout::{DefaultComponent, DefaultLayout};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{FileOffset, Incarnation, InodeId, SessionId};
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

pub struct Site {
    pub net: FakeNet,
    pub metadata: Metadata,
    pub osses: Vec<ObjectHost>,
    pub machines: Vec<Arc<Machine>>,
    /// The attacker's host.
    pub intruder: Arc<Machine>,
    pub watch: Arc<Watch>,
    pub troubles: Troubles,
    /// The files and directory that all programs change.
    pub commons: Mutex<Commons>,
    /// The files whose whole history is checked.
    pub judged: Mutex<History>,
    /// Set when the programs must end.
    pub ends: AtomicBool,
    events: Mutex<EventLog>,
    moment: AtomicU64,
    /// The last moment of each millisecond that had one.
    moments: Mutex<BTreeMap<u64, u64>>,
    value: AtomicU64,
    /// Every inode number that the cluster ever gave out.
    given: Mutex<BTreeSet<InodeId>>,
    lab: FakePlatform,
}

impl Site {
    /// Starts all servers; no file exists yet.
    pub async fn found(seed: u64, events: EventLog) -> Arc<Site> {
        let random = FakeRandom::new(seed);
        let delay = match random.below(3) {
            0 => (Duration::from_micros(50), Duration::from_micros(200)),
            1 => (Duration::from_micros(100), Duration::from_millis(5)),
            _ => (Duration::from_millis(1), Duration::from_millis(60)),
        };
        let net = FakeNet::new(random.u64(), delay);
        let lab = FakePlatform::new(seed);
        let watch = Arc::new(Watch::new(&lab.clock));
        let metadata = Metadata::new(&net, &random, &watch);
        metadata.start().await.expect("no fault is injected yet");
        let mds = metadata.mds().expect("it was started");
        let mut osses = Vec::new();
        for number in 0..2 + random.below(2) {
            let mut host = ObjectHost::new(number, &net, &random, &metadata.host.clock, &watch);
            for _ in 0..1 + random.below(2) {
                let incarnation = Incarnation(random.u64());
                let admitted = mds
                    .clone()
                    .handle(ClusterRequest::RegisterTarget { incarnation })
                    .await;
                let Ok(ClusterReplyBody::TargetRegistered { ost }) = admitted else {
                    panic!("no number for a target: {admitted:?}");
                };
                host.add(ost, incarnation).await;
            }
            host.start().await.expect("no fault is injected yet");
            osses.push(host);
        }
        let machine = |number| Arc::new(Machine::new(number, &net, &random, &watch));
        let machines: Vec<Arc<Machine>> = (0..3 + random.below(2) as usize).map(machine).collect();
        machines.iter().for_each(Machine::start);
        Arc::new(Site {
            troubles: Troubles::new(machines.len(), Plan::of(seed)),
            intruder: machine(machines.len()),
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
            moments: Mutex::default(),
            value: AtomicU64::new(1),
            given: Mutex::default(),
            lab,
        })
    }

    /// A default layout with small components, so that short files have several objects.
    pub async fn lay_out_small(&self, client: &Client) {
        let targets: usize = self.osses.iter().map(|oss| oss.targets.len()).sum();
        let component = |to, count| DefaultComponent {
            to: FileOffset(to),
            unit: STRIPE_UNIT_MIN,
            count,
            first: None,
        };
        let rule = DefaultLayout {
            components: vec![
                component(ONE_OBJECT, 1),
                component(u64::MAX, targets as u32),
            ],
        };
        let root = client.root();
        let caller = me();
        self.metadata.give_root_directory_to(&caller).await;
        let ruled = client.set_default_layout(&caller, root, Some(rule));
        ruled.await.expect("no fault is injected yet");
    }

    /// Spawns a task that ends by itself: it belongs to no host and survives the end of each.
    pub fn spawn(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Task<()> {
        self.lab.platform().tasks.spawn(name, work)
    }

    /// Closes a file of another session in the background: it may be stale already.
    pub fn close_late(&self, machine: usize, with: With<'_>, file: &Arc<OpenFile>) {
        let (client, life, id) = (with.client.clone(), with.life, file.id());
        let machine = self.machines[machine].clone();
        self.spawn("close a stale file", async move {
            let _ = machine.run(life, client.release(id)).await; // it may be stale already
        });
    }

    pub fn say(&self, what: impl fmt::Display) {
        let now = self.millis();
        self.events.lock().record(format_args!("{now:6} {what}"));
    }

    /// Milliseconds since the start of the simulation.
    pub fn millis(&self) -> u64 {
        millis(&self.lab.clock)
    }

    /// Rises with each use: the event with the lower number came first.
    pub fn moment(&self) -> u64 {
        let moment = self.moment.fetch_add(1, SeqCst);
        self.moments.lock().insert(self.millis(), moment);
        moment
    }

    /// Events with a lower number came before this millisecond.
    fn moment_of(&self, millis: u64) -> u64 {
        let moments = self.moments.lock();
        let before = moments.range(..millis).next_back();
        before.map_or(0, |(_, moment)| moment + 1)
    }

    /// A value that no program has written yet.
    pub fn value(&self) -> u64 {
        self.value.fetch_add(1, SeqCst)
    }

    pub fn ends(&self) -> bool {
        self.ends.load(SeqCst)
    }

    pub async fn sleep(&self, time: Duration) {
        self.lab.platform().clock.sleep(time).await;
    }

    /// # Panics
    /// When it was given out before: no inode number is reused, whatever a crash undid.
    pub fn given(&self, ino: InodeId) {
        assert!(
            self.given.lock().insert(ino),
            "inode number {ino} was given out twice"
        );
    }

    /// Whether a fault excuses that a call of this client failed, which began at `since` in a session; `late` if it
    /// may report an earlier failure (fsync).
    pub fn excuses(
        &self,
        failure: &Failure,
        (client, session): (usize, SessionId),
        since: u64,
        late: bool,
    ) -> bool {
        let asked = Asked {
            client,
            ended: self.watch.ended(session),
            since,
            now: self.millis(),
            late,
        };
        self.troubles.excuse(failure, asked)
    }

    /// The metadata server loses power now. `undoes`: not all clients can replay its answered changes.
    pub fn cut_names(&self, undoes: bool) {
        let now = self.moment();
        self.judged.lock().cut_names();
        let mut commons = self.commons.lock();
        if !undoes && commons.names_are_replayed() {
            return;
        }
        if !undoes {
            self.watch
                .count("unanswered change seen before a power loss");
        }
        let synced = self.moment_of(self.millis().saturating_sub(SYNCED));
        commons.cut_names(now, synced, undoes);
    }

    /// Checks that each ended session has a cause, and that no object server did anything that it must not.
    ///
    /// # Panics
    /// Otherwise.
    pub fn judge_rights(&self) {
        let broken = self.watch.broken();
        assert!(broken.is_empty(), "object servers: {broken:#?}");
        for (session, asked, when) in self.watch.all_ended() {
            let host = asked
                .split(' ')
                .next()
                .and_then(|host| host.strip_prefix('c'));
            let client = host.and_then(|number| number.parse().ok());
            assert!(
                self.troubles
                    .may_have_ended(client.unwrap_or(usize::MAX), when),
                "session {session} had ended at {when} ms, as was told to {asked}, and nothing ended it"
            );
        }
    }

    /// An object server loses power now.
    pub fn cut_bytes(&self) {
        let now = self.moment();
        self.commons.lock().cut_bytes(now);
    }

    pub fn take_events(&self) -> EventLog {
        std::mem::replace(&mut *self.events.lock(), EventLog::new(true))
    }
}
