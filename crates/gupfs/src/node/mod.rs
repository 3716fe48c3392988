//! # node: roles in one process
//!
//! Owns   the order in which stores, servers, client and mount are started and stopped; what ends the process.
//! Never  takes part in an operation.
//! Enter  at `Node::start`, then `Node::serve_until_told`, for all roles with a store's directory; `daemon` composes single ones
//!        from the same parts.

mod control_service;
mod failure;
mod layout;
mod metrics_source;
mod mounted;
mod parts;
mod roles;
mod status;
mod stop_events;
mod unmount;
mod watchdog;

pub use control_service::ControlService;
pub use failure::nothing_left_to_serve;
pub use layout::LayoutView;
pub use mounted::{ActiveMount, MountSettings, judge_kernel, try_kernel};
pub use parts::Parts;
pub use roles::client_options;
pub use status::{Audience, Offline, StatusReply};
pub use stop_events::{StopEvents, StopRequest};
pub use watchdog::WATCHDOG_COMMAND;

use crate::amount::show_time;
use crate::cluster::{
    BoundListener, ClusterHandler, KeyListFile, MetaHandler, ProcessIdentity, identity, listen,
    read_tls, watch_revoked,
};
use crate::config::Config;
use crate::control::{self, ControlServer};
use crate::events::print_event;
use crate::exit::{CliError, CliResult};
use crate::metrics::{self, Calls};
use crate::store_dir::LockedStore;
use crate::stores::DescriptorBudget;
use gupfs_mds::Mds;
use gupfs_platform::{BootTime, Platform, Task};
use gupfs_proto::cluster;
use gupfs_rpc::{AuthKey, Capacity, Handlers, Role};
use roles::Roles;
use std::path::PathBuf;
use std::sync::Arc;

/// What the command line and the configuration say together.
pub struct Settings {
    pub point: PathBuf,
    pub config: Config,
    /// Others may mount it too, from this address.
    pub listen: Option<String>,
    pub accept_loss: bool,
    /// Events as JSON lines instead of sentences.
    pub json: bool,
}

/// A process that serves a store and mounts it.
pub struct Node {
    store: LockedStore,
    json: bool,
    platform: Platform,
    roles: Arc<Roles>,
    parts: Arc<Parts>,
    mounted: ActiveMount,
    _control: ControlServer,
    metrics: Option<Task<()>>,
}

impl Node {
    /// `began` is when the command was given: the ready line tells how long it took. None if a signal ended it before it was mounted.
    pub async fn start(
        mut store: LockedStore,
        settings: Settings,
        platform: &Platform,
        began: BootTime,
    ) -> CliResult<Option<Node>> {
        // Before anything is started: a signal from here on ends us cleanly.
        let (mut told, ask_stop) = StopEvents::listen()?;
        let trial = try_kernel(&settings.config.mount);
        let calls = Arc::new(Calls::default());
        let door = ReservedAddress::take(&store, &settings, platform).await?;
        let (roles, door) =
            Roles::start(&mut store, &settings, platform, calls.clone(), door).await?;
        print_loss(&roles.mds, settings.json);
        let roles = Arc::new(roles);
        let mut parts = Parts::new(
            store.dir.root().display().to_string(),
            store.marker.cluster(),
            platform,
            began,
        );
        parts.store_dir = Some(store.dir.clone());
        parts.mds = Some(roles.mds.clone());
        parts.oss = Some(roles.oss.clone());
        parts.client = Some(roles.client.clone());
        parts.calls = calls;
        parts.lines.extend(roles.lines.clone());
        let parts = Arc::new(parts);
        if let Some(door) = door {
            let share = DescriptorBudget::of_this_process(store.marker.osts().count())?;
            door.open(&store, &settings, &roles, &parts, share.capacity);
        }
        let wish = MountSettings {
            source: parts.name.clone(),
            point: &settings.point,
            config: &settings.config.mount,
            shared: settings.listen.is_some(),
            // What it waits for is in this process.
            in_time: None,
            json: settings.json,
        };
        let judging = async {
            roles.mds.wait_for_surveyed().await;
            judge_kernel(trial, platform).await
        };
        let judged = tokio::select! {
            judged = judging => judged,
            why = told.wait() => {
                print_event(settings.json, "stopping", &why);
                roles.stop().await;
                let _ = std::fs::remove_file(store.dir.pid());
                print_event(settings.json, "stopped", "stopped before anything was mounted");
                return Ok(None);
            }
        };
        let mounted = match judged {
            Ok(judgement) => {
                ActiveMount::start(wish, judgement, platform, &roles.client, told).await
            }
            Err(error) => Err(error),
        };
        let mounted = match mounted {
            Ok(mounted) => mounted,
            Err(error) => {
                roles.stop().await;
                return Err(error);
            }
        };
        let _ = parts.mount.set(mounted.mount().clone());
        let answers = Arc::new(ControlService {
            parts: parts.clone(),
            stop: ask_stop,
        });
        let control = control::serve(&store.dir.run(), &platform.tasks, answers)?;
        let metrics = match settings.config.metrics.listen {
            Some(listen) => Some(metrics::start(listen, platform, parts.clone()).await?),
            None => None,
        };
        let node = Node {
            store,
            json: settings.json,
            platform: platform.clone(),
            roles,
            parts,
            mounted,
            _control: control,
            metrics,
        };
        node.print_ready(began).await;
        Ok(Some(node))
    }

    /// Until a signal, `gupfs stop`, or an unmount from outside; then everything is stopped in order.
    pub async fn serve_until_stopped(mut self) -> CliResult<()> {
        let (mds, oss) = (self.roles.mds.clone(), self.roles.oss.clone());
        let why = tokio::select! {
            why = self.mounted.wait_for_unmount() => why,
            error = nothing_left_to_serve(Some(&mds), Some(&oss), &self.platform.clock) => {
                return Err(self.end_without_a_store(error).await);
            }
        };
        print_event(self.json, "stopping", &why);
        self.mounted.finish().await;
        if let Some(metrics) = &self.metrics {
            metrics.stop();
        }
        if let Some(server) = self.parts.server.get() {
            server.stop();
        }
        let clean = self.roles.stop().await;
        let _ = std::fs::remove_file(self.store.dir.pid());
        if !clean {
            return Err(CliError::new(format!(
                "'{}' is unmounted, but did not stop cleanly; the log says what failed",
                self.store.dir.root().display()
            ))
            .todo("the next start recovers; `gupfs check` looks for damage"));
        }
        print_event(self.json, "stopped", "stopped; everything is kept");
        Ok(())
    }

    /// Takes the mount out of the tree. Nothing is stopped in order: there is nothing that could be kept by that.
    async fn end_without_a_store(mut self, error: CliError) -> CliError {
        tracing::error!(%error, "ending");
        self.mounted.detach_mount().await;
        if let Some(server) = self.parts.server.get() {
            server.stop();
        }
        let _ = std::fs::remove_file(self.store.dir.pid());
        error
    }

    async fn print_ready(&self, began: BootTime) {
        let took = show_time(self.platform.clock.boot().since(began));
        let osts = self.store.marker.osts().len();
        let down = match self.roles.down().await {
            0 => String::new(),
            n => format!(" ({n} down: see `gupfs status`)"),
        };
        let open = match self.parts.server.get() {
            Some(server) => format!(", others mount it from {}", server.address()),
            None => String::new(),
        };
        let text = format!(
            "mounted at {}, {osts} OSTs{down}, ready in {took}{open}; Ctrl-C to stop",
            self.mounted.mount().at().display()
        );
        print_event(self.json, "ready", &text);
    }
}

/// That this start goes on with an older copy of the metadata, if it does.
pub fn print_loss(mds: &Mds, json: bool) {
    if let Some(loss) = &mds.recovery().loss {
        print_event(
            json,
            "loss",
            &format!("an older copy of the metadata goes on: {loss}"),
        );
    }
}

/// The address at which others find this store: taken before anything is started, opened when all is there.
struct ReservedAddress {
    identity: ProcessIdentity,
    listening: BoundListener,
}

impl ReservedAddress {
    async fn take(
        store: &LockedStore,
        settings: &Settings,
        platform: &Platform,
    ) -> CliResult<Option<ReservedAddress>> {
        let Some(address) = &settings.listen else {
            return Ok(None);
        };
        let key = crate::cluster::read_cluster_key(Some(&store.dir.key()))?;
        let identity = identity(
            platform,
            key.map(AuthKey::from),
            read_tls(&settings.config.cluster)?,
        );
        let listening = listen(&identity, address).await?;
        Ok(Some(ReservedAddress {
            identity,
            listening,
        }))
    }

    fn open(
        self,
        store: &LockedStore,
        settings: &Settings,
        roles: &Roles,
        parts: &Arc<Parts>,
        capacity: Capacity,
    ) {
        let me = self.identity.local_identity(Role::Mds, &parts.name);
        let squash = settings.config.cluster.root_squash.unwrap_or(true);
        let meta = MetaHandler::new(roles.mds.clone(), squash);
        let hosts = Handlers::none()
            .with_peer_handler(meta.clone())
            .with_peer_handler(gupfs_oss::DataHandler::new(
                &roles.oss,
                &self.identity.platform.clock,
            ))
            .with_service(cluster_handler(parts));
        let (platform, keys) = (
            &self.identity.platform,
            Arc::new(KeyListFile::of(&store.dir)),
        );
        let revoking = watch_revoked(
            platform.clone(),
            parts.callers(),
            meta.clone(),
            keys.clone(),
        );
        platform.tasks.spawn("revoked keys", revoking);
        let cluster = store.marker.cluster();
        let server =
            (self.listening).open(&self.identity, me, cluster, keys, (hosts, meta), capacity);
        let _ = parts.server.set(server);
    }
}

/// Questions about the cluster, answered from what runs here.
pub fn cluster_handler(parts: &Arc<Parts>) -> Arc<ClusterHandler> {
    let weak = Arc::downgrade(parts);
    Arc::new(ClusterHandler {
        mds: parts.mds.clone(),
        status: Box::new(move || {
            let parts = weak.upgrade();
            Box::pin(async move {
                let Some(parts) = parts else {
                    return Err(gupfs_proto::FsError::Interrupted);
                };
                let answer = status::of(&parts, Audience::Others).await;
                Ok(cluster::ClusterReplyBody::Status {
                    text: answer.text,
                    json: answer.status.to_string(),
                })
            })
        }),
    })
}
