//! # private_dir: a program with a directory that only it changes
//!
//! Owns   the exact expected state after each of its calls; the states that a crash may leave; the state that other programs
//!        may see.
//! Never  accepts an error that no fault excuses.
//! Enter  at `PrivateDirProgram::work`; other programs compare with `PublishedState`.

mod act;
mod data_calls;
mod name_calls;
mod name_states;
mod read_calls;
mod recheck;
mod sync_calls;
mod timed_states;

use super::client_host::{ClientInstance, Failure};
use super::fault_record::PowerLosses;
use super::simulated_cluster::SimulatedCluster;
use crate::process::file_content::FileContent;
use gupfs_client::OpenFile;
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::{InodeId, SessionId};
pub use name_states::NameTree;
use name_states::{NameChange, NameStates};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use timed_states::TimedStates;

/// Files stay short, so that a recheck reads many of them.
const FILE_SIZE_MAX: u64 = 400_000;

/// Directory, and number of the name in it.
type NameInDir = (InodeId, u8);

/// Longest pause between two calls, in microseconds.
const PAUSE_MAX: u64 = 500_000;

/// The state of a program's directory, for comparisons by other programs.
pub struct PublishedState {
    pub dir: InodeId,
    pub names: TimedStates<NameTree>,
    pub bytes: BTreeMap<InodeId, TimedStates<Arc<Vec<u8>>>>,
    /// Files that another program synced, with their bytes during the sync. The owning program takes them from here.
    pub synced: Vec<(InodeId, Arc<Vec<u8>>)>,
    /// A change has no reply or may be lost, so other programs cannot compare.
    pub is_uncertain: bool,
    /// Until this millisecond a change of names of a former instance may still be made.
    pub late_change_until: u64,
    /// Number of rechecks of the owning program.
    pub rechecks: u64,
    /// The session of its client at the last recheck.
    pub session: SessionId,
    /// The power losses before the last recheck.
    pub power_losses: PowerLosses,
}

pub struct PrivateDirProgram {
    cluster: Arc<SimulatedCluster>,
    host_number: usize,
    dir: InodeId,
    random: FakeRandom,
    names: NameStates,
    contents: BTreeMap<InodeId, FileContent>,
    open: BTreeMap<InodeId, Arc<OpenFile>>,
    /// The client instance and session in which the files were opened.
    instance_number: u64,
    session: SessionId,
    /// The power losses before the last recheck.
    power_losses: PowerLosses,
    must_recheck: bool,
    /// The client has another instance or session than at the last recheck: it does not replay the unsynced changes of the
    /// former one.
    has_new_session: bool,
    /// A change of the former session was made during a recheck, which was repeated.
    has_repeated_recheck: bool,
    /// A change of names that a former instance has sent, which was not made when this one looked, and until which millisecond it may still be
    /// made: the server knows of no end of that client, and may have to wait for others before it makes the change.
    late_change: Option<(u64, NameChange)>,
    /// Files that another program synced since this one last did; the client of this program does not know of those syncs.
    synced_by_others: BTreeSet<InodeId>,
    /// Since the last recheck this session has lost its write leases, and an object server has lost power at some time.
    lost_leases: bool,
    published: Arc<Mutex<PublishedState>>,
}

impl PrivateDirProgram {
    pub fn new(
        cluster: &Arc<SimulatedCluster>,
        host_number: usize,
        dir: InodeId,
        random: FakeRandom,
    ) -> PrivateDirProgram {
        let published = PublishedState {
            dir,
            names: TimedStates::since(0, NameTree::new()),
            bytes: BTreeMap::new(),
            synced: Vec::new(),
            is_uncertain: false,
            late_change_until: 0,
            rechecks: 0,
            session: SessionId(0),
            power_losses: cluster.fault_record.power_losses(),
        };
        PrivateDirProgram {
            cluster: cluster.clone(),
            host_number,
            dir,
            random,
            names: NameStates::new(),
            contents: BTreeMap::new(),
            open: BTreeMap::new(),
            instance_number: 0,
            session: SessionId(0),
            power_losses: cluster.fault_record.power_losses(),
            must_recheck: false,
            has_new_session: false,
            has_repeated_recheck: false,
            late_change: None,
            synced_by_others: BTreeSet::new(),
            lost_leases: false,
            published: Arc::new(Mutex::new(published)),
        }
    }

    pub fn published(&self) -> Arc<Mutex<PublishedState>> {
        self.published.clone()
    }

    /// Runs until the simulation ends; then does a last recheck.
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
            self.notice_syncs();
            self.notice_new_session(&instance);
            if self.must_recheck
                && !(self.random.one_in(3) && self.fsync_before_recheck(&instance).await)
            {
                self.recheck(&instance).await;
                continue;
            }
            self.act(&instance).await;
        }
        self.must_recheck = true;
        while self.must_recheck {
            self.notice_syncs();
            let (instance_number, client) = client_host.wait_for_client().await;
            let instance = ClientInstance {
                client: &client,
                number: instance_number,
            };
            self.notice_new_session(&instance);
            self.recheck(&instance).await;
        }
        self.close_all().await;
    }

    /// Notices a new client instance or session, in which the files opened before are stale, and power losses. After either,
    /// the program must recheck.
    fn notice_new_session(&mut self, instance: &ClientInstance<'_>) {
        let power_losses = self.cluster.fault_record.power_losses();
        if instance.number != self.instance_number || instance.client.session() != self.session {
            let is_new_instance = instance.number != self.instance_number;
            self.open.retain(|_, file| {
                if !is_new_instance {
                    self.cluster
                        .close_in_background(self.host_number, *instance, file);
                }
                false
            });
            self.record(format_args!(
                "goes on in instance {}, session {}",
                instance.number,
                instance.client.session()
            ));
            self.instance_number = instance.number;
            self.session = instance.client.session();
            self.lost_leases = power_losses.objects > 0;
            self.has_new_session = true;
            self.must_recheck = true;
        }
        if power_losses != self.power_losses {
            self.must_recheck = true;
        }
        if self.must_recheck {
            self.published.lock().is_uncertain = true;
        }
    }

    /// Whether a former instance's change, which may be made yet, takes away a name of this inode.
    fn may_be_removed_late(&self, ino: InodeId) -> bool {
        self.late_change.as_ref().is_some_and(|(_, change)| {
            change.iter().any(|(key, entry)| {
                let now = self.names.now().get(key);
                entry.is_none_or(|entry| entry.ino != ino) && now.is_some_and(|it| it.ino == ino)
            })
        })
    }

    /// A former instance's change may have been made only now: then the next recheck finds it or not. False if there is none.
    fn expect_late_change(&mut self) -> bool {
        self.may_be_made_late() && self.found_late_change()
    }

    fn may_be_made_late(&self) -> bool {
        let now = self.cluster.millis();
        let late_change = self.late_change.as_ref();
        late_change.is_some_and(|(until, _)| now <= *until)
    }

    /// As `expect_late_change`, for a look at all names after a time without one: the change may have been made long ago.
    fn found_late_change(&mut self) -> bool {
        let Some(change) = self.take_late_change() else {
            return false;
        };
        self.names.mark_late(self.cluster.millis(), &change);
        self.must_recheck = true;
        self.published.lock().is_uncertain = true;
        true
    }

    /// A former instance's change, at most once.
    fn take_late_change(&mut self) -> Option<NameChange> {
        let (_, change) = self.late_change.take()?;
        let what = "change of a dead client that was made late";
        self.cluster.monitor.count(what);
        Some(change)
    }

    /// Notices that other programs synced its files: their bytes are durable.
    fn notice_syncs(&mut self) {
        let synced = std::mem::take(&mut self.published.lock().synced);
        for (ino, bytes) in synced {
            if let Some(known) = self.contents.get_mut(&ino)
                && known.bytes() == bytes.as_slice()
            {
                self.cluster
                    .monitor
                    .count("fsync of another program's bytes");
                known.synced_if_answered();
                self.synced_by_others.insert(ino);
            }
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
        self.notice_new_session(&instance);
        while !self.open.is_empty() {
            self.close(&instance).await;
        }
    }

    async fn close_all(&mut self) {
        let client_host = self.cluster.client_hosts[self.host_number].clone();
        let (instance_number, client) = client_host.wait_for_client().await;
        for (_, file) in std::mem::take(&mut self.open) {
            let _ = client_host
                .run(instance_number, client.release(file.id()))
                .await;
        }
    }

    /// Returns the result of a call, unless the client's process ends before.
    async fn call<T>(
        &self,
        instance: &ClientInstance<'_>,
        call: impl Future<Output = Result<T, gupfs_proto::FsError>>,
    ) -> Result<T, Failure> {
        self.cluster.client_hosts[self.host_number]
            .run(instance.number, call)
            .await
    }

    /// # Panics
    /// When no fault excuses the failure.
    fn require_excuse(&self, what: &str, failure: &Failure, since: u64, late: bool) {
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

    /// Whether no power loss since can have undone a change with a reply: none of an object server, and none of the metadata
    /// server unless the session has ended. (In a live session the client replays its changes.)
    fn lost_nothing_since(&self, power_losses: PowerLosses) -> bool {
        let now = self.cluster.fault_record.power_losses();
        now.objects == power_losses.objects
            && (now.metadata == power_losses.metadata || self.session_lives())
    }

    /// Whether no reply has said that the session has ended.
    fn session_lives(&self) -> bool {
        self.cluster.monitor.session_end(self.session).is_none()
    }

    fn fail_mismatch(&self, ino: InodeId, what: impl std::fmt::Display) -> ! {
        panic!("c{}: {ino} differs: {what}", self.host_number);
    }

    fn record(&self, what: impl std::fmt::Display) {
        self.cluster.record(format_args!(
            "c{} private directory: {what}",
            self.host_number
        ));
    }
}
