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
use crate::home::LockedStore;
use crate::node::{
    ControlService, Parts, StopEvents, cluster_handler, nothing_left_to_serve, print_loss,
};
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
    entered: LockedStore,
    settings: Settings,
    platform: &Platform,
    began: BootTime,
) -> CliResult<()> {
    let (mut told, ask_stop) = StopEvents::listen()?;
    let config = &settings.config;
    let key = read_cluster_key(Some(&entered.home.key()))?;
    let identity = identity(platform, key.map(AuthKey::from), read_tls(&config.cluster)?);
    let usual = format!("127.0.0.1:{MDS_PORT}");
    let address = config.cluster.listen.as_deref().unwrap_or(&usual);
    let listening = listen(&identity, address).await?;
    let name = entered.home.root().display().to_string();
    let me = identity.local_identity(Role::Mds, &name);
    let cluster = entered.marker.cluster();
    let lines = OssConnections::new(&identity, me.clone(), cluster, "");
    let surveying = SurveyContext {
        identity: &identity,
        me: me.clone(),
        cluster,
        keys: Arc::new(KeyListFile::of(&entered.home)),
        here: &[],
        json: settings.json,
    };
    let dial = lines.clone();
    let (mds, listening) =
        start(&entered, &settings, dial, (surveying, listening), platform).await?;
    print_loss(&mds, settings.json);
    entered.finish()?;
    if entered.fresh {
        let key = entered.home.key();
        let text = format!(
            "a new store; every object server needs the cluster's key '{}', and hosts that mount get keys of their own with `gupfs key client`",
            key.display()
        );
        print_event(settings.json, "made", &text);
    }
    let mut parts = Parts::new(name, cluster, platform, began);
    parts.home = Some(entered.home.clone());
    parts.mds = Some(mds.clone());
    parts.lines.push(lines);
    let parts = Arc::new(parts);
    let meta = MetaHandler::new(mds.clone(), config.cluster.root_squash.unwrap_or(true));
    let hosts = Handlers::none()
        .with_peer_handler(meta.clone())
        .with_service(cluster_handler(&parts));
    let keys = Arc::new(KeyListFile::of(&entered.home));
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
    let _control = control::serve(&entered.home.run(), &platform.tasks, answers)?;
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
        trouble = nothing_left_to_serve(Some(&mds), None, &platform.clock) => {
            tracing::error!(%trouble, "ending");
            let _ = std::fs::remove_file(entered.home.pid());
            return Err(trouble);
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
    let _ = std::fs::remove_file(entered.home.pid());
    stopped.map_err(|error| {
        CliError::new("the metadata server did not stop cleanly")
            .because(&error)
            .todo("the next start recovers; `gupfs check` looks for damage")
    })?;
    print_event(settings.json, "stopped", "stopped; everything is kept");
    Ok(())
}

async fn start(
    entered: &LockedStore,
    settings: &Settings,
    lines: Arc<OssConnections>,
    (surveying, mut listening): (SurveyContext<'_>, BoundListener),
    platform: &Platform,
) -> CliResult<(Arc<Mds>, BoundListener)> {
    let dir = entered.home.mds();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!("cannot serve the metadata in '{}'", dir.display())).because(error)
    };
    refuse_lost_metadata(entered)?;
    let share = DescriptorBudget::of_this_process(0)?;
    let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
    let opened = open_metadata(&entered.home, &entered.marker, share, platform).await?;
    let key = surveying.identity.cluster_key();
    let mut surveyed = Vec::new();
    if settings.accept_loss {
        (surveyed, listening) = survey(listening, &opened.0, surveying, platform).await?;
    }
    let (cluster, incarnation) = (entered.marker.cluster(), entered.marker.metadata());
    let mut options =
        gupfs_mds::MdsOptions::new(opened, disk, platform.clone(), cluster, incarnation);
    options.shards = VirtualShards(entered.marker.virtual_shards);
    options.accept_loss = settings.accept_loss;
    options.dial = Some(lines);
    options.surveyed = surveyed;
    options.key = key;
    options.keep_sessions = true;
    let mds = Mds::start(options).await.map_err(|error| failed(&error))?;
    Ok((mds, listening))
}
