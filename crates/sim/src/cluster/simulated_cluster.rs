//! # simulated_cluster: all hosts of one cluster, and the state that their tasks share
//!
//! Owns   the hosts, the network, the clock and event numbers of the simulation, the records that checks need.
//! Never  injects a fault or calls a client: `faults` and the programs do.
//! Enter  at `SimulatedCluster::start`.

use super::call_arguments::{ONE_OBJECT, caller};
use super::call_history::CallHistory;
use super::client_host::{ClientHost, ClientInstance, Failure};
use super::fault_plan::{FaultKind, FaultPlan};
use super::fault_record::{FailedCall, FaultRecord, SYNCED_AFTER};
use super::host::HostOptions;
use super::metadata_copies::{CopiesObserver, NewOwner};
use super::metadata_servers::{MetadataKind, MetadataServers};
use super::object_host::ObjectHost;
use super::program_pause::{ActingProgram, ProgramPause};
use super::request_monitor::{RequestMonitor, millis};
use super::shared_state::SharedState;
use crate::event_log::EventLog;
use gupfs_client::{Client, OpenFile, OpenFileFlags, RelayMode};
use gupfs_platform::Task;
use gupfs_platform::fake::{FakeNet, FakePlatform, FakeRandom};
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::layout::{DefaultComponent, DefaultLayout, Redundancy};
use gupfs_proto::limits::STRIPE_UNIT_MIN;
use gupfs_proto::{Attr, FileOffset, FsError, Incarnation, InodeId, SessionId, Timestamp};
use gupfs_rpc::Service;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub struct SimulatedCluster {
    pub net: FakeNet,
    pub metadata: MetadataServers,
    pub osses: Vec<ObjectHost>,
    pub client_hosts: Vec<Arc<ClientHost>>,
    /// The attacker's host.
    pub attacker: Arc<ClientHost>,
    pub monitor: Arc<RequestMonitor>,
    pub fault_record: FaultRecord,
    /// The possible states of the files and the directory that all programs change.
    pub shared_state: Mutex<SharedState>,
    /// The history of the calls on two files.
    pub call_history: Mutex<CallHistory>,
    /// Set when the programs must end.
    pub is_over: AtomicBool,
    pub program_pause: ProgramPause,
    events: Mutex<EventLog>,
    event_number: AtomicU64,
    /// The last event number of each millisecond that has one.
    last_events: Mutex<BTreeMap<u64, u64>>,
    value: AtomicU64,
    /// Every inode in a reply to a create, with its time of creation there.
    created: Mutex<BTreeMap<InodeId, Timestamp>>,
    /// The metadata server's wall clock was set.
    pub is_metadata_clock_set: AtomicBool,
    /// The clients keep small writes in memory before they send them.
    pub write_behind: bool,
    /// Files have two copies of each byte.
    pub is_mirrored: bool,
    platform: FakePlatform,
}

impl SimulatedCluster {
    /// Starts all servers and clients; no file exists yet.
    pub async fn start(
        seed: u64,
        (plan, kind): (FaultPlan, MetadataKind),
        events: EventLog,
    ) -> Arc<SimulatedCluster> {
        let random = FakeRandom::new(seed);
        let delay = match random.below(3) {
            0 => (Duration::from_micros(50), Duration::from_micros(200)),
            1 => (Duration::from_micros(100), Duration::from_millis(5)),
            _ => (Duration::from_millis(1), Duration::from_millis(60)),
        };
        let net = FakeNet::new(random.u64(), delay);
        let platform = FakePlatform::new(seed);
        let delays = random.one_in(2).then(|| random.fork());
        let monitor = Arc::new(RequestMonitor::new(&platform.clock, delays));
        let host_options = HostOptions {
            net: net.clone(),
            clocks_differ: plan.clocks_differ(&random),
            random: random.fork(),
            monitor: monitor.clone(),
            write_behind: seed.is_multiple_of(2),
            relay: match seed % 5 {
                4 => RelayMode::Never,
                _ => RelayMode::Always,
            },
            disks_are_small: plan.only() == Some(FaultKind::FullDisk) && seed.is_multiple_of(2),
            metadata_addresses: kind.addresses(),
        };
        if host_options.disks_are_small {
            monitor.require_reserved_space();
        }
        if host_options.clocks_differ {
            monitor.count("cluster whose boot clocks run at different rates");
        }
        let metadata = MetadataServers::start(kind, &host_options).await;
        let clocks = metadata.clocks();
        let mds = metadata.mds().expect("the metadata server runs");
        let mut osses = Vec::new();
        for number in 0..2 + random.below(2) {
            let mut host = ObjectHost::new(&host_options, number, &clocks);
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
        let client_host = |number| Arc::new(ClientHost::new(&host_options, number));
        let client_hosts: Vec<Arc<ClientHost>> =
            (0..3 + random.below(2) as usize).map(client_host).collect();
        client_hosts.iter().for_each(ClientHost::start);
        let cluster = Arc::new(SimulatedCluster {
            fault_record: FaultRecord::new(client_hosts.len(), plan),
            attacker: client_host(client_hosts.len()),
            shared_state: Mutex::default(),
            call_history: Mutex::default(),
            net,
            metadata,
            osses,
            client_hosts,
            monitor,
            is_over: AtomicBool::new(false),
            program_pause: ProgramPause::default(),
            events: Mutex::new(events),
            event_number: AtomicU64::new(1),
            last_events: Mutex::default(),
            value: AtomicU64::new(1),
            created: Mutex::default(),
            is_metadata_clock_set: AtomicBool::new(false),
            write_behind: host_options.write_behind,
            is_mirrored: seed % 3 == 1 || plan == FaultPlan::OneAtATime,
            platform,
        });
        cluster.watch_owners();
        cluster
    }

    /// Where the metadata has copies: notes each new owner before it answers anything.
    fn watch_owners(self: &Arc<Self>) {
        let Some(copies) = self.metadata.copies() else {
            return;
        };
        copies.set_observer(WatchedCopies(Arc::downgrade(self)));
    }

    /// While a copy that counts keeps its memory, nothing that was answered is lost. If none has, and hosts lost power, what was answered and
    /// not synced before the former owner ended may be lost, as at a power loss of a metadata server without copies.
    fn note_new_owner(&self, owner: &NewOwner) {
        self.record(format_args!(
            "mds{} is owner {}, kept memory: {}",
            owner.host, owner.epoch, owner.kept_memory
        ));
        if owner.kept_memory || !owner.after_power_loss {
            return;
        }
        let lost_at = owner.former_ended.unwrap_or_else(|| self.millis());
        let undoes = !self.fault_record.all_clients_stay();
        self.note_metadata_power_loss(lost_at, undoes);
        self.monitor.count("power loss of all copies");
    }

    /// The metadata server lost power at this time. `undoes`: not all clients can replay their answered changes.
    pub fn note_metadata_power_loss(&self, lost_at: u64, undoes: bool) {
        self.fault_record.metadata_power_loss(lost_at, undoes);
        self.lose_names(lost_at, undoes);
        if undoes {
            self.lose_unsent_bytes();
        }
        self.monitor.count(match undoes {
            true => "power loss of the metadata server while a client is absent",
            false => "power loss of the metadata server while all clients stay",
        });
    }

    /// Sets a default layout with small components, so that short files have several objects.
    pub async fn set_small_layout(&self, client: &Client) {
        let targets: usize = self.osses.iter().map(|oss| oss.targets.len()).sum();
        let redundancy = match self.is_mirrored {
            true => Redundancy::Mirror(2),
            false => Redundancy::None,
        };
        let component = |to, count| DefaultComponent {
            to: FileOffset(to),
            unit: STRIPE_UNIT_MIN,
            count,
            first: None,
            redundancy,
        };
        let rule = DefaultLayout {
            components: vec![
                component(ONE_OBJECT, 1),
                component(u64::MAX, targets as u32),
            ],
        };
        let root = client.root();
        let caller = caller();
        let serving = self.metadata.serving();
        let serving = serving.expect("no fault is injected before the start");
        serving.give_root_directory_to(&caller).await;
        // Mirrored files need two servers, which report in a moment.
        while let Err(error) = client
            .set_default_layout(&caller, root, Some(rule.clone()))
            .await
        {
            assert_eq!(error, FsError::Invalid, "no fault is injected yet");
            self.platform
                .platform()
                .clock
                .sleep(Duration::from_millis(100))
                .await;
        }
    }

    /// Spawns a task that belongs to no host, so that the end of a host does not end it.
    pub fn spawn(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Task<()> {
        self.platform.platform().tasks.spawn(name, work)
    }

    /// Closes a file of a former session in the background, because the call may wait.
    pub fn close_in_background(
        &self,
        host_number: usize,
        instance: ClientInstance<'_>,
        file: &Arc<OpenFile>,
    ) {
        let (client, instance_number, id) = (instance.client.clone(), instance.number, file.id());
        let client_host = self.client_hosts[host_number].clone();
        self.spawn("close a stale file", async move {
            let _ = client_host.run(instance_number, client.release(id)).await; // the file may be stale
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

    /// Returns the next event number.
    pub fn event_number(&self) -> u64 {
        let event_number = self.event_number.fetch_add(1, SeqCst);
        self.last_events.lock().insert(self.millis(), event_number);
        event_number
    }

    /// The first event number of this millisecond: all earlier events have lower numbers.
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

    /// Returns when programs may call; they do not pause until the result is dropped.
    pub async fn wait_to_act(&self) -> ActingProgram<'_> {
        loop {
            match self.program_pause.act() {
                Some(acting) => return acting,
                None => self.sleep(Duration::from_millis(50)).await,
            }
        }
    }

    pub async fn sleep(&self, time: Duration) {
        self.platform.platform().clock.sleep(time).await;
    }

    /// # Panics
    /// When the number was used before: inode numbers are never reused, even after a crash that undid the create.
    pub fn note_new_inode(&self, attr: &Attr) {
        let ino = attr.ino;
        let former = self.created.lock().insert(ino, attr.btime);
        assert!(former.is_none(), "inode number {ino} was used twice");
    }

    /// An inode keeps the time of creation that the reply to its create had: also if a power loss of the metadata server undid
    /// the create, and the client replayed it.
    ///
    /// # Panics
    /// When the inode has another time now. (If the server's wall clock was set back meanwhile, a replayed change may not get
    /// its time, which is in the future.)
    pub fn check_creation_time(&self, attr: &Attr) {
        let Some(answered) = self.created.lock().get(&attr.ino).copied() else {
            return;
        };
        assert!(
            answered == attr.btime || self.is_metadata_clock_set.load(SeqCst),
            "inode {} was created at {answered:?} by the reply to its create, and at {:?} now",
            attr.ino,
            attr.btime
        );
    }

    /// Whether a fault excuses the failure of a call of this client, which began at `since` in a session. `late`: the call may
    /// report an earlier failure, as fsync does.
    pub fn is_excused(
        &self,
        failure: &Failure,
        (client, session): (usize, SessionId),
        since: u64,
        late: bool,
    ) -> bool {
        let call = FailedCall {
            client,
            ended: self.monitor.session_end(session),
            since,
            now: self.millis(),
            late,
        };
        self.fault_record.is_excused(failure, call)
    }

    fn lose_names(&self, lost_at: u64, undoes: bool) {
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
        let synced = self.first_event_of(lost_at.saturating_sub(SYNCED_AFTER));
        shared_state.lose_names(now, synced, undoes);
    }

    /// Checks that a fault explains the end of each session, and that no object server accepted a request that it must refuse.
    ///
    /// # Panics
    /// Otherwise.
    pub fn check_access(&self) {
        let broken = self.monitor.broken_promises();
        assert!(
            broken.is_empty(),
            "requests that object servers must not accept: {broken:#?}"
        );
        for (session, request, when) in self.monitor.all_session_ends() {
            let host = request
                .split(' ')
                .next()
                .and_then(|host| host.strip_prefix('c'));
            let client = host.and_then(|number| number.parse().ok());
            assert!(
                self.fault_record
                    .may_have_ended(client.unwrap_or(usize::MAX), when),
                "no fault explains that session {session} had ended at {when} ms (reply to {request})"
            );
        }
    }

    /// An object server loses power now.
    pub fn lose_bytes(&self) {
        let now = self.event_number();
        self.shared_state.lock().lose_bytes(now);
    }

    /// A client may lose bytes now that it has not sent: its process or its session may end, or an object server may refuse them for good. For
    /// the checks that is as if object servers had lost them.
    pub fn lose_unsent_bytes(&self) {
        if self.write_behind {
            self.fault_record.loss_of_unsent_bytes();
            self.lose_bytes();
        }
    }

    /// For a file whose bytes are compared: what a client keeps may be older than a loss.
    pub fn open_flags(&self) -> OpenFileFlags {
        OpenFileFlags {
            direct: self.fault_record.has_lost_cached_bytes(),
            ..OpenFileFlags::default()
        }
    }

    pub fn take_events(&self) -> EventLog {
        std::mem::replace(&mut *self.events.lock(), EventLog::new(true))
    }
}

/// The cluster as the observer of its metadata's copies. Weak: the cluster owns them.
struct WatchedCopies(Weak<SimulatedCluster>);

impl CopiesObserver for WatchedCopies {
    fn new_owner(&self, owner: &NewOwner) {
        if let Some(cluster) = self.0.upgrade() {
            cluster.note_new_owner(owner);
        }
    }

    fn process_ended(&self, host: &str, why: &str) {
        if let Some(cluster) = self.0.upgrade() {
            cluster.record(format_args!("the process of {host} ends: {why}"));
        }
    }
}
