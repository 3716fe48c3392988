//! An object server's host: the parts that `gupfs oss` composes, simulated.

use super::CLUSTER;
use super::host::{Host, HostOptions, Store};
use super::owner_clocks::OwnerClocks;
use super::request_monitor::{MonitoredData, RequestMonitor};
use gupfs_accounting::JobTable;
use gupfs_oss::{
    DataHandler, Oss, OssReporter, ServedTarget, VerifierReporter, WriteRelay, run_reports,
};
use gupfs_platform::fake::{FakeDisk, FakePlatform};
use gupfs_proto::{Incarnation, OstId};
use gupfs_rpc::{
    AcceptAllClientKeys, AdmitAll, Capacity, ClientConnection, ClientConnectionOptions, Handlers,
    NoObserver, OssConnections, Role, RpcServer, RpcServerOptions, SendDeadline, ServerAddresses,
};
use gupfs_store::object::{Objects, OpenFileLimits, TargetId, TargetOptions};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// In bytes. Zeroing larger segments is most of what a simulated start costs.
const LOG_SEGMENT: u64 = 512 << 10;

/// As long as `gupfs oss` waits.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(1);

pub struct ObjectHost {
    pub host: Host,
    pub targets: Vec<HostedTarget>,
    number: u64,
    disks_are_small: bool,
    /// They say when session capabilities expire.
    clocks: Arc<OwnerClocks>,
    /// Of the metadata server.
    metadata_address: String,
    monitor: Arc<RequestMonitor>,
    process: Mutex<Option<FakePlatform>>,
    serving: Mutex<Weak<Oss>>,
    /// Of the running process.
    reporter: Mutex<Option<OssReporter>>,
    /// The running process accepts requests.
    is_serving: Arc<AtomicBool>,
}

pub struct HostedTarget {
    pub ost: OstId,
    pub store: Store,
}

impl ObjectHost {
    pub fn new(options: &HostOptions, number: u64, clocks: &Arc<OwnerClocks>) -> ObjectHost {
        ObjectHost {
            host: options.host(&format!("oss{number}")),
            targets: Vec::new(),
            number,
            disks_are_small: options.disks_are_small,
            clocks: clocks.clone(),
            metadata_address: options.metadata_address(number as usize + 1),
            monitor: options.monitor.clone(),
            process: Mutex::new(None),
            serving: Mutex::default(),
            reporter: Mutex::default(),
            is_serving: Arc::default(),
        }
    }

    /// Adds a target with the number that the metadata server assigned to this incarnation.
    pub async fn add(&mut self, ost: OstId, incarnation: Incarnation) {
        let store = self.host.store();
        if self.disks_are_small {
            store.shrink();
        }
        let target_id = target_id(ost);
        let platform = self.host.platform().platform();
        let made = Objects::init_as(&store.handle(), &platform, target_id, incarnation).await;
        made.expect("no fault is injected before the start");
        self.targets.push(HostedTarget { ost, store });
    }

    pub fn address(&self) -> String {
        format!("{}:7701", self.host.name)
    }

    pub fn disks(&self) -> Vec<FakeDisk> {
        let disk = |target: &HostedTarget| target.store.disk.clone();
        self.targets.iter().map(disk).collect()
    }

    /// Returns when the parts of the server are started. It serves once the metadata server has received its report.
    ///
    /// # Errors
    /// When a disk fails during the start.
    pub async fn start(&self) -> Result<(), String> {
        let platform = self.host.platform();
        self.monitor.object_server_starts(self.number);
        *self.process.lock() = Some(platform.clone());
        let oss = Oss::of_host(self.number, Vec::<(OstId, ServedTarget)>::new());
        for target in &self.targets {
            let engine = TargetOptions {
                index: target.store.index(),
                log_segment: LOG_SEGMENT,
                open_files: OpenFileLimits::MIN.objects,
            };
            let disk = target.store.handle();
            let opened =
                Objects::open_with(disk, platform.platform(), target_id(target.ost), engine).await;
            let objects = opened.map_err(|error| error.to_string())?;
            let added = oss.add(target.ost, ServedTarget::Serving(objects));
            assert!(added.is_ok(), "each target is added once");
        }
        *self.serving.lock() = Arc::downgrade(&oss);
        self.serve(&platform, oss)
            .await
            .map_err(|error| error.to_string())
    }

    async fn serve(&self, platform: &FakePlatform, oss: Arc<Oss>) -> std::io::Result<()> {
        let identity = self.host.identity(platform);
        oss.authorizer().set_cluster_key(identity.cluster_key());
        let address = self.address();
        let listener = identity.net.listen(&address).await?;
        let local_identity = identity.local_identity(Role::Oss, "targets");
        let platform = platform.platform();
        let mds_connection = ClientConnection::connect(ClientConnectionOptions {
            request_timeout: Some(Duration::from_secs(5)),
            ..identity.mds_connection_options(
                &ServerAddresses::one(&self.metadata_address),
                &local_identity,
                Handlers::none(),
            )
        });
        let (reported, mut is_reported) = watch::channel(false); // one waiter, so no order among waiters
        let others = OssConnections::new(
            &identity,
            local_identity.clone(),
            CLUSTER,
            &self.metadata_address,
        );
        oss.set_jobs(Arc::new(JobTable::new(platform.clock.clone())));
        oss.set_relay(WriteRelay::new(mds_connection.peer(), others, &platform));
        let reporter = OssReporter {
            domain: None,
            oss: oss.clone(),
            address,
            mds: mds_connection.peer(),
            verifiers: VerifierReporter::new(oss.clone(), mds_connection.peer()),
            platform: platform.clone(),
        };
        *self.reporter.lock() = Some(reporter.clone());
        platform
            .tasks
            .spawn("report", run_reports(reporter, reported));
        let monitored = MonitoredData {
            handler: DataHandler::new(&oss, &platform.clock),
            number: self.number,
            clocks: self.clocks.clone(),
            monitor: self.monitor.clone(),
        };
        let options = RpcServerOptions {
            tls: None,
            platform: platform.clone(),
            identity: local_identity,
            cluster: CLUSTER,
            key: identity.cluster_key(),
            client_keys: Arc::new(AcceptAllClientKeys),
            handlers: Handlers::none().with_peer_handler(Arc::new(monitored)),
            observer: Arc::new(NoObserver),
            capacity: Capacity::for_clients(64),
            admission: Arc::new(AdmitAll),
            send_deadline: SendDeadline::none(),
        };
        // Serving begins after the report: before, the object server does not know whether its targets are still the registered
        // incarnations.
        let (monitor, is_serving) = (self.monitor.clone(), self.is_serving.clone());
        platform.tasks.spawn("serve", async move {
            let _line = mds_connection;
            if is_reported.wait_for(|reported| *reported).await.is_ok() {
                if oss.authorizer().status().sessions > 0 {
                    monitor.count("object server learned of ended sessions before it served");
                }
                let _server = RpcServer::start(listener, options);
                is_serving.store(true, SeqCst);
                std::future::pending::<()>().await;
            }
        });
        Ok(())
    }

    pub fn has_target(&self, ost: OstId) -> bool {
        self.targets.iter().any(|target| target.ost == ost)
    }

    /// Whether its process runs and accepts requests.
    pub fn is_serving(&self) -> bool {
        self.is_serving.load(SeqCst) && self.disks().iter().all(|disk| !disk.is_dead())
    }

    /// The objects of one of its targets; None while the server does not run.
    pub fn objects(&self, ost: OstId) -> Option<Objects> {
        self.serving.lock().upgrade()?.objects(ost).ok()
    }

    /// # Errors
    /// A target has promised more space than its disk has.
    pub async fn check_reserved_space(&self) -> Result<(), String> {
        let serving = self.serving.lock().upgrade();
        let Some(oss) = serving else {
            return Ok(());
        };
        for target in oss.status().await.targets {
            let (ost, reserved, free) = (target.ost, target.reserved_bytes, target.free);
            if reserved > free {
                return Err(format!(
                    "ost{ost} has {reserved} bytes reserved and {free} free"
                ));
            }
        }
        Ok(())
    }

    /// Has sessions told that the server stops, as an administrator's stop does; then the caller ends the process.
    pub async fn announce_stop(&self) {
        let reporter = self.reporter.lock().clone();
        if let Some(reporter) = reporter {
            let clock = reporter.platform.clock.clone();
            tokio::select! {
                biased;
                told = reporter.announce_stop() => {
                    if told.is_ok() {
                        self.monitor.count("stop of an object server announced");
                    }
                }
                () = clock.sleep(ANNOUNCE_TIMEOUT) => {}
            }
        }
    }

    /// Ends the process without a shutdown. With `power_loss`, its disks lose unsynced bytes.
    pub async fn end(&self, power_loss: bool) {
        self.is_serving.store(false, SeqCst);
        *self.reporter.lock() = None;
        self.disks().iter().for_each(FakeDisk::kill);
        let process = self.process.lock().take();
        if let Some(platform) = process {
            self.host.end(&platform).await;
        }
        for target in &self.targets {
            target.store.restart(power_loss, &self.host.random());
        }
    }
}

fn target_id(ost: OstId) -> TargetId {
    TargetId {
        cluster: CLUSTER,
        ost,
    }
}
