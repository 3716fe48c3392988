//! # node: servers, client and mount in one process
//!
//! Owns   the order in which stores, servers, client and mount are started and stopped; the events that end the process.
//! Never  takes part in an operation.
//! Enter  at `Node::start`, then `Node::serve_until_stopped`, for all roles in one process; `daemon` composes processes with a single
//!        role from the same parts.

mod cluster_handler;
mod control_service;
mod failure;
mod layout;
mod metrics_source;
mod mounted;
mod parts;
mod roles;
mod standby;
mod status;
mod stop_events;
mod unmount;
mod watchdog;

pub use cluster_handler::ClusterHandler;
pub use control_service::ControlService;
pub use failure::wait_for_store_failure;
pub use layout::LayoutView;
pub use mounted::{ActiveMount, MountSettings, kernel_verdict, probe_kernel};
pub use parts::Parts;
pub use roles::client_options;
pub use standby::Standby;
pub use status::{Offline, StatusReply, show_copies, show_rebalance, show_resync};
pub use stop_events::{StopEvents, StopRequest};
pub use watchdog::WATCHDOG_COMMAND;

use crate::amount::show_time;
use crate::cluster::{
    BoundListener, KeyListFile, disconnect_revoked_keys, identity, listen, read_tls,
};
use crate::config::Config;
use crate::control::{self, ControlServer};
use crate::events::print_event;
use crate::exit::{CliError, CliResult};
use crate::metrics::{self, Calls};
use crate::store_dir::LockedStore;
use crate::stores::DescriptorBudget;
use gupfs_mds::{Mds, MetaHandler};
use gupfs_platform::{BootTime, Platform, Task};
use gupfs_rpc::{AuthKey, Capacity, Handlers, ProcessIdentity, Role};
use roles::Roles;
use std::path::PathBuf;
use std::sync::Arc;

/// The settings of `gupfs up`, from the command line and the configuration.
pub struct Settings {
    pub point: PathBuf,
    pub config: Config,
    /// The address at which other hosts can mount the file system; None: they cannot.
    pub listen: Option<String>,
    pub accept_loss: bool,
    /// Print events as JSON objects instead of sentences.
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
    /// `began` is the start of the command: the event `ready` tells how long it took. None if a signal ended the process before the
    /// mount.
    ///
    /// # Errors
    /// If a store cannot be opened, the kernel is refused, the file system cannot be mounted, or an address cannot be bound.
    pub async fn start(
        mut store: LockedStore,
        settings: Settings,
        platform: &Platform,
        began: BootTime,
    ) -> CliResult<Option<Node>> {
        // First, so that a signal from now on leads to an orderly stop.
        let (mut stop_events, stop_sender) = StopEvents::listen()?;
        let probe = probe_kernel(&settings.config.mount, settings.listen.is_some());
        let calls = Arc::new(Calls::default());
        let reserved = ReservedAddress::bind(&store, &settings, platform).await?;
        let (roles, reserved) =
            Roles::start(&mut store, &settings, platform, calls.clone(), reserved).await?;
        print_loss(&roles.mds, settings.json);
        let roles = Arc::new(roles);
        let parts = Arc::new(parts(&store, &roles, calls, platform, began));
        if let Some(reserved) = reserved {
            let budget = DescriptorBudget::of_this_process(store.marker.osts().count())?;
            reserved.serve(&store, &settings, &roles, &parts, budget.capacity);
        }
        let mount_settings = MountSettings {
            source: parts.name.clone(),
            point: &settings.point,
            config: &settings.config.mount,
            shared: settings.listen.is_some(),
            // All servers are in this process.
            call_deadlines: None,
            json: settings.json,
        };
        let verdict = async {
            roles.mds.wait_for_surveyed().await;
            kernel_verdict(probe, platform).await
        };
        let verdict = tokio::select! {
            verdict = verdict => verdict,
            why = stop_events.wait() => {
                print_event(settings.json, "stopping", &why);
                roles.stop().await;
                let _ = std::fs::remove_file(store.dir.pid());
                print_event(settings.json, "stopped", "stopped before the file system was mounted");
                return Ok(None);
            }
        };
        let mounted = async {
            let client = &roles.client;
            ActiveMount::start(mount_settings, verdict?, platform, client, stop_events).await
        };
        let mounted = match mounted.await {
            Ok(mounted) => mounted,
            Err(error) => {
                roles.stop().await;
                return Err(error);
            }
        };
        let _ = parts.mount.set(mounted.mount().clone());
        let control_service = Arc::new(ControlService {
            parts: parts.clone(),
            stop: stop_sender,
        });
        let control = control::serve(&store.dir.run(), &platform.tasks, control_service)?;
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

    /// Serves until a signal, `gupfs stop`, or an unmount by another program; then stops all roles in order.
    ///
    /// # Errors
    /// If the mount was aborted, a role did not stop cleanly, or the stores failed.
    pub async fn serve_until_stopped(mut self) -> CliResult<()> {
        let (mds, oss) = (self.roles.mds.clone(), self.roles.oss.clone());
        let ended = tokio::select! {
            ended = self.mounted.wait_for_unmount() => ended,
            error = wait_for_store_failure(Some(&mds), Some(&oss), &self.platform.clock) => {
                return Err(self.end_after_failure(error).await);
            }
        };
        print_stopping(self.json, &ended);
        self.mounted.finish().await;
        if let Some(metrics) = &self.metrics {
            metrics.stop();
        }
        if let Some(mds) = self.parts.mds.get() {
            mds.revoke_all_leases().await;
        }
        if let Some(server) = self.parts.server.get() {
            server.stop();
        }
        let clean = self.roles.stop().await;
        let _ = std::fs::remove_file(self.store.dir.pid());
        if !clean {
            return Err(CliError::new(format!(
                "'{}' is unmounted, but its servers did not stop cleanly; the log has the errors",
                self.store.dir.root().display()
            ))
            .todo("the next start recovers it; `gupfs check` looks for damage"));
        }
        ended?;
        print_event(self.json, "stopped", "stopped; all data is kept");
        Ok(())
    }

    /// Unmounts after the stores have failed. An orderly stop of the roles would save nothing.
    async fn end_after_failure(mut self, error: CliError) -> CliError {
        tracing::error!(%error, "stopping this process");
        self.mounted.detach_mount().await;
        if let Some(server) = self.parts.server.get() {
            server.stop();
        }
        let _ = std::fs::remove_file(self.store.dir.pid());
        error
    }

    async fn print_ready(&self, began: BootTime) {
        let took = show_time(self.platform.clock.boot().since(began));
        let (osts, down) = self.roles.counted_targets().await;
        let down = match down {
            0 => String::new(),
            n => format!(" ({n} down: see `gupfs status`)"),
        };
        let remote = match self.parts.server.get() {
            Some(server) => format!(", other hosts mount it from {}", server.address()),
            None => String::new(),
        };
        let text = format!(
            "mounted at {}, {osts} OSTs{down}, ready in {took}{remote}; Ctrl-C to stop",
            self.mounted.mount().at().display()
        );
        print_event(self.json, "ready", &text);
    }
}

fn parts(
    store: &LockedStore,
    roles: &Roles,
    calls: Arc<Calls>,
    platform: &Platform,
    began: BootTime,
) -> Parts {
    let name = store.dir.root().display().to_string();
    let mut parts = Parts::new(name, store.marker.cluster(), platform, began);
    parts.store_dir = Some(store.dir.clone());
    let _ = parts.mds.set(roles.mds.clone());
    parts.oss = Some(roles.oss.clone());
    parts.client = Some(roles.client.clone());
    parts.calls = calls;
    parts.oss_connections.extend(roles.oss_connections.clone());
    parts
}

/// Prints the event `stopping` with what `ActiveMount::wait_for_unmount` returned; an error is printed in full at the end of the process.
pub fn print_stopping(json: bool, ended: &CliResult<String>) {
    let why = match ended {
        Ok(why) => why,
        Err(_) => "the mount was aborted; stopping",
    };
    print_event(json, "stopping", why);
}

/// Prints the event `loss` if this start continues with an older copy of the metadata.
pub fn print_loss(mds: &Mds, json: bool) {
    if let Some(loss) = &mds.recovery().loss {
        print_event(
            json,
            "loss",
            &format!("the metadata server continues with an older copy of the metadata: {loss}"),
        );
    }
}

/// The address for other hosts: bound before any role starts, served when all have started.
struct ReservedAddress {
    identity: ProcessIdentity,
    listener: BoundListener,
}

impl ReservedAddress {
    async fn bind(
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
        let listener = listen(&identity, address).await?;
        Ok(Some(ReservedAddress { identity, listener }))
    }

    fn serve(
        self,
        store: &LockedStore,
        settings: &Settings,
        roles: &Roles,
        parts: &Arc<Parts>,
        capacity: Capacity,
    ) {
        let local = self.identity.local_identity(Role::Mds, &parts.name);
        let squash = settings.config.cluster.root_squash.unwrap_or(true);
        let meta = MetaHandler::new(roles.mds.clone(), squash);
        let handlers = Handlers::none()
            .with_peer_handler(meta.clone())
            .with_peer_handler(gupfs_oss::DataHandler::new(
                &roles.oss,
                &self.identity.platform.clock,
            ))
            .with_service(ClusterHandler::new(parts));
        let (platform, keys) = (
            &self.identity.platform,
            Arc::new(KeyListFile::of(&store.dir)),
        );
        let revocation = disconnect_revoked_keys(
            platform.clone(),
            parts.connected_peers(),
            meta.clone(),
            keys.clone(),
        );
        platform.tasks.spawn("revoked keys", revocation);
        let cluster = store.marker.cluster();
        let server = (self.listener).serve(
            &self.identity,
            local,
            cluster,
            keys,
            (handlers, meta),
            capacity,
        );
        let _ = parts.server.set(server);
    }
}
