//! The servers and the client of one process, started and stopped in order.

use super::descriptors::Share;
use super::metadata::open_metadata;
use super::{Door, Settings};
use crate::cluster::{Identity, Lines, ListFile, Lives, Surveying, host_name, survey};
use crate::config::{self, Atime};
use crate::exit::{Outcome, Trouble};
use crate::home::Entered;
use crate::metrics::Calls;
use futures_util::future::join_all;
use gupfs_client::{AtimeRule, Client, Route};
use gupfs_mds::Mds;
use gupfs_mds::targets::{Admin, Dial, Target};
use gupfs_oss::Oss;
use gupfs_platform::{Disk, Platform, Task};
use gupfs_proto::{ClusterId, OstId, VirtualShards, data};
use gupfs_rpc::{ClusterKey, Peer, Role};
use gupfs_store::object::{Objects, TargetState, TargetStatus, Whose};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the metadata server is told how far each target's stamp has risen: an OST directory restored from a copy
/// that is older than this is noticed.
const STAMP_EVERY: Duration = Duration::from_secs(60);

/// How often it is looked for a life that is over: a look asks nobody where none is.
const LIVES_EVERY: Duration = Duration::from_secs(1);

type OstPeer = Peer<data::Request, data::Reply>;

pub struct Roles {
    pub mds: Arc<Mds>,
    pub oss: Arc<Oss>,
    pub client: Arc<Client>,
    /// To object servers elsewhere, if others may join.
    pub lines: Vec<Arc<Lines>>,
    chores: [Task<()>; 2],
}

impl Roles {
    /// Makes the stores that are new, opens all, and finishes the directory's initialisation.
    pub async fn start(
        entered: &mut Entered,
        settings: &Settings,
        platform: &Platform,
        calls: Arc<Calls>,
        door: Option<Door>,
    ) -> Outcome<(Roles, Option<Door>)> {
        let identity = door.as_ref().map(|door| door.identity.clone());
        let identity = identity.as_ref();
        let cluster = entered.marker.cluster();
        let share = Share::of_this_process(entered.marker.osts().count())?;
        make_targets(entered, cluster, platform).await?;
        let opened = open_targets(entered, share, cluster, platform).await;
        let oss = Oss::new(opened);
        let peer = Peer::local(oss.clone());
        let osts: Vec<(OstId, OstPeer)> = (oss.osts().into_iter())
            .map(|ost| (ost, peer.clone()))
            .collect();
        let [as_mds, as_client] = lines(entered, identity);
        let dial = as_mds.clone().map(|lines| lines as Arc<dyn Dial>);
        let local = Local {
            oss: &oss,
            osts: &osts,
        };
        let key = identity.and_then(Identity::cluster_key);
        oss.gate().belongs_to(key.clone());
        let (mds, door) =
            start_mds(entered, settings, share, platform, local, (dial, key), door).await?;
        tell_seals(&mds, &oss, platform);
        disown_refused(&mds, &oss);
        let lives = Lives::new(oss.clone(), Peer::local(mds.clone()));
        // Before anything is served.
        lives.tell().await.map_err(|refusal| {
            Trouble::new("the metadata server does not say which lives of the OSTs are over")
                .because(&refusal)
        })?;
        entered.finish()?;
        let mut options = client_options(&settings.point, &settings.config.mount, calls);
        options.shared = identity.is_some();
        let route = match &as_client {
            None => Route::new(Peer::local(mds.clone()), osts.clone()),
            Some(lines) => Route::found(
                Peer::local(mds.clone()),
                osts.clone(),
                Peer::local(mds.clone()),
                lines.clone(),
                platform.clock.clone(),
            ),
        };
        let client = Client::begin(route, platform.clone(), options)
            .await
            .map_err(|refusal| {
                Trouble::new("the metadata server refused our own client").because(&refusal)
            })?;
        if identity.is_some() {
            mds.attach(client.session(), Peer::local(client.clone()));
        }
        let stamps = platform.tasks.spawn("stamps", {
            let (mds, oss, platform) = (mds.clone(), oss.clone(), platform.clone());
            async move {
                loop {
                    platform.clock.sleep(STAMP_EVERY).await;
                    tell_stamps(&mds, &oss).await;
                    tell_seals(&mds, &oss, &platform);
                }
            }
        });
        let told = platform.tasks.spawn("lives", {
            let (lives, platform) = (lives.clone(), platform.clone());
            async move {
                loop {
                    platform.clock.sleep(LIVES_EVERY).await;
                    if let Err(refusal) = lives.tell().await {
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
            chores: [stamps, told],
        };
        Ok((roles, door))
    }

    /// How many targets do not serve.
    pub async fn down(&self) -> usize {
        let status = self.oss.status().await;
        let serving = |target: &&TargetStatus| target.state == TargetState::Serving;
        status.targets.len() - status.targets.iter().filter(serving).count()
    }

    /// Client first, since it has something to say to both servers; metadata next, since it asks OSTs. All are stopped
    /// whatever fails; false if something did.
    pub async fn stop(&self) -> bool {
        for chore in &self.chores {
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
async fn make_targets(entered: &Entered, cluster: ClusterId, platform: &Platform) -> Outcome<()> {
    for ost in &entered.new_osts {
        let dir = entered.home.ost(*ost);
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Trouble::new(format!("cannot make the target '{}'", dir.display())).because(error)
        };
        let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
        let whose = Whose { cluster, ost: *ost };
        Objects::init(&disk, platform, whose)
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// A target that cannot be opened is down, and no reason for the others not to serve.
async fn open_targets(
    entered: &Entered,
    share: Share,
    cluster: ClusterId,
    platform: &Platform,
) -> Vec<(OstId, gupfs_oss::Target)> {
    // Beside each other: each waits for its own disk.
    let opening = entered.marker.osts().map(|ost| async move {
        let dir = entered.home.ost(ost);
        let target = match open_target(&dir, Whose { cluster, ost }, share, platform).await {
            Ok(objects) => gupfs_oss::Target::Serving(objects),
            Err(why) => {
                tracing::error!(%ost, why, "an OST is down; files with bytes on it give EIO");
                gupfs_oss::Target::Down(why)
            }
        };
        (ost, target)
    });
    join_all(opening).await
}

/// A directory and those right below it: where targets may lie if it is named.
pub fn own_and_below(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            below.push(path);
        }
    }
    below.sort();
    below.insert(0, dir.to_path_buf());
    Ok(below)
}

/// Whose target a directory holds; None if it holds none. Err says why it cannot be told, with the directory.
pub async fn peek_target(dir: &Path) -> Result<Option<Whose>, String> {
    let at = |why: String| format!("'{}': {why}", dir.display());
    let disk = Disk::real(dir).map_err(|error| at(told(&error)))?;
    let found = Objects::peek(&disk).await;
    let found = found.map_err(|error| at(told(&error)))?;
    Ok(found.map(|(whose, _)| whose))
}

/// Err says why, with the directory.
pub async fn open_target(
    dir: &Path,
    whose: Whose,
    share: Share,
    platform: &Platform,
) -> Result<Objects, String> {
    let at = |why: String| format!("'{}': {why}", dir.display());
    let disk = Disk::real(dir).map_err(|error| at(told(&error)))?;
    Objects::open(disk, platform.clone(), whose, share.target)
        .await
        .map_err(|error| at(told(&error)))
}

async fn start_mds(
    entered: &Entered,
    settings: &Settings,
    share: Share,
    platform: &Platform,
    local: Local<'_>,
    (dial, key): (Option<Arc<dyn Dial>>, Option<ClusterKey>),
    mut door: Option<Door>,
) -> Outcome<(Arc<Mds>, Option<Door>)> {
    let dir = entered.home.mds();
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Trouble::new(format!("cannot serve the metadata in '{}'", dir.display())).because(error)
    };
    refuse_lost_metadata(entered)?;
    let disk = Disk::real(&dir).map_err(|error| failed(&error))?;
    let opened = open_metadata(&entered.home, &entered.marker, share, platform).await?;
    let (cluster, incarnation) = (entered.marker.cluster(), entered.marker.metadata());
    let mut surveyed = Vec::new();
    if settings.accept_loss
        && let Some(Door {
            identity,
            listening,
        }) = door
    {
        let surveying = Surveying {
            identity: &identity,
            me: identity.myself(Role::Mds, &entered.home.root().display().to_string()),
            cluster,
            keys: Arc::new(ListFile::of(&entered.home)),
            here: &local.oss.osts(),
            json: settings.json,
        };
        let listening = survey(listening, &opened.0, surveying, platform).await?;
        surveyed = listening.0;
        door = Some(Door {
            listening: listening.1,
            identity,
        });
    }
    let mut options = gupfs_mds::Options::new(opened, disk, platform.clone(), cluster, incarnation);
    options.shards = VirtualShards(entered.marker.virtual_shards);
    options.accept_loss = settings.accept_loss;
    options.keep_sessions = dial.is_some();
    options.dial = dial;
    options.key = key;
    options.surveyed = surveyed;
    for (ost, peer) in local.osts {
        options.targets.push(Target {
            ost: *ost,
            peer: peer.clone(),
            admin: admin_of(local.oss, *ost),
        });
    }
    let mds = Mds::start(options).await.map_err(|error| failed(&error))?;
    Ok((mds, door))
}

/// An empty store is formatted by whoever opens it: right for a new one, the end of all names for another.
pub fn refuse_lost_metadata(entered: &Entered) -> Outcome<()> {
    let dir = entered.home.mds_log();
    let empty = std::fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_none());
    if entered.fresh || !empty {
        return Ok(());
    }
    Err(Trouble::new(format!(
        "'{}' is empty: the metadata is not there",
        dir.display()
    ))
    .todo("if it lies on a disk of its own, mount that; else restore the directory from a backup"))
}

/// The targets of this process.
struct Local<'a> {
    oss: &'a Oss,
    osts: &'a [(OstId, OstPeer)],
}

/// Lines for the metadata server and for the client, if others may join.
fn lines(entered: &Entered, identity: Option<&Identity>) -> [Option<Arc<Lines>>; 2] {
    let name = entered.home.root().display().to_string();
    [Role::Mds, Role::Client].map(|role| {
        let identity = identity?;
        // Two users of one server from one process: each has its own connection.
        let identity = identity.another();
        let me = identity.myself(role, &name);
        Some(Lines::new(&identity, me, entered.marker.cluster(), ""))
    })
}

/// How the client of a mount behaves.
pub fn client_options(
    point: &Path,
    config: &config::Mount,
    calls: Arc<Calls>,
) -> gupfs_client::Options {
    gupfs_client::Options {
        name: format!("{}:{}", host_name(), point.display()),
        atime: match config.atime {
            // Nothing changes through it, not by reading either.
            _ if config.read_only == Some(true) => AtimeRule::Never,
            None | Some(Atime::Relative) => AtimeRule::Relative,
            Some(Atime::Always) => AtimeRule::Always,
            Some(Atime::Never) => AtimeRule::Never,
        },
        directory_atime: config.directory_atime.unwrap_or(true),
        observer: Some(calls),
        ..gupfs_client::Options::default()
    }
}

fn admin_of(oss: &Oss, ost: OstId) -> Result<Arc<dyn Admin>, String> {
    match oss.objects(ost) {
        Ok(objects) => Ok(Arc::new(objects)),
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// A target that is not who it was must not be read by anybody: old bytes would pass for new ones.
fn disown_refused(mds: &Mds, oss: &Oss) {
    for (ost, why) in mds.refused_targets() {
        if let Ok(objects) = oss.objects(ost) {
            objects.refuse(why);
        }
    }
}

async fn tell_stamps(mds: &Mds, oss: &Oss) {
    for ost in oss.osts() {
        if let Err(refusal) = mds.hear(ost, admin_of(oss, ost)).await {
            tracing::error!(%ost, %refusal, "a target is not believed");
        }
    }
}

/// By what other hosts' requests for our targets are believed.
fn tell_seals(mds: &Mds, oss: &Oss, platform: &Platform) {
    let asked = platform.clock.boot();
    if let Some(seals) = mds.seals(&oss.osts()) {
        oss.gate().hear(&seals, asked);
    }
}

/// An error with all it rests on, on one line.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        if !text.contains(&error.to_string()) {
            text = format!("{text}: {error}");
        }
        next = error.source();
    }
    text
}
