//! # shared_dir: programs that change a directory and files concurrently
//!
//! Owns   the programs that make the calls; `shared_state` has the possible states.
//! Never  assumes an order of overlapping calls: each reply must fit some order.
//! Enter  at `SharedDirProgram::work` (a program).

mod bytes;
mod names;
mod observe;

use super::client_host::{ClientInstance, Failure};
use super::private_dir::PublishedState;
use super::shared_state::{SharedState, WRITTEN_BLOCKS};
use super::simulated_cluster::SimulatedCluster;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::{InodeId, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two calls, in microseconds.
const PAUSE_MAX: u64 = 700_000;

/// A server may still make a change this long after the client that requested it has died.
const LATE_CHANGE: Duration = Duration::from_secs(100);

/// A program that changes the shared files.
pub struct SharedDirProgram {
    cluster: Arc<SimulatedCluster>,
    host_number: usize,
    random: FakeRandom,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    instance_number: u64,
    session: SessionId,
    /// Whether files were opened as `SimulatedCluster::open_flags` says now.
    opens_direct: bool,
    /// The event number of the request of its last answered change of names, and the number of the metadata server's power
    /// losses then.
    last_change: Option<(u64, u64)>,
    /// The states of the other programs' private directories.
    others: Vec<Arc<Mutex<PublishedState>>>,
}

impl SharedDirProgram {
    pub fn new(
        cluster: &Arc<SimulatedCluster>,
        host_number: usize,
        random: FakeRandom,
        others: Vec<Arc<Mutex<PublishedState>>>,
    ) -> SharedDirProgram {
        SharedDirProgram {
            cluster: cluster.clone(),
            host_number,
            random,
            open: BTreeMap::new(),
            instance_number: 0,
            session: SessionId(0),
            opens_direct: false,
            last_change: None,
            others,
        }
    }

    /// Runs until the simulation ends.
    ///
    /// # Panics
    /// When a promise is broken.
    pub async fn work(&mut self) {
        let client_host = self.cluster.client_hosts[self.host_number].clone();
        while !self.cluster.is_over() {
            self.cluster
                .sleep(Duration::from_micros(self.random.below(PAUSE_MAX)))
                .await;
            let (instance_number, client) = client_host.wait_for_client().await;
            if self.cluster.program_pause.is_pausing() {
                self.close_for_pause().await;
            }
            let cluster = self.cluster.clone();
            let _acting = cluster.wait_to_act().await;
            let instance = ClientInstance {
                client: &client,
                number: instance_number,
            };
            self.notice_new_session(instance);
            self.act(instance).await;
        }
        let (instance_number, client) = client_host.wait_for_client().await;
        let instance = ClientInstance {
            client: &client,
            number: instance_number,
        };
        self.notice_new_session(instance);
        self.check_all(instance).await;
        for (_, file) in std::mem::take(&mut self.open) {
            let _ = client_host
                .run(instance_number, client.release(file.id()))
                .await;
        }
    }

    /// Closes all files of the current session.
    async fn close_for_pause(&mut self) {
        let client_host = self.cluster.client_hosts[self.host_number].clone();
        let (instance_number, client) = client_host.wait_for_client().await;
        let instance = ClientInstance {
            client: &client,
            number: instance_number,
        };
        self.notice_new_session(instance);
        for (_, file) in std::mem::take(&mut self.open) {
            let since = self.cluster.millis();
            let closed = self.call(instance, client.release(file.id())).await;
            if let Err(failure) = closed {
                self.require_excuse("close before a pause", &failure, since, true);
            }
        }
    }

    async fn act(&mut self, instance: ClientInstance<'_>) {
        match self.random.below(100) {
            0..32 => self.change_names(instance).await,
            32..40 => self.observe_shared_names(instance).await,
            40..44 => self.sync_names(instance).await,
            44..58 => self.write_block(instance).await,
            58..68 => self.read_block(instance).await,
            68..72 => self.sync_file(instance).await,
            72..77 => self.append(instance).await,
            77..80 => self.read_log(instance).await,
            80..89 => self.use_finished_file(instance).await,
            _ => self.observe(instance).await,
        }
    }

    /// Reads everything after the last fault and compares it.
    async fn check_all(&mut self, instance: ClientInstance<'_>) {
        self.list(instance).await;
        self.read_log(instance).await;
        let files = self.cluster.shared_state.lock().files.len();
        for file in 0..files {
            for block_index in WRITTEN_BLOCKS {
                self.read_one_block(instance, file, block_index).await;
            }
        }
        for number in 0..self.others.len() {
            self.observe_program(instance, number).await;
        }
    }

    fn notice_new_session(&mut self, instance: ClientInstance<'_>) {
        let session = instance.client.session();
        let opens_direct = self.cluster.open_flags().direct;
        let is_known = instance.number == self.instance_number && session == self.session;
        if is_known && opens_direct == self.opens_direct {
            return;
        }
        self.opens_direct = opens_direct;
        let is_same_instance = instance.number == self.instance_number;
        for (_, file) in std::mem::take(&mut self.open) {
            if is_same_instance {
                self.cluster
                    .close_in_background(self.host_number, instance, &file);
            }
        }
        (self.instance_number, self.session) = (instance.number, session);
        if !is_known {
            self.last_change = None;
        }
    }

    async fn call<T>(
        &self,
        instance: ClientInstance<'_>,
        call: impl Future<Output = Result<T, gupfs_proto::FsError>>,
    ) -> Result<T, Failure> {
        self.cluster.client_hosts[self.host_number]
            .run(instance.number, call)
            .await
    }

    /// # Panics
    /// When no fault excuses the failure.
    fn require_excuse(&self, what: &str, failure: &Failure, since: u64, late: bool) {
        self.record(format_args!("{what}: {failure:?}"));
        let host_and_session = (self.host_number, self.session);
        let excused = self
            .cluster
            .is_excused(failure, host_and_session, since, late);
        assert!(
            excused,
            "c{} {what}: {failure:?}, which no fault explains",
            self.host_number
        );
    }

    fn record(&self, what: impl std::fmt::Display) {
        self.cluster.record(format_args!(
            "c{} shared directory: {what}",
            self.host_number
        ));
    }

    /// The possible states, which all programs share.
    fn shared_state(&self) -> parking_lot::MutexGuard<'_, SharedState> {
        self.cluster.shared_state.lock()
    }
}
