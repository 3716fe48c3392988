//! `gupfs mds`: the metadata server of a cluster.

use super::start_metrics;
use crate::amount::show_time;
use crate::cluster::{
    BoundListener, KeyListFile, MDS_PORT, MetaHandler, OssConnections, SurveyContext, identity,
    listen, read_cluster_key, read_tls, survey, watch_revoked,
};
use crate::config::Config;
use crate::control;
use crate::events::print_event;
use crate::exit::{CliError, CliResult};
use crate::node::{
    ControlService, Parts, StopEvents, cluster_handler, nothing_left_to_serve, print_loss,
};
use crate::store_dir::LockedStore;
use crate::stores::{DescriptorBudget, open_metadata, refuse_lost_metadata};
use gupfs_mds::Mds;
use gupfs_platform::{BootTime, Disk, Platform};
use gupfs_proto::VirtualShards;
use gupfs_rpc::{AuthKey, Handlers, Role};
use std::sync::Arc;

pub struct Settings {
    pub config: Config,
    pub accept_loss: bool,
    pub json: bool,
}

/// Serves until it is told to end.
pub async fn run(
    store: LockedStore,
    settings: Settings,
    platform: &Platform,
    began: BootTime,
) -> CliResult<()> {
    let (mut told, ask_stop) = StopEvents::listen()?;
    let config = &settings.config;
    let key = read_cluster_key(Some(&store.dir.key()))?;
    let identity = identity(platform, key.map(AuthKey::from), read_tls(&config.cluster)?);
    let usual = format!("127.0.0.1:{MDS_PORT}");
    let address = config.cluster.listen.as_deref().unwrap_or(&usual);
    let listening = listen(&identity, address).await?;
    let name = store.dir.root().display().to_string();
    let me = identity.local_identity(Role::Mds, &name);
    let cluster = store.marker.cluster();
    let lines = OssConnections::new(&identity, me.clone(), cluster, "");
    let surveying = SurveyContext {
        identity: &identity,
        me: me.clone(),
        cluster,
        keys: Arc::new(KeyListFile::of(&store.dir)),
        here: &[],
        json: settings.json,
    };
    let dial = lines.clone();
    let (mds, listening) = start(&store, &settings, dial, (surveying, listening), platform).await?;
    print_loss(&mds, settings.json);
    store.finish()?;
    if store.fresh {
        let key = store.dir.key();
        let text = format!(
            "a new store; every object server needs the cluster's key '{}', and hosts that mount get keys of their own with `gupfs key client`",
            key.display()
        );
        print_event(settings.json, "made", &text);
    }
    let mut parts = Parts::new(name, cluster, platform, began);
    parts.store_dir = Some(store.dir.clone());
    parts.mds = Some(mds.clone());
    parts.lines.push(lines);
    let parts = Arc::new(parts);
    let meta = MetaHandler::new(mds.clone(), config.cluster.root_squash.unwrap_or(true));
    let hosts = Handlers::none()
        .with_peer_handler(meta.clone())
        .with_service(cluster_handler(&parts));
    let keys = Arc::new(KeyListFile::of(&store.dir));
    let revoking = watch_revoked(
        platform.clone(),
        parts.callers(),
        meta.clone(),
        keys.clone(),
    );
    let capacity = DescriptorBudget::of_this_process(0)?.capacity;
    let server = listening.open(&identity, me, cluster, keys, (hosts, meta), capacity);
    let ready = format!(
        "metadata served at {}, ready in {}; Ctrl-C to stop",
        server.address(),
        show_time(platform.clock.boot().since(began))
    );
    let _ = parts.server.set(server);
    let _revoking = platform.tasks.spawn("revoked keys", revoking);
    // The control socket comes after the surveyed OSTs serve: an administrator who accepts a loss stops the daemon when
    // `gupfs status` answers.
    let early_stop = tokio::select! {
        biased;
        why = told.wait() => Some(why),
        () = mds.wait_for_surveyed() => None,
    };
    let answers = Arc::new(ControlService {
        parts: parts.clone(),
        stop: ask_stop,
    });
    let _control = control::serve(&store.dir.run(), &platform.tasks, answers)?;
    let metrics = start_metrics(config, platform, &parts).await?;
    if early_stop.is_none() {
        print_event(settings.json, "ready", &ready);
    }
    let until_stop = async {
        match early_stop {
            Some(why) => why,
            None => told.wait().await,
        }
    };
    let why = tokio::select! {
        why = until_stop => why,
        error = nothing_left_to_serve(Some(&mds), None, &platform.clock) => {
            tracing::error!(%error, "ending");
            let _ = std::fs::remove_file(store.dir.pid());
            return Err(error);
        }
    };
    print_event(settings.json, "stopping", &why);
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    if let Some(server) = parts.server.get() {
        server.stop();
    }
    let stopped = mds.stop().await;
    let _ = std::fs::remove_file(store.dir.pid());
    stopped.map_err(|error| {
        CliError::new("the metadata server did not stop cleanly")
            .because(&error)
            .todo("the next start recovers; `gupfs check` looks for damage")
    })?;
    print_event(settings.json, "stopped", "stopped; everything is kept");
    Ok(())
}

async fn start(
    store: &LockedStore,
    settings: &Settings,
    lines: Arc<OssConnections>,
    (surveying, mut listening): (SurveyContext<'_>, BoundListener),
    platform: &Platform,
) -> CliResult<(Arc<Mds>, BoundListener)> {
    let dir = store.dir.mds();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!("cannot serve the metadata in '{}'", dir.display())).because(error)
    };
    refuse_lost_metadata(store)?;
    let share = DescriptorBudget::of_this_process(0)?;
    let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
    let opened = open_metadata(&store.dir, &store.marker, share, platform).await?;
    let key = surveying.identity.cluster_key();
    let mut surveyed = Vec::new();
    if settings.accept_loss {
        (surveyed, listening) = survey(listening, &opened.0, surveying, platform).await?;
    }
    let (cluster, incarnation) = (store.marker.cluster(), store.marker.metadata());
    let mut options =
        gupfs_mds::MdsOptions::new(opened, disk, platform.clone(), cluster, incarnation);
    options.shards = VirtualShards(store.marker.virtual_shards);
    options.accept_loss = settings.accept_loss;
    options.dial = Some(lines);
    options.surveyed = surveyed;
    options.key = key;
    options.keep_sessions = true;
    let mds = Mds::start(options).await.map_err(|error| failed(&error))?;
    Ok((mds, listening))
}
