//! The servers and the client of one process, started and stopped in order.

use super::{ReservedAddress, Settings};
use crate::cluster::{
    KeyListFile, OssConnections, ProcessIdentity, SurveyContext, VerifierReporter, host_name,
    survey,
};
use crate::config::{self, Atime};
use crate::exit::{CliError, CliResult};
use crate::metrics::Calls;
use crate::store_dir::LockedStore;
use crate::stores::{DescriptorBudget, open_metadata, open_target, refuse_lost_metadata};
use futures_util::future::join_all;
use gupfs_client::{AtimeMode, Client, Route};
use gupfs_mds::Mds;
use gupfs_mds::osts::{DialOss, TargetAdmin, TargetHandle};
use gupfs_oss::Oss;
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{ClusterId, OstId, VirtualShards, data};
use gupfs_rpc::{ClusterKey, Peer, Role};
use gupfs_store::object::{Objects, OstState, OstStatus, TargetId};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often the metadata server is told how far each target's stamp has risen: an OST directory restored from a copy
/// that is older than this is noticed.
const STAMP_EVERY: Duration = Duration::from_secs(60);

/// How often it is looked for a life that is over: a look asks nobody where none is.
const LIVES_EVERY: Duration = Duration::from_secs(1);

type OstPeer = Peer<data::DataRequest, data::DataReply>;

pub struct Roles {
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    pub client: Arc<Client>,
    /// To object servers elsewhere, if others may join.
    pub lines: Vec<Arc<OssConnections>>,
    background: [Task<()>; 2],
}

impl Roles {
    /// Makes the stores that are new, opens all, and finishes the directory's initialisation.
    pub async fn start(
        store: &mut LockedStore,
        settings: &Settings,
        platform: &Platform,
        calls: Arc<Calls>,
        door: Option<ReservedAddress>,
    ) -> CliResult<(Roles, Option<ReservedAddress>)> {
        let identity = door.as_ref().map(|door| door.identity.clone());
        let identity = identity.as_ref();
        let cluster = store.marker.cluster();
        let share = DescriptorBudget::of_this_process(store.marker.osts().count())?;
        make_targets(store, cluster, platform).await?;
        let opened = open_targets(store, share, cluster, platform).await;
        let oss = Oss::new(opened);
        let peer = Peer::local(oss.clone());
        let osts: Vec<(OstId, OstPeer)> = (oss.osts().into_iter())
            .map(|ost| (ost, peer.clone()))
            .collect();
        let [as_mds, as_client] = lines(store, identity);
        let dial = as_mds.clone().map(|lines| lines as Arc<dyn DialOss>);
        let local = Local {
            oss: &oss,
            osts: &osts,
        };
        let key = identity.and_then(ProcessIdentity::cluster_key);
        oss.authorizer().set_cluster_key(key.clone());
        let (mds, door) =
            start_mds(store, settings, share, platform, local, (dial, key), door).await?;
        share_capability_keys(&mds, &oss, platform);
        refuse_rejected_targets(&mds, &oss);
        let lives = VerifierReporter::new(oss.clone(), Peer::local(mds.clone()));
        // Before anything is served.
        lives.report_changes().await.map_err(|refusal| {
            CliError::new("the metadata server does not say which lives of the OSTs are over")
                .because(&refusal)
        })?;
        store.finish()?;
        let mut options = client_options(&settings.point, &settings.config.mount, calls);
        options.shared = identity.is_some();
        let route = match &as_client {
            None => Route::new(Peer::local(mds.clone()), osts.clone()),
            Some(lines) => Route::with_map(
                Peer::local(mds.clone()),
                osts.clone(),
                Peer::local(mds.clone()),
                lines.clone(),
                platform.clock.clone(),
            ),
        };
        let client = Client::connect_with_route(route, platform.clone(), options)
            .await
            .map_err(|refusal| {
                CliError::new("the metadata server refused our own client").because(&refusal)
            })?;
        if identity.is_some() {
            mds.attach(client.session(), Peer::local(client.clone()));
        }
        let stamps = platform.tasks.spawn("stamps", {
            let (mds, oss, platform) = (mds.clone(), oss.clone(), platform.clone());
            async move {
                loop {
                    platform.clock.sleep(STAMP_EVERY).await;
                    report_stamps(&mds, &oss).await;
                    share_capability_keys(&mds, &oss, &platform);
                }
            }
        });
        let told = platform.tasks.spawn("lives", {
            let (lives, platform) = (lives.clone(), platform.clone());
            async move {
                loop {
                    platform.clock.sleep(LIVES_EVERY).await;
                    if let Err(refusal) = lives.report_changes().await {
                        tracing::warn!(%refusal, "the end of an OST's life is not remembered yet");
                    }
                }
            }
        });
        let roles = Roles {
            mds,
            oss,
            client,
            lines: as_mds.into_iter().chain(as_client).collect(),
            background: [stamps, told],
        };
        Ok((roles, door))
    }

    /// How many targets do not serve.
    pub async fn down(&self) -> usize {
        let status = self.oss.status().await;
        let serving = |target: &&OstStatus| target.state == OstState::Serving;
        status.targets.len() - status.targets.iter().filter(serving).count()
    }

    /// Client first, since it has something to say to both servers; metadata next, since it asks OSTs. All are stopped
    /// whatever fails; false if something did.
    pub async fn stop(&self) -> bool {
        for chore in &self.background {
            chore.stop();
        }
        let mut clean = true;
        if let Err(error) = self.client.stop().await {
            tracing::error!(%error, "the client did not end cleanly");
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

/// Superblocks for targets that are new. In a new store all must succeed; so must those that --osts adds.
async fn make_targets(
    store: &LockedStore,
    cluster: ClusterId,
    platform: &Platform,
) -> CliResult<()> {
    for ost in &store.new_osts {
        let dir = store.dir.ost(*ost);
        let failed = |error: &(dyn std::error::Error + 'static)| {
            CliError::new(format!("cannot make the target '{}'", dir.display())).because(error)
        };
        let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
        let target_id = TargetId { cluster, ost: *ost };
        Objects::init(&disk, platform, target_id)
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// A target that cannot be opened is down, and no reason for the others not to serve.
async fn open_targets(
    store: &LockedStore,
    share: DescriptorBudget,
    cluster: ClusterId,
    platform: &Platform,
) -> Vec<(OstId, gupfs_oss::ServedTarget)> {
    // Beside each other: each waits for its own disk.
    let opening = store.marker.osts().map(|ost| async move {
        let dir = store.dir.ost(ost);
        let target = match open_target(&dir, TargetId { cluster, ost }, share, platform).await {
            Ok(objects) => gupfs_oss::ServedTarget::Serving(objects),
            Err(why) => {
                tracing::error!(%ost, why, "an OST is down; files with bytes on it give EIO");
                gupfs_oss::ServedTarget::Down(why)
            }
        };
        (ost, target)
    });
    join_all(opening).await
}

async fn start_mds(
    store: &LockedStore,
    settings: &Settings,
    share: DescriptorBudget,
    platform: &Platform,
    local: Local<'_>,
    (dial, key): (Option<Arc<dyn DialOss>>, Option<ClusterKey>),
    mut door: Option<ReservedAddress>,
) -> CliResult<(Arc<Mds>, Option<ReservedAddress>)> {
    let dir = store.dir.mds();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        CliError::new(format!("cannot serve the metadata in '{}'", dir.display())).because(error)
    };
    refuse_lost_metadata(store)?;
    let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
    let opened = open_metadata(&store.dir, &store.marker, share, platform).await?;
    let (cluster, incarnation) = (store.marker.cluster(), store.marker.metadata());
    let mut surveyed = Vec::new();
    if settings.accept_loss
        && let Some(ReservedAddress {
            identity,
            listening,
        }) = door
    {
        let surveying = SurveyContext {
            identity: &identity,
            me: identity.local_identity(Role::Mds, &store.dir.root().display().to_string()),
            cluster,
            keys: Arc::new(KeyListFile::of(&store.dir)),
            here: &local.oss.osts(),
            json: settings.json,
        };
        let listening = survey(listening, &opened.0, surveying, platform).await?;
        surveyed = listening.0;
        door = Some(ReservedAddress {
            listening: listening.1,
            identity,
        });
    }
    let mut options =
        gupfs_mds::MdsOptions::new(opened, disk, platform.clone(), cluster, incarnation);
    options.shards = VirtualShards(store.marker.virtual_shards);
    options.accept_loss = settings.accept_loss;
    options.keep_sessions = dial.is_some();
    options.dial = dial;
    options.key = key;
    options.surveyed = surveyed;
    for (ost, peer) in local.osts {
        options.targets.push(TargetHandle {
            ost: *ost,
            peer: peer.clone(),
            admin: admin_of(local.oss, *ost),
        });
    }
    let mds = Mds::start(options).await.map_err(|error| failed(&error))?;
    Ok((mds, door))
}

/// The targets of this process.
struct Local<'a> {
    oss: &'a Oss,
    osts: &'a [(OstId, OstPeer)],
}

/// Lines for the metadata server and for the client, if others may join.
fn lines(
    store: &LockedStore,
    identity: Option<&ProcessIdentity>,
) -> [Option<Arc<OssConnections>>; 2] {
    let name = store.dir.root().display().to_string();
    [Role::Mds, Role::Client].map(|role| {
        let identity = identity?;
        // Two users of one server from one process: each has its own connection.
        let identity = identity.with_new_process_id();
        let me = identity.local_identity(role, &name);
        Some(OssConnections::new(
            &identity,
            me,
            store.marker.cluster(),
            "",
        ))
    })
}

/// How the client of a mount behaves.
pub fn client_options(
    point: &Path,
    config: &config::Mount,
    calls: Arc<Calls>,
) -> gupfs_client::SessionOptions {
    gupfs_client::SessionOptions {
        name: format!("{}:{}", host_name(), point.display()),
        atime: match config.atime {
            // Nothing changes through it, not by reading either.
            _ if config.read_only == Some(true) => AtimeMode::Never,
            None | Some(Atime::Relative) => AtimeMode::Relative,
            Some(Atime::Always) => AtimeMode::Always,
            Some(Atime::Never) => AtimeMode::Never,
        },
        directory_atime: config.directory_atime.unwrap_or(true),
        observer: Some(calls),
        ..gupfs_client::SessionOptions::default()
    }
}

fn admin_of(oss: &Oss, ost: OstId) -> Result<Arc<dyn TargetAdmin>, String> {
    match oss.objects(ost) {
        Ok(objects) => Ok(Arc::new(objects)),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// A target that is not who it was must not be read by anybody: old bytes would pass for new ones.
fn refuse_rejected_targets(mds: &Mds, oss: &Oss) {
    for (ost, why) in mds.refused_targets() {
        if let Ok(objects) = oss.objects(ost) {
            objects.refuse(why);
        }
    }
}

async fn report_stamps(mds: &Mds, oss: &Oss) {
    for ost in oss.osts() {
        if let Err(refusal) = mds.admit_local_target(ost, admin_of(oss, ost)).await {
            tracing::error!(%ost, %refusal, "a target is not believed");
        }
    }
}

/// By what other hosts' requests for our targets are believed.
fn share_capability_keys(mds: &Mds, oss: &Oss, platform: &Platform) {
    let asked = platform.clock.boot();
    if let Some(seals) = mds.capability_keys(&oss.osts()) {
        oss.authorizer().update_keys(&seals, asked);
    }
}
