//! `gupfs mds` where the metadata has copies on several hosts: this process has one of them, and owns the metadata when the arbiter says so.

use super::failed_copy::wait_for_space;
use super::mds::{Settings, mds_options};
use super::start_metrics;
use crate::amount::show_time;
use crate::cluster::{
    KeyListFile, MDS_PORT, disconnect_revoked_keys, identity, is_wildcard, listen,
    read_cluster_key, read_tls, with_port,
};
use crate::control;
use crate::events::print_event;
use crate::exit::{CliError, CliResult, Exit};
use crate::node::{
    ClusterHandler, ControlService, Parts, Standby, StopEvents, wait_for_store_failure,
};
use crate::store_dir::LockedStore;
use crate::stores::{CopyDirectory, DescriptorBudget, metadata_store_id, refuse_lost_metadata};
use futures_util::future::BoxFuture;
use gupfs_copies::{CopiesError, CopyOptions, MetadataCopy, OwnedStore, Ownership};
use gupfs_mds::{Mds, MetaHandler, Successor};
use gupfs_platform::{Arbiter, BootTime, Disk, Platform};
use gupfs_proto::copy::{CopyReply, CopyRequest};
use gupfs_proto::{CopyRun, VirtualShards};
use gupfs_rpc::{AuthKey, Handlers, OssConnections, ProcessIdentity, Role, SendDeadline};
use gupfs_store::kv::{Kv, KvOptions};
use gupfs_store::log::{LogError, LogOptions};
use std::sync::Arc;
use std::time::Duration;

/// How long an orderly stop may take: requests finish, the log is synced everywhere, and copies that do not answer are left out.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(20);

/// A deposed owner gives up what it has of its right, so that a copy takes over at once if none has yet. For no longer than this.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// Why the process ends.
pub enum Ended {
    Stopped,
    /// Another host owns the metadata: this process starts again, as a copy.
    Deposed(String),
    /// The copy has failed, or the owner's own log: this process starts again when the disk has space.
    Failed(String),
}

/// The other copies, where this host's disk has only its reserve left.
struct CopySuccessor(Arc<Ownership>);

impl Successor for CopySuccessor {
    fn replace_full_owner(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let moves = self.0.move_to_room().await;
            if moves {
                tracing::warn!(
                    "the disk of this metadata server has only its reserve left: another copy is to own the metadata; free space on it"
                );
            }
            moves
        })
    }
}

/// What the steps of the process share.
struct CopyProcess<'a> {
    settings: &'a Settings,
    platform: &'a Platform,
    identity: ProcessIdentity,
    standby: Arc<Standby>,
    parts: Arc<Parts>,
    oss_connections: Arc<OssConnections>,
}

/// Serves until a stop event, or until another host owns the metadata.
///
/// # Errors
/// If the address cannot be bound, the copy cannot be opened or fails, or the server does not stop cleanly.
pub async fn run(
    mut store: LockedStore,
    settings: Settings,
    arbiter: Arbiter,
    platform: &Platform,
    began: BootTime,
) -> CliResult<Ended> {
    let (mut stop_events, stop_sender) = StopEvents::listen()?;
    let config = &settings.config;
    refuse_unless_possible(&store, &settings)?;
    let key = read_cluster_key(Some(&store.dir.key()))?;
    let send_deadline = SendDeadline::until(platform.clock.clone(), BootTime(0));
    let identity = identity(platform, key.map(AuthKey::from), read_tls(&config.cluster)?);
    let identity = identity.with_send_deadline(send_deadline.clone());
    let default = format!("127.0.0.1:{MDS_PORT}");
    let address = config.cluster.listen.as_deref().unwrap_or(&default);
    let listener = listen(&identity, address).await?;
    let advertised = match &config.mds.advertise {
        Some(address) => with_port(address, MDS_PORT),
        None => listener.address(),
    };
    let name = store.dir.root().display().to_string();
    let local = identity.local_identity(Role::Mds, &name);
    let cluster = store.marker.cluster();
    let may_begin = !store.marker.has_joined();
    let budget = DescriptorBudget::of_this_process(0)?;
    let copy = MetadataCopy::new(CopyOptions {
        platform: platform.clone(),
        identity: identity.clone(),
        local: local.clone(),
        id: store.copy_id(&platform.random)?,
        run: CopyRun(platform.random.u64()),
        address: advertised,
        shards: VirtualShards(store.marker.virtual_shards),
        arbiter,
        files: Arc::new(CopyDirectory::new(&store.dir, budget, platform)),
        kv: KvOptions::new(LogOptions::new(metadata_store_id(&store.marker))),
        send_deadline: send_deadline.clone(),
        may_begin,
    });
    let standby = Standby::new(copy.clone(), platform.clock.clone());
    let oss_connections = OssConnections::new(&identity, local.clone(), cluster, "");
    let mut parts = Parts::new(name, cluster, platform, began);
    parts.store_dir = Some(store.dir.clone());
    parts.oss_connections.push(oss_connections.clone());
    parts.copy = Some(copy.clone());
    let parts = Arc::new(parts);
    let handlers = Handlers::none()
        .with_peer_handler(standby.clone())
        .with_service(ClusterHandler::new(&parts))
        .with_service::<CopyRequest, CopyReply, _>(copy.host().clone());
    let keys = Arc::new(KeyListFile::of(&store.dir));
    let server = listener.serve_admitted(
        &identity,
        (local, cluster, keys),
        (handlers, standby.clone()),
        (standby.clone(), send_deadline),
        budget.capacity,
    );
    let address = server.address().to_string();
    let _ = parts.server.set(server);
    let control_service = Arc::new(ControlService {
        parts: parts.clone(),
        stop: stop_sender,
    });
    let _control = control::serve(&store.dir.run(), &platform.tasks, control_service)?;
    let metrics = start_metrics(config, platform, &parts).await?;
    if store.marker.has_joined() {
        let took = show_time(platform.clock.boot().since(began));
        let text = format!("a copy of the metadata at {address}, ready in {took}; Ctrl-C to stop");
        print_event(settings.json, "copy", &text);
    }
    let process = CopyProcess {
        settings: &settings,
        platform,
        identity,
        standby,
        parts: parts.clone(),
        oss_connections,
    };
    let ended = process
        .run(&mut store, &copy, &mut stop_events, &address)
        .await;
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    let ended = match ended {
        Ok(Ended::Failed(why)) => {
            tracing::error!(why, "this copy of the metadata has failed");
            // As if the process had ended: others must not take it for one that can take over.
            process.stop_serving();
            let output = (platform, settings.json);
            match wait_for_space(&store.dir, &mut stop_events, output).await {
                Ok(None) => Ok(Ended::Failed(why)),
                Ok(Some(_)) => Ok(Ended::Stopped),
                Err(error) => Err(error),
            }
        }
        ended => ended,
    };
    let _ = std::fs::remove_file(store.dir.pid());
    ended
}

/// What is not possible, or not safe, with several copies.
fn refuse_unless_possible(store: &LockedStore, settings: &Settings) -> CliResult<()> {
    if settings.accept_loss {
        return Err(CliError::new(
            "--accept-loss is not possible while the metadata has copies on several hosts",
        )
        .todo("start this server without it: the copies that count have everything")
        .exit(Exit::Unusable));
    }
    let listen = settings
        .config
        .cluster
        .listen
        .as_deref()
        .unwrap_or_default();
    if settings.config.mds.advertise.is_none() && is_wildcard(listen) {
        return Err(CliError::new(format!(
            "other hosts cannot use the address '{listen}'"
        ))
        .todo("name this host's address with --advertise HOST:PORT, or as mds.advertise in the configuration")
        .exit(Exit::Unusable));
    }
    match store.marker.has_joined() {
        true => Ok(()),
        false => refuse_lost_metadata(store),
    }
}

/// An owner whose own log has failed gives its right up, too. The log also closes when the copies obey another owner: then its disk is well.
fn deposed(kv: &Kv, why: String) -> Ended {
    match kv.closed() {
        None | Some(LogError::Copies(_)) => Ended::Deposed(why),
        Some(_) => Ended::Failed(why),
    }
}

impl CopyProcess<'_> {
    async fn run(
        &self,
        store: &mut LockedStore,
        copy: &Arc<MetadataCopy>,
        stop_events: &mut StopEvents,
        address: &str,
    ) -> CliResult<Ended> {
        let dir = store.dir.mds();
        let failed = |error: &(dyn std::error::Error + 'static)| {
            CliError::new(format!(
                "cannot serve the copy of the metadata in '{}'",
                dir.display()
            ))
            .because(error)
        };
        let owned = tokio::select! {
            biased;
            why = stop_events.wait() => {
                print_event(self.settings.json, "stopping", &why);
                self.stop_serving();
                copy.stop().await;
                print_event(self.settings.json, "stopped", "stopped; all data is kept");
                return Ok(Ended::Stopped);
            }
            owned = copy.own() => match owned {
                Ok(owned) => owned,
                // It had taken the register, and another copy took it before this one served.
                Err(CopiesError::Deposed(why)) => return Ok(Ended::Deposed(why)),
                Err(error @ CopiesError::Failed(_)) => {
                    return Ok(Ended::Failed(failed(&error).to_string()));
                }
                Err(error) => return Err(failed(&error)),
            },
        };
        store.mark_joined()?;
        let OwnedStore {
            kv,
            found,
            ownership,
            kept_memory,
        } = owned;
        let ownership = Arc::new(ownership);
        let _ = self.parts.ownership.set(ownership.clone());
        let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
        let mut options = mds_options(
            self.settings,
            store,
            (kv.clone(), found),
            disk,
            self.platform,
        );
        options.dial = Some(self.oss_connections.clone());
        options.key = self.identity.cluster_key();
        options.hands_over = true;
        options.successor = Some(Arc::new(CopySuccessor(ownership.clone())));
        options.kept_memory = kept_memory;
        let mds = tokio::select! {
            biased;
            why = ownership.ended() => return Ok(deposed(&kv, why)),
            mds = Mds::start(options) => match mds {
                Ok(mds) => mds,
                Err(error) if kv.closed().is_some() => {
                    return Ok(Ended::Failed(failed(&error).to_string()));
                }
                Err(error) => return Err(failed(&error)),
            },
        };
        store.finish()?;
        self.serve(store, &mds);
        let ready = format!(
            "metadata served at {address} by owner {}, ready in {}; Ctrl-C to stop",
            ownership.epoch(),
            show_time(self.platform.clock.boot().since(self.parts.started))
        );
        print_event(self.settings.json, "ready", &ready);
        let why = tokio::select! {
            biased;
            why = ownership.ended() => {
                self.release(&ownership).await;
                return Ok(deposed(&kv, why));
            }
            () = ownership.move_wanted() => {
                let why = "another copy is to own the metadata";
                print_event(self.settings.json, "moving", why);
                return Ok(match self.hand_over(&mds, &ownership).await {
                    Ok(_) => Ended::Deposed(why.into()),
                    Err(error) => Ended::Failed(error.to_string()),
                });
            }
            why = stop_events.wait() => why,
            error = wait_for_store_failure(Some(&mds), None, &self.platform.clock) => {
                tracing::error!(%error, "stopping this process");
                return Err(error);
            }
        };
        print_event(self.settings.json, "stopping", &why);
        let text = match self.hand_over(&mds, &ownership).await? {
            Ended::Stopped => "stopped; all data is kept".to_string(),
            Ended::Deposed(why) | Ended::Failed(why) => {
                format!("stopped; another host serves the metadata: {why}")
            }
        };
        print_event(self.settings.json, "stopped", &text);
        Ok(Ended::Stopped)
    }

    /// Clients and object servers are served from now on.
    fn serve(&self, store: &LockedStore, mds: &Arc<Mds>) {
        let _ = self.parts.mds.set(mds.clone());
        let squash = self.settings.config.cluster.root_squash.unwrap_or(true);
        let handler = MetaHandler::new(mds.clone(), squash);
        let revocation = disconnect_revoked_keys(
            self.platform.clone(),
            self.parts.connected_peers(),
            handler.clone(),
            Arc::new(KeyListFile::of(&store.dir)),
        );
        self.standby.own(handler);
        self.platform.tasks.spawn("revoked keys", revocation);
    }

    /// Stops in order: another copy owns the metadata at once.
    async fn hand_over(&self, mds: &Mds, ownership: &Ownership) -> CliResult<Ended> {
        mds.revoke_all_leases().await;
        self.stop_serving();
        let stopped = tokio::select! {
            biased;
            stopped = mds.stop() => stopped,
            why = ownership.ended() => return Ok(Ended::Deposed(why)),
            () = self.platform.clock.sleep(HAND_OVER_TIMEOUT) => return Err(CliError::new(
                "the metadata server could not hand over: neither do all copies answer, nor can etcd record that one is left out",
            )
            .todo("it ends as if it had been killed: a copy takes over when etcd answers")),
        };
        ownership.release().await;
        stopped.map_err(|error| {
            CliError::new("the metadata server did not stop cleanly")
                .because(&error)
                .todo("the next owner recovers it; `gupfs check` looks for damage")
        })?;
        Ok(Ended::Stopped)
    }

    async fn release(&self, ownership: &Ownership) {
        tokio::select! {
            biased;
            () = ownership.release() => {}
            () = self.platform.clock.sleep(RELEASE_TIMEOUT) => {}
        }
    }

    fn stop_serving(&self) {
        if let Some(server) = self.parts.server.get() {
            server.stop();
        }
    }
}
