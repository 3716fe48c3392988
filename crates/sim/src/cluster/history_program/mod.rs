//! # history_program: programs whose calls on two shared files form a history that is checked
//!
//! Owns   the programs that make the calls; when a history ends (`call_history` has the requests and replies).
//! Never  decides the result of a call: the checker of `gupfs verify` says whether the history is possible.
//! Enter  at `HistoryProgram::work` (a program).
//!
//! A power loss may undo unsynced changes, and the checker does not know of power losses. So a power loss ends the history, and
//! the next history has new files. A power loss of the metadata server while all clients live undoes no answered change; it
//! ends the history only if a client may be absent, or a client has seen a change without a reply.

mod act;

use super::call_arguments::{caller, create_mode, no_flags, read_write};
use super::call_history::Files;
use super::client_host::{ClientInstance, Failure};
use super::fault_record::PowerLosses;
use super::simulated_cluster::SimulatedCluster;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::meta::{SetAttr, SetTime};
use gupfs_proto::{InodeId, Name, SessionId, Timestamp};
use gupfs_verify::check::ATTRIBUTES;
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two calls, in microseconds.
const PAUSE_MAX: u64 = 400_000;

/// A program that calls operations on the two files.
pub struct HistoryProgram {
    cluster: Arc<SimulatedCluster>,
    host_number: usize,
    random: FakeRandom,
    open: Option<Arc<OpenFile>>,
    instance_number: u64,
    session: SessionId,
}

impl HistoryProgram {
    pub fn new(
        cluster: &Arc<SimulatedCluster>,
        host_number: usize,
        random: FakeRandom,
    ) -> HistoryProgram {
        HistoryProgram {
            cluster: cluster.clone(),
            host_number,
            random,
            open: None,
            instance_number: 0,
            session: SessionId(0),
        }
    }

    /// Runs until the simulation ends.
    ///
    /// # Panics
    /// When a promise is broken.
    pub async fn work(&mut self) {
        let client_host = self.cluster.client_hosts[self.host_number].clone();
        while !self.cluster.is_over() {
            let pause = Duration::from_micros(self.random.below(PAUSE_MAX));
            self.cluster.sleep(pause).await;
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
            let files = self.cluster.call_history.lock().files;
            match files {
                Some(files) if self.files_are_intact(files) => {
                    self.act(instance, files).await;
                }
                _ => self.begin(instance).await,
            }
        }
        if let Some(file) = self.open.take() {
            let (instance_number, client) = client_host.wait_for_client().await;
            let _ = client_host
                .run(instance_number, client.release(file.id()))
                .await; // the file may be stale
        }
    }

    /// Closes the file of the current session.
    async fn close_for_pause(&mut self) {
        let client_host = self.cluster.client_hosts[self.host_number].clone();
        let (instance_number, client) = client_host.wait_for_client().await;
        let instance = ClientInstance {
            client: &client,
            number: instance_number,
        };
        self.notice_new_session(instance);
        if let Some(file) = self.open.take() {
            let since = self.cluster.millis();
            let closed = self.call(instance, client.release(file.id())).await;
            if let Err(failure) = closed {
                self.require_excuse("close before a pause", &failure, since);
            }
        }
    }

    /// Whether no power loss can have undone the files.
    fn files_are_intact(&self, files: Files) -> bool {
        self.cluster
            .fault_record
            .power_losses()
            .undo_nothing_since(files.power_losses)
    }

    /// Notices a new instance or session of the client. Files opened in an earlier one are stale.
    fn notice_new_session(&mut self, instance: ClientInstance<'_>) {
        let session = instance.client.session();
        if instance.number == self.instance_number && session == self.session {
            return;
        }
        if instance.number == self.instance_number {
            self.close_open_file(instance);
        }
        self.open = None;
        (self.instance_number, self.session) = (instance.number, session);
    }

    /// Closes the open file in the background.
    fn close_open_file(&mut self, instance: ClientInstance<'_>) {
        if let Some(file) = self.open.take() {
            self.cluster
                .close_in_background(self.host_number, instance, &file);
        }
    }

    /// Begins a new history, unless another program does.
    async fn begin(&mut self, instance: ClientInstance<'_>) {
        self.close_open_file(instance);
        let cluster = self.cluster.clone();
        let power_losses = cluster.fault_record.power_losses();
        {
            let mut history = cluster.call_history.lock();
            if history.is_creating {
                return;
            }
            history.check(cluster.client_hosts.len(), &cluster.monitor);
            history.is_creating = true;
            history.files = None;
        }
        let since = cluster.millis();
        let created = self.create_files(instance, power_losses).await;
        let mut history = cluster.call_history.lock();
        history.is_creating = false;
        match created {
            // A power loss may have undone the files.
            _ if !cluster
                .fault_record
                .power_losses()
                .undo_nothing_since(power_losses) => {}
            Ok(files) => history.files = Some(files),
            Err(failure) => {
                drop(history);
                self.require_excuse("creation of the files", &failure, since);
            }
        }
    }

    async fn create_files(
        &self,
        instance: ClientInstance<'_>,
        power_losses: PowerLosses,
    ) -> Result<Files, Failure> {
        let mut created = Vec::new();
        for what in ["bytes", "attrs"] {
            let name = format!("{what}{}", self.cluster.event_number());
            let name = Name::new(name.as_bytes()).expect("a short name");
            let (caller, root) = (caller(), instance.client.root());
            let file = instance.client.create(
                &caller,
                root,
                &name,
                create_mode(),
                true,
                read_write(),
                no_flags(),
            );
            let file = self.call(instance, file).await?.file;
            created.push(file.ino());
            self.call(instance, instance.client.release(file.id()))
                .await?;
        }
        let (mode, seconds) = ATTRIBUTES;
        self.set_attributes(instance, created[1], mode_of(mode))
            .await?;
        self.set_attributes(instance, created[1], time_of(seconds))
            .await?;
        Ok(Files {
            bytes: created[0],
            attrs: created[1],
            power_losses,
        })
    }

    async fn set_attributes(
        &self,
        instance: ClientInstance<'_>,
        ino: InodeId,
        set: SetAttr,
    ) -> Result<(), Failure> {
        let caller = caller();
        self.call(instance, instance.client.setattr(&caller, ino, set))
            .await?;
        Ok(())
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
    fn require_excuse(&self, what: &str, failure: &Failure, since: u64) {
        let host_number = self.host_number;
        self.cluster.record(format_args!(
            "c{host_number} call history: {what}: {failure:?}"
        ));
        let host_and_session = (host_number, self.session);
        let excused = self
            .cluster
            .is_excused(failure, host_and_session, since, false);
        assert!(
            excused,
            "c{host_number} {what}: {failure:?}, which no fault explains"
        );
    }
}

fn mode_of(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    }
}

fn time_of(seconds: u64) -> SetAttr {
    SetAttr {
        mtime: Some(SetTime::To(Timestamp::new(seconds as i64, 0))),
        ..SetAttr::default()
    }
}
