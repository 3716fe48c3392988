//! Starts and stops the metadata server, the object server and the client of `gupfs up`, in order.

use super::{ReservedAddress, Settings};
use crate::amount::Size;
use crate::cluster::{KeyListFile, SurveyContext, host_name, survey};
use crate::config::{self, Atime};
use crate::exit::{CliError, CliResult};
use crate::metrics::Calls;
use crate::store_dir::LockedStore;
use crate::stores::{DescriptorBudget, open_metadata, open_target, refuse_lost_metadata};
use futures_util::future::join_all;
use gupfs_client::{AtimeMode, Client, Route};
use gupfs_mds::Mds;
use gupfs_mds::osts::{TargetAdmin, TargetHandle};
use gupfs_oss::{Oss, VerifierReporter};
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{ClusterId, OstId, VirtualShards, data};
use gupfs_rpc::{ClusterKey, DialOss, OssConnections, Peer, ProcessIdentity, Role};
use gupfs_store::object::{Objects, OstState, OstStatus, TargetId};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often the metadata server records the stamps of the targets. It can tell an OST directory from a copy that is older than this.
const STAMP_INTERVAL: Duration = Duration::from_secs(60);

/// How often the write verifiers of the targets are checked for retired ones; a check without any sends no request.
const VERIFIER_INTERVAL: Duration = Duration::from_secs(1);

type OstPeer = Peer<data::DataRequest, data::DataReply>;

/// The roles of `gupfs up`.
pub struct Roles {
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    pub client: Arc<Client>,
    /// The connections to object servers of other hosts, if the process serves other hosts.
    pub oss_connections: Vec<Arc<OssConnections>>,
    background: [Task<()>; 2],
}

impl Roles {
    /// Creates the new stores, opens all, starts the roles, and completes the initialisation of the directory.
    ///
    /// # Errors
    /// If a new target cannot be created, the metadata store cannot be opened, or a role cannot be started.
    pub async fn start(
        store: &mut LockedStore,
        settings: &Settings,
        platform: &Platform,
        calls: Arc<Calls>,
        reserved: Option<ReservedAddress>,
    ) -> CliResult<(Roles, Option<ReservedAddress>)> {
        let identity = reserved.as_ref().map(|reserved| reserved.identity.clone());
        let identity = identity.as_ref();
        let cluster = store.marker.cluster();
        let budget = DescriptorBudget::of_this_process(store.marker.osts().count())?;
        create_targets(store, cluster, platform).await?;
        let opened = open_targets(store, budget, cluster, platform).await;
        let oss = Oss::new(opened);
        let peer = Peer::local(oss.clone());
        let osts: Vec<(OstId, OstPeer)> = (oss.osts().into_iter())
            .map(|ost| (ost, peer.clone()))
            .collect();
        let [of_mds, of_client] = oss_connections(store, identity);
        let dial = of_mds
            .clone()
            .map(|connections| connections as Arc<dyn DialOss>);
        let local = LocalTargets {
            oss: &oss,
            osts: &osts,
        };
        let key = identity.and_then(ProcessIdentity::cluster_key);
        oss.authorizer().set_cluster_key(key.clone());
        let (mds, reserved) = start_mds(
            store,
            settings,
            budget,
            platform,
            local,
            (dial, key),
            reserved,
        )
        .await?;
        oss.set_jobs(mds.jobs().clone());
        share_capability_keys(&mds, &oss, platform);
        refuse_rejected_targets(&mds, &oss);
        log_down_targets(&mds, &oss);
        let verifier_reporter = VerifierReporter::new(oss.clone(), Peer::local(mds.clone()));
        // Before any role serves.
        verifier_reporter.report_changes().await.map_err(|refusal| {
            CliError::new("cannot compare the write verifiers of the OSTs with those of the metadata server")
                .because(&refusal)
        })?;
        store.finish()?;
        let mut options = client_options(&settings.point, &settings.config.mount, calls);
        options.shared = identity.is_some();
        let route = match &of_client {
            None => Route::new(Peer::local(mds.clone()), osts.clone()),
            Some(connections) => Route::with_map(
                Peer::local(mds.clone()),
                osts.clone(),
                Peer::local(mds.clone()),
                connections.clone(),
                platform.clock.clone(),
            ),
        };
        let client = Client::connect_with_route(route, platform.clone(), options)
            .await
            .map_err(|refusal| {
                CliError::new("the metadata server refused the client of this process")
                    .because(&refusal)
            })?;
        if identity.is_some() {
            mds.attach(client.session(), Peer::local(client.clone()));
        }
        let background = start_background_tasks(&mds, &oss, &verifier_reporter, platform);
        let roles = Roles {
            mds,
            oss,
            client,
            oss_connections: of_mds.into_iter().chain(of_client).collect(),
            background,
        };
        Ok((roles, reserved))
    }

    /// The number of targets of this process that are part of the cluster, and how many of these do not serve.
    pub async fn counted_targets(&self) -> (usize, usize) {
        let former = self.mds.former_targets();
        let mut targets = self.oss.status().await.targets;
        targets.retain(|target| !former.contains(&target.ost));
        let serving = |target: &&OstStatus| target.state == OstState::Serving;
        let down = targets.len() - targets.iter().filter(serving).count();
        (targets.len(), down)
    }

    /// Stops the client first, because it reports to both servers; then the metadata server, because it sends requests to the OSTs.
    /// Stops all roles whatever fails, and returns whether all stopped cleanly.
    pub async fn stop(&self) -> bool {
        for task in &self.background {
            task.stop();
        }
        let mut clean = true;
        if let Err(error) = self.client.stop().await {
            tracing::error!(%error, "the client did not stop cleanly");
            clean = false;
        }
        if let Err(error) = self.mds.stop().await {
            tracing::error!(%error, "the metadata server did not stop cleanly");
            clean = false;
        }
        if let Err(error) = self.oss.stop().await {
            tracing::error!(%error, "an OST did not stop cleanly");
            clean = false;
        }
        clean
    }
}

/// Starts the reports of stamps and of retired write verifiers.
fn start_background_tasks(
    mds: &Arc<Mds>,
    oss: &Arc<Oss>,
    verifier_reporter: &Arc<VerifierReporter>,
    platform: &Platform,
) -> [Task<()>; 2] {
    let stamps = platform.tasks.spawn("stamps", {
        let (mds, oss, platform) = (mds.clone(), oss.clone(), platform.clone());
        async move {
            loop {
                platform.clock.sleep(STAMP_INTERVAL).await;
                report_stamps(&mds, &oss).await;
                refuse_rejected_targets(&mds, &oss);
                share_capability_keys(&mds, &oss, &platform);
            }
        }
    });
    let verifiers = platform.tasks.spawn("verifiers", {
        let (reporter, platform) = (verifier_reporter.clone(), platform.clone());
        async move {
            loop {
                platform.clock.sleep(VERIFIER_INTERVAL).await;
                if let Err(refusal) = reporter.report_changes().await {
                    tracing::warn!(%refusal, "a retired write verifier of an OST is not recorded yet");
                }
            }
        }
    });
    [stamps, verifiers]
}

/// Writes the superblocks of new targets.
///
/// # Errors
/// If one cannot be created.
async fn create_targets(
    store: &LockedStore,
    cluster: ClusterId,
    platform: &Platform,
) -> CliResult<()> {
    for ost in &store.new_osts {
        let dir = store.dir.ost(*ost);
        let failed = |error: &(dyn std::error::Error + 'static)| {
            CliError::new(format!("cannot create the target '{}'", dir.display())).because(error)
        };
        let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
        let target_id = TargetId { cluster, ost: *ost };
        Objects::init(&disk, platform, target_id)
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Opens the targets. One that cannot be opened is down; the others serve.
async fn open_targets(
    store: &LockedStore,
    budget: DescriptorBudget,
    cluster: ClusterId,
    platform: &Platform,
) -> Vec<(OstId, gupfs_oss::ServedTarget)> {
    // Concurrently: each waits for its own disk.
    let opening = store.marker.osts().map(|ost| async move {
        let dir = store.dir.ost(ost);
        let target = match open_target(&dir, TargetId { cluster, ost }, budget, platform).await {
            Ok(objects) => gupfs_oss::ServedTarget::Serving(objects),
            Err(why) => gupfs_oss::ServedTarget::Down(why),
        };
        (ost, target)
    });
    join_all(opening).await
}

async fn start_mds(
    store: &LockedStore,
    settings: &Settings,
    budget: DescriptorBudget,
    platform: &Platform,
    local: LocalTargets<'_>,
    (dial, key): (Option<Arc<dyn DialOss>>, Option<ClusterKey>),
    mut reserved: Option<ReservedAddress>,
) -> CliResult<(Arc<Mds>, Option<ReservedAddress>)> {
    let dir = store.dir.mds();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!("cannot serve the metadata in '{}'", dir.display())).because(error)
    };
    refuse_lost_metadata(store)?;
    let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
    let opened = open_metadata(&store.dir, &store.marker, budget, platform).await?;
    let (cluster, incarnation) = (store.marker.cluster(), store.marker.metadata());
    let mut surveyed = Vec::new();
    if settings.accept_loss
        && let Some(ReservedAddress { identity, listener }) = reserved
    {
        let context = SurveyContext {
            identity: &identity,
            local: identity.local_identity(Role::Mds, &store.dir.root().display().to_string()),
            cluster,
            keys: Arc::new(KeyListFile::of(&store.dir)),
            local_targets: &local.oss.osts(),
            json: settings.json,
        };
        let (reports, listener) = survey(listener, &opened.0, context, platform).await?;
        surveyed = reports;
        reserved = Some(ReservedAddress { listener, identity });
    }
    let mut options =
        gupfs_mds::MdsOptions::new(opened, disk, platform.clone(), cluster, incarnation);
    options.shards = VirtualShards(store.marker.virtual_shards);
    options.accept_loss = settings.accept_loss;
    options.keep_sessions = dial.is_some();
    options.dial = dial;
    options.key = key;
    if let Some(limit) = settings.config.mds.rebuild_after {
        options.rebuild_after = limit.time();
    }
    if let Some(rate) = &settings.config.mds.resync_rate {
        options.resync_rate = Some(rate.0).filter(|rate| *rate > 0);
    }
    if let Some(period) = settings.config.mds.scrub_period {
        options.scrub_period = period.time();
    }
    options.surveyed = surveyed;
    options.domain = settings.config.oss.domain;
    for (ost, peer) in local.osts {
        options.targets.push(TargetHandle {
            ost: *ost,
            peer: peer.clone(),
            admin: admin_of(local.oss, *ost),
        });
    }
    let mds = Mds::start(options).await.map_err(|error| failed(&error))?;
    Ok((mds, reserved))
}

/// The targets of this process.
struct LocalTargets<'a> {
    oss: &'a Oss,
    osts: &'a [(OstId, OstPeer)],
}

/// The connections of the metadata server and of the client to object servers of other hosts, if the process serves other hosts.
fn oss_connections(
    store: &LockedStore,
    identity: Option<&ProcessIdentity>,
) -> [Option<Arc<OssConnections>>; 2] {
    let name = store.dir.root().display().to_string();
    [Role::Mds, Role::Client].map(|role| {
        let identity = identity?;
        // The two need separate connections to the same server.
        let identity = identity.with_new_process_id();
        let local = identity.local_identity(role, &name);
        Some(OssConnections::new(
            &identity,
            local,
            store.marker.cluster(),
            "",
        ))
    })
}

/// The options of a mount's session.
pub fn client_options(
    point: &Path,
    config: &config::Mount,
    calls: Arc<Calls>,
) -> gupfs_client::SessionOptions {
    let defaults = gupfs_client::SessionOptions::default();
    let data_cache_max = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
    gupfs_client::SessionOptions {
        name: format!("{}:{}", host_name(), point.display()),
        atime: match config.atime {
            // A read-only mount changes no access times.
            _ if config.read_only == Some(true) => AtimeMode::Never,
            None | Some(Atime::Relative) => AtimeMode::Relative,
            Some(Atime::Always) => AtimeMode::Always,
            Some(Atime::Never) => AtimeMode::Never,
        },
        directory_atime: config.directory_atime.unwrap_or(true),
        observer: Some(calls),
        data_cache_max: (config.data_cache).map_or(defaults.data_cache_max, data_cache_max),
        ..defaults
    }
}

fn admin_of(oss: &Oss, ost: OstId) -> Result<Arc<dyn TargetAdmin>, String> {
    match oss.objects(ost) {
        Ok(objects) => Ok(Arc::new(objects)),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// Refuses all requests for targets whose identity does not match: they may hold old data.
fn refuse_rejected_targets(mds: &Mds, oss: &Oss) {
    for (ost, why) in mds.refused_targets() {
        if let Ok(objects) = oss.objects(ost) {
            objects.refuse(why);
        }
    }
}

fn log_down_targets(mds: &Mds, oss: &Oss) {
    for ost in osts_of_cluster(mds, oss) {
        if let Err(why) = admin_of(oss, ost) {
            tracing::error!(%ost, why, "an OST is down; reads and writes of files with data on it fail with EIO");
        }
    }
}

/// The targets of this process that were neither declared lost nor removed.
fn osts_of_cluster(mds: &Mds, oss: &Oss) -> Vec<OstId> {
    let former = mds.former_targets();
    let osts = oss.osts().into_iter();
    osts.filter(|ost| !former.contains(ost)).collect()
}

async fn report_stamps(mds: &Mds, oss: &Oss) {
    for ost in osts_of_cluster(mds, oss) {
        if let Err(refusal) = mds.admit_local_target(ost, admin_of(oss, ost)).await {
            tracing::error!(%ost, %refusal, "the metadata server refuses a target");
        }
    }
}

/// Gives the object server the keys with which it verifies the capabilities of other hosts.
fn share_capability_keys(mds: &Mds, oss: &Oss, platform: &Platform) {
    let requested = platform.clock.boot();
    if let Some(keys) = mds.capability_keys(&oss.osts()) {
        oss.authorizer().update_keys(&keys, requested);
    }
}
