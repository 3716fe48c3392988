//! All hosts of one cluster, and the state that their tasks share.

use super::call_arguments::{ONE_OBJECT, caller};
use super::call_history::CallHistory;
use super::client_host::{ClientHost, ClientInstance, Failure};
use super::fault_plan::FaultPlan;
use super::fault_record::{FailedCall, FaultRecord, SYNCED_AFTER};
use super::metadata_host::MetadataHost;
use super::object_host::ObjectHost;
use super::request_monitor::{RequestMonitor, millis};
use super::shared_state::SharedState;
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

pub struct SimulatedCluster {
    pub net: FakeNet,
    pub metadata: MetadataHost,
    pub osses: Vec<ObjectHost>,
    pub client_hosts: Vec<Arc<ClientHost>>,
    /// The attacker's host.
    pub attacker: Arc<ClientHost>,
    pub monitor: Arc<RequestMonitor>,
    pub fault_record: FaultRecord,
    /// The files and directory that all programs change.
    pub shared_state: Mutex<SharedState>,
    /// The files whose whole history is checked.
    pub call_history: Mutex<CallHistory>,
    /// Set when the programs must end.
    pub is_over: AtomicBool,
    events: Mutex<EventLog>,
    event_number: AtomicU64,
    /// The last moment of each millisecond that had one.
    last_events: Mutex<BTreeMap<u64, u64>>,
    value: AtomicU64,
    /// Every inode number that the cluster ever gave out.
    inode_numbers: Mutex<BTreeSet<InodeId>>,
    platform: FakePlatform,
}

impl SimulatedCluster {
    /// Starts all servers; no file exists yet.
    pub async fn start(seed: u64, events: EventLog) -> Arc<SimulatedCluster> {
        let random = FakeRandom::new(seed);
        let delay = match random.below(3) {
            0 => (Duration::from_micros(50), Duration::from_micros(200)),
            1 => (Duration::from_micros(100), Duration::from_millis(5)),
            _ => (Duration::from_millis(1), Duration::from_millis(60)),
        };
        let net = FakeNet::new(random.u64(), delay);
        let platform = FakePlatform::new(seed);
        let monitor = Arc::new(RequestMonitor::new(&platform.clock));
        let metadata = MetadataHost::new(&net, &random, &monitor);
        metadata.start().await.expect("no fault is injected yet");
        let mds = metadata.mds().expect("it was started");
        let mut osses = Vec::new();
        for number in 0..2 + random.below(2) {
            let mut host = ObjectHost::new(number, &net, &random, &metadata.host.clock, &monitor);
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
        let client_host = |number| Arc::new(ClientHost::new(number, &net, &random, &monitor));
        let client_hosts: Vec<Arc<ClientHost>> =
            (0..3 + random.below(2) as usize).map(client_host).collect();
        client_hosts.iter().for_each(ClientHost::start);
        Arc::new(SimulatedCluster {
            fault_record: FaultRecord::new(client_hosts.len(), FaultPlan::of(seed)),
            attacker: client_host(client_hosts.len()),
            shared_state: Mutex::default(),
            call_history: Mutex::default(),
            net,
            metadata,
            osses,
            client_hosts,
            monitor,
            is_over: AtomicBool::new(false),
            events: Mutex::new(events),
            event_number: AtomicU64::new(1),
            last_events: Mutex::default(),
            value: AtomicU64::new(1),
            inode_numbers: Mutex::default(),
            platform,
        })
    }

    /// A default layout with small components, so that short files have several objects.
    pub async fn set_small_layout(&self, client: &Client) {
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
        let caller = caller();
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
        self.platform.platform().tasks.spawn(name, work)
    }

    /// Closes a file of another session in the background: it may be stale already.
    pub fn close_in_background(
        &self,
        host_number: usize,
        instance: ClientInstance<'_>,
        file: &Arc<OpenFile>,
    ) {
        let (client, instance_number, id) = (instance.client.clone(), instance.number, file.id());
        let client_host = self.client_hosts[host_number].clone();
        self.spawn("close a stale file", async move {
            let _ = client_host.run(instance_number, client.release(id)).await; // it may be stale already
        });
    }

    pub fn record(&self, what: impl fmt::Display) {
        let now = self.millis();
        self.events.lock().record(format_args!("{now:6} {what}"));
    }

    /// Milliseconds since the start of the simulation.
    pub fn millis(&self) -> u64 {
        millis(&self.platform.clock)
    }

    /// Rises with each use: the event with the lower number came first.
    pub fn event_number(&self) -> u64 {
        let event_number = self.event_number.fetch_add(1, SeqCst);
        self.last_events.lock().insert(self.millis(), event_number);
        event_number
    }

    /// Events with a lower number came before this millisecond.
    fn first_event_of(&self, millis: u64) -> u64 {
        let last_events = self.last_events.lock();
        let before = last_events.range(..millis).next_back();
        before.map_or(0, |(_, event_number)| event_number + 1)
    }

    /// A value that no program has written yet.
    pub fn value(&self) -> u64 {
        self.value.fetch_add(1, SeqCst)
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    pub async fn sleep(&self, time: Duration) {
        self.platform.platform().clock.sleep(time).await;
    }

    /// # Panics
    /// When it was given out before: no inode number is reused, whatever a crash undid.
    pub fn note_new_inode(&self, ino: InodeId) {
        assert!(
            self.inode_numbers.lock().insert(ino),
            "inode number {ino} was given out twice"
        );
    }

    /// Whether a fault excuses that a call of this client failed, which began at `since` in a session; `late` if it
    /// may report an earlier failure (fsync).
    pub fn is_excused(
        &self,
        failure: &Failure,
        (client, session): (usize, SessionId),
        since: u64,
        late: bool,
    ) -> bool {
        let call = FailedCall {
            client,
            ended: self.monitor.ended(session),
            since,
            now: self.millis(),
            late,
        };
        self.fault_record.is_excused(failure, call)
    }

    /// The metadata server loses power now. `undoes`: not all clients can replay its answered changes.
    pub fn lose_names(&self, undoes: bool) {
        let now = self.event_number();
        self.call_history.lock().lose_names();
        let mut shared_state = self.shared_state.lock();
        if !undoes && shared_state.names_are_replayed() {
            return;
        }
        if !undoes {
            self.monitor
                .count("unanswered change seen before a power loss");
        }
        let synced = self.first_event_of(self.millis().saturating_sub(SYNCED_AFTER));
        shared_state.lose_names(now, synced, undoes);
    }

    /// Checks that each ended session has a cause, and that no object server did anything that it must not.
    ///
    /// # Panics
    /// Otherwise.
    pub fn check_access(&self) {
        let broken = self.monitor.broken();
        assert!(broken.is_empty(), "object servers: {broken:#?}");
        for (session, asked, when) in self.monitor.all_ended() {
            let host = asked
                .split(' ')
                .next()
                .and_then(|host| host.strip_prefix('c'));
            let client = host.and_then(|number| number.parse().ok());
            assert!(
                self.fault_record
                    .may_have_ended(client.unwrap_or(usize::MAX), when),
                "session {session} had ended at {when} ms, as was told to {asked}, and nothing ended it"
            );
        }
    }

    /// An object server loses power now.
    pub fn lose_bytes(&self) {
        let now = self.event_number();
        self.shared_state.lock().lose_bytes(now);
    }

    pub fn take_events(&self) -> EventLog {
        std::mem::replace(&mut *self.events.lock(), EventLog::new(true))
    }
}
