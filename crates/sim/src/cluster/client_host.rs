//! A client's host: the parts that `gupfs mount` composes, simulated and without a kernel.

use super::CLUSTER;
use super::host::{Host, HostOptions};
use super::request_monitor::{MonitoredCallbacks, RequestMonitor};
use gupfs_client::{
    Client, ClientCallbacks, RelayMode, Route, SessionOptions, renew_after_reconnect,
};
use gupfs_platform::fake::{FakePlatform, FakeTasks};
use gupfs_proto::FsError;
use gupfs_rpc::{ClientConnection, Handlers, OssConnections, Role, ServerAddresses};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;

pub struct ClientHost {
    pub host: Host,
    monitor: Arc<RequestMonitor>,
    write_behind: bool,
    relay: RelayMode,
    /// Of the metadata server.
    metadata_address: String,
    process: Mutex<Option<FakePlatform>>,
    current: Mutex<CurrentClient>,
    /// Notified when the client instance changes or ends. (tokio's `watch` wakes waiters in an order of its own random source,
    /// so a seed would not repeat.)
    changed: Notify,
    /// True while the client is down or frozen; the task that did it starts or thaws it.
    is_down: AtomicBool,
}

/// The client that runs on the host, and the number of its instance.
#[derive(Clone, Default)]
struct CurrentClient {
    number: u64,
    client: Option<Arc<Client>>,
}

/// A client instance, as programs use it.
#[derive(Clone, Copy)]
pub struct ClientInstance<'a> {
    pub client: &'a Arc<Client>,
    pub number: u64,
}

/// Why a program got no usable reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The client's process has ended.
    Killed,
    Refused(FsError),
    /// A write took a part of the bytes. The error of the rest is not told.
    ShortWrite,
}

impl From<FsError> for Failure {
    fn from(refusal: FsError) -> Failure {
        Failure::Refused(refusal)
    }
}

impl ClientHost {
    pub fn new(options: &HostOptions, number: usize) -> ClientHost {
        ClientHost {
            host: options.host(&format!("c{number}")),
            monitor: options.monitor.clone(),
            write_behind: options.write_behind,
            relay: options.relay,
            metadata_address: options.metadata_address(number),
            process: Mutex::new(None),
            current: Mutex::default(),
            changed: Notify::new(),
            is_down: AtomicBool::new(true),
        }
    }

    /// Begins to start the client; it runs once it has a session at the metadata server.
    pub fn start(self: &Arc<Self>) {
        self.is_down.store(false, SeqCst);
        let platform = self.host.platform();
        *self.process.lock() = Some(platform.clone());
        let client_host = self.clone();
        let tasks = platform.platform().tasks;
        tasks.spawn("mount", async move { client_host.mount(platform).await });
    }

    async fn mount(self: Arc<Self>, platform: FakePlatform) {
        let identity = self.host.identity(&platform);
        let platform = platform.platform();
        let local_identity = identity.local_identity(Role::Client, "mount");
        let callbacks = Arc::new(ClientCallbacks::default());
        let monitored = Arc::new(MonitoredCallbacks {
            callbacks: callbacks.clone(),
            host: self.host.name.clone(),
            monitor: self.monitor.clone(),
        });
        let mds_connection = ClientConnection::connect(identity.mds_connection_options(
            &ServerAddresses::one(&self.metadata_address),
            &local_identity,
            Handlers::none().with_service(monitored),
        ));
        while mds_connection
            .wait_connected(Duration::from_secs(60))
            .await
            .is_err()
        {}
        let oss_connections =
            OssConnections::new(&identity, local_identity, CLUSTER, &self.metadata_address);
        let client = loop {
            let route = Route::with_map(
                mds_connection.peer(),
                Vec::new(),
                mds_connection.peer(),
                oss_connections.clone(),
                platform.clock.clone(),
            );
            let options = SessionOptions {
                name: self.host.name.clone(),
                shared: true,
                write_behind: self.write_behind,
                relay: self.relay,
                ..SessionOptions::default()
            };
            match Client::connect_with_route(route, platform.clone(), options).await {
                Ok(client) => break client,
                Err(_) => platform.clock.sleep(Duration::from_millis(200)).await,
            }
        };
        callbacks.set_client(&client);
        platform.tasks.spawn(
            "greet",
            renew_after_reconnect(mds_connection.clone(), client.clone()),
        );
        {
            let mut current = self.current.lock();
            current.number += 1;
            current.client = Some(client);
        }
        self.changed.notify_waiters();
    }

    /// Waits until the client runs; returns its instance number and the client.
    pub async fn wait_for_client(&self) -> (u64, Arc<Client>) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let current = self.current.lock().clone();
            match current.client {
                Some(client) => return (current.number, client),
                None => changed.await,
            }
        }
    }

    /// Returns when this client instance has ended.
    async fn instance_ended(&self, instance_number: u64) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let current = self.current.lock();
                if current.number != instance_number || current.client.is_none() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Returns the result of a call, unless the client's process ends before. While the process is frozen, the call does not go
    /// on.
    ///
    /// # Errors
    /// The error of the call, or `Failure::Killed` if the process has ended.
    pub async fn run<T>(
        &self,
        instance_number: u64,
        call: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, Failure> {
        let Some(tasks) = self.tasks() else {
            return Err(Failure::Killed);
        };
        tokio::select! {
            biased;
            () = self.instance_ended(instance_number) => Err(Failure::Killed),
            reply = tasks.within(call) => Ok(reply?),
        }
    }

    /// The tasks of the client's process; None while there is none.
    fn tasks(&self) -> Option<FakeTasks> {
        let process = self.process.lock();
        process.as_ref().map(|platform| platform.tasks.clone())
    }

    /// Reserves the client: only the caller may freeze it, or end and restart it. Returns false if another task has reserved it.
    pub fn reserve(&self) -> bool {
        !self.is_down.swap(true, SeqCst)
    }

    /// Stops the process, which the caller has reserved, until `thaw`: as SIGSTOP does.
    pub fn freeze(&self) {
        if let Some(tasks) = self.tasks() {
            tasks.freeze();
        }
    }

    /// The frozen process goes on, and is not reserved any more.
    pub fn thaw(&self) {
        if let Some(tasks) = self.tasks() {
            tasks.thaw();
        }
        self.is_down.store(false, SeqCst);
    }

    /// Ends the process without closing its session.
    pub async fn end(&self) {
        let process = self.process.lock().take();
        self.current.lock().client = None;
        self.monitor.client_killed(&self.host.name);
        self.changed.notify_waiters();
        if let Some(platform) = process {
            self.host.end(&platform).await;
        }
    }
}
