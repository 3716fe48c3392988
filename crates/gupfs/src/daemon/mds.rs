//! `gupfs mds`: the metadata server of a cluster.

use super::start_metrics;
use crate::amount::show_time;
use crate::cluster::{
    BoundListener, KeyListFile, MDS_PORT, SurveyContext, disconnect_revoked_keys, identity, listen,
    read_cluster_key, read_tls, survey,
};
use crate::config::Config;
use crate::control;
use crate::events::print_event;
use crate::exit::{CliError, CliResult};
use crate::node::{
    ClusterHandler, ControlService, Parts, StopEvents, print_loss, wait_for_store_failure,
};
use crate::store_dir::LockedStore;
use crate::stores::{DescriptorBudget, open_metadata, refuse_lost_metadata};
use gupfs_mds::{Mds, MdsOptions, MetaHandler};
use gupfs_platform::{BootTime, Disk, Platform};
use gupfs_proto::VirtualShards;
use gupfs_rpc::{AuthKey, Handlers, LocalIdentity, OssConnections, ProcessIdentity, Role};
use gupfs_store::kv::{Kv, KvRecovery};
use std::sync::Arc;

/// The settings of `gupfs mds`.
pub struct Settings {
    pub config: Config,
    pub accept_loss: bool,
    pub json: bool,
}

/// Serves until a stop event.
///
/// # Errors
/// If the address cannot be bound, the metadata store cannot be opened or fails, or the server does not stop cleanly.
pub async fn run(
    store: LockedStore,
    settings: Settings,
    platform: &Platform,
    began: BootTime,
) -> CliResult<()> {
    let (mut stop_events, stop_sender) = StopEvents::listen()?;
    let config = &settings.config;
    let key = read_cluster_key(Some(&store.dir.key()))?;
    let identity = identity(platform, key.map(AuthKey::from), read_tls(&config.cluster)?);
    let default = format!("127.0.0.1:{MDS_PORT}");
    let address = config.cluster.listen.as_deref().unwrap_or(&default);
    let listener = listen(&identity, address).await?;
    let name = store.dir.root().display().to_string();
    let local = identity.local_identity(Role::Mds, &name);
    let cluster = store.marker.cluster();
    let oss_connections = OssConnections::new(&identity, local.clone(), cluster, "");
    let survey_context = SurveyContext {
        identity: &identity,
        local: local.clone(),
        cluster,
        keys: Arc::new(KeyListFile::of(&store.dir)),
        local_targets: &[],
        json: settings.json,
    };
    let dial = oss_connections.clone();
    let survey_context = (survey_context, listener);
    let (mds, listener) = start(&store, &settings, dial, survey_context, platform).await?;
    print_loss(&mds, settings.json);
    store.finish()?;
    if store.fresh {
        let key = store.dir.key();
        let text = format!(
            "a new store; every object server needs the cluster key '{}', and each host that mounts needs a client key from `gupfs key client`",
            key.display()
        );
        print_event(settings.json, "made", &text);
    }
    let mut parts = Parts::new(name, cluster, platform, began);
    parts.store_dir = Some(store.dir.clone());
    let _ = parts.mds.set(mds.clone());
    parts.oss_connections.push(oss_connections);
    let parts = Arc::new(parts);
    let address = serve_requests(&store, &settings, (&identity, local), listener, &parts)?;
    let ready = format!(
        "metadata served at {address}, ready in {}; Ctrl-C to stop",
        show_time(platform.clock.boot().since(began))
    );
    // The control socket comes after the surveyed OSTs serve: an administrator who accepts a loss stops the daemon when
    // `gupfs status` answers.
    let early_stop = tokio::select! {
        biased;
        why = stop_events.wait() => Some(why),
        () = mds.wait_for_surveyed() => None,
    };
    let control_service = Arc::new(ControlService {
        parts: parts.clone(),
        stop: stop_sender,
    });
    let _control = control::serve(&store.dir.run(), &platform.tasks, control_service)?;
    let metrics = start_metrics(config, platform, &parts).await?;
    if early_stop.is_none() {
        print_event(settings.json, "ready", &ready);
    }
    let until_stop = async {
        match early_stop {
            Some(why) => why,
            None => stop_events.wait().await,
        }
    };
    let why = tokio::select! {
        why = until_stop => why,
        error = wait_for_store_failure(Some(&mds), None, &platform.clock) => {
            tracing::error!(%error, "stopping this process");
            let _ = std::fs::remove_file(store.dir.pid());
            return Err(error);
        }
    };
    print_event(settings.json, "stopping", &why);
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    mds.revoke_all_leases().await;
    if let Some(server) = parts.server.get() {
        server.stop();
    }
    stop_server(&store, &mds).await?;
    print_event(settings.json, "stopped", "stopped; all data is kept");
    Ok(())
}

/// Accepts connections from now on; returns the address.
fn serve_requests(
    store: &LockedStore,
    settings: &Settings,
    (identity, local): (&ProcessIdentity, LocalIdentity),
    listener: BoundListener,
    parts: &Arc<Parts>,
) -> CliResult<String> {
    let mds = parts
        .mds
        .get()
        .expect("this process serves the metadata")
        .clone();
    let squash = settings.config.cluster.root_squash.unwrap_or(true);
    let meta = MetaHandler::new(mds, squash);
    let handlers = Handlers::none()
        .with_peer_handler(meta.clone())
        .with_service(ClusterHandler::new(parts));
    let keys = Arc::new(KeyListFile::of(&store.dir));
    let revocation = disconnect_revoked_keys(
        identity.platform.clone(),
        parts.connected_peers(),
        meta.clone(),
        keys.clone(),
    );
    let capacity = DescriptorBudget::of_this_process(0)?.capacity;
    let cluster = parts.cluster;
    let server = listener.serve(identity, local, cluster, keys, (handlers, meta), capacity);
    let address = server.address().to_string();
    let _ = parts.server.set(server);
    (identity.platform.tasks).spawn("revoked keys", revocation);
    Ok(address)
}

async fn stop_server(store: &LockedStore, mds: &Mds) -> CliResult<()> {
    let stopped = mds.stop().await;
    let _ = std::fs::remove_file(store.dir.pid());
    stopped.map_err(|error| {
        CliError::new("the metadata server did not stop cleanly")
            .because(&error)
            .todo("the next start recovers it; `gupfs check` looks for damage")
    })
}

async fn start(
    store: &LockedStore,
    settings: &Settings,
    oss_connections: Arc<OssConnections>,
    (survey_context, mut listener): (SurveyContext<'_>, BoundListener),
    platform: &Platform,
) -> CliResult<(Arc<Mds>, BoundListener)> {
    let dir = store.dir.mds();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!("cannot serve the metadata in '{}'", dir.display())).because(error)
    };
    refuse_lost_metadata(store)?;
    let budget = DescriptorBudget::of_this_process(0)?;
    let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
    let opened = open_metadata(&store.dir, &store.marker, budget, platform).await?;
    let key = survey_context.identity.cluster_key();
    let mut surveyed = Vec::new();
    if settings.accept_loss {
        (surveyed, listener) = survey(listener, &opened.0, survey_context, platform).await?;
    }
    let mut options = mds_options(settings, store, opened, disk, platform);
    options.accept_loss = settings.accept_loss;
    options.dial = Some(oss_connections);
    options.surveyed = surveyed;
    options.key = key;
    let mds = Mds::start(options).await.map_err(|error| failed(&error))?;
    Ok((mds, listener))
}

/// The options of a metadata server whose sessions outlive it, as the configuration says.
pub(super) fn mds_options(
    settings: &Settings,
    store: &LockedStore,
    opened: (impl Into<Arc<Kv>>, KvRecovery),
    disk: Disk,
    platform: &Platform,
) -> MdsOptions {
    let (cluster, incarnation) = (store.marker.cluster(), store.marker.metadata());
    let mut options = MdsOptions::new(opened, disk, platform.clone(), cluster, incarnation);
    options.shards = VirtualShards(store.marker.virtual_shards);
    options.keep_sessions = true;
    let config = &settings.config.mds;
    if let Some(limit) = config.rebuild_after {
        options.rebuild_after = limit.time();
    }
    if let Some(rate) = &config.resync_rate {
        options.resync_rate = Some(rate.0).filter(|rate| *rate > 0);
    }
    if let Some(period) = config.scrub_period {
        options.scrub_period = period.time();
    }
    options
}
