//! `gupfs oss`: an object server and its targets.

use super::start_metrics;
use crate::amount::show_time;
use crate::cluster::{
    MDS_PORT, OSS_PORT, OssReporter, VerifierReporter, host_number, identity, listen,
    read_cluster_key, read_tls, run_reports, with_port,
};
use crate::config::Config;
use crate::events::print_event;
use crate::exit::{CliError, CliResult, Exit};
use crate::node::{Parts, StopEvents, cluster_handler, nothing_left_to_serve};
use crate::stores::{DescriptorBudget, dir_and_subdirs, open_target, read_target_id};
use gupfs_oss::{DataHandler, Oss, ServedTarget};
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::{ClusterId, OstId};
use gupfs_rpc::{
    AcceptAllClientKeys, AuthKey, ClientConnection, ClientConnectionOptions, Handlers, NoObserver,
    Role,
};
use gupfs_store::object::TargetId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often directories of targets are searched for new ones.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

/// How long an end waits until it is known that lives are over.
const VERIFIER_REPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// How soon the metadata server is told again what it did not take.
const REPORT_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Descriptors are shared among so many targets at least: more may be added while it runs.
const TARGETS_LEAST: usize = 16;

/// How long the metadata server may take to hear that this server ends.
const STOP_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Settings {
    pub config: Config,
    /// Each a target, or a directory of targets.
    pub dirs: Vec<PathBuf>,
    pub json: bool,
}

/// Serves until it is told to end.
pub async fn run(settings: Settings, platform: &Platform, began: BootTime) -> CliResult<()> {
    let (mut told, ask_stop) = StopEvents::listen()?;
    drop(ask_stop);
    let config = &settings.config;
    let identity = identity(
        platform,
        read_cluster_key(config.cluster.key.as_deref())?.map(AuthKey::from),
        read_tls(&config.cluster)?,
    );
    let usual = format!("127.0.0.1:{OSS_PORT}");
    let address = config.cluster.listen.as_deref().unwrap_or(&usual);
    let listening = listen(&identity, address).await?;
    let mds = config.cluster.mds.as_deref().unwrap_or("127.0.0.1");
    let name = settings.dirs[0].display().to_string();
    let me = identity.local_identity(Role::Oss, &name);
    let line = ClientConnection::connect(ClientConnectionOptions {
        request_timeout: Some(Duration::from_secs(5)),
        ..identity.mds_connection_options(&with_port(mds, MDS_PORT), &me, Handlers::none())
    });
    let cluster = tokio::select! {
        cluster = wait_for_mds(&line, &settings) => cluster?,
        why = told.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(());
        }
    };
    let oss = Oss::of_host(host_number(), Vec::<(OstId, ServedTarget)>::new());
    oss.authorizer().set_cluster_key(identity.cluster_key());
    let mut search = TargetSearch {
        dirs: settings.dirs.clone(),
        oss: oss.clone(),
        cluster,
        share: DescriptorBudget::of_this_process(TARGETS_LEAST)?,
        platform: platform.clone(),
        known: BTreeSet::new(),
        complained: BTreeSet::new(),
    };
    search.look().await;
    let mut parts = Parts::new(name, cluster, platform, began);
    parts.oss = Some(oss.clone());
    parts.line = Some(line.clone());
    let parts = Arc::new(parts);
    let advertised = match &config.oss.advertise {
        Some(address) => with_port(address, OSS_PORT),
        None => reachable(&listening.address(), line.local_address()),
    };
    let (heard, mut is_heard) = watch::channel(false);
    let lives = VerifierReporter::new(oss.clone(), line.peer());
    let announced = OssReporter {
        oss: oss.clone(),
        address: advertised.clone(),
        mds: line.peer(),
        verifiers: lives.clone(),
        platform: platform.clone(),
    };
    let last_report = announced.clone();
    let announcing = platform
        .tasks
        .spawn("announce", run_reports(announced, heard));
    // Before the metadata server has heard of these targets nobody knows whether they are who they were.
    let why = tokio::select! {
        _ = is_heard.wait_for(|heard| *heard) => None,
        why = told.wait() => Some(why),
    };
    let hosts = Handlers::none()
        .with_peer_handler(DataHandler::new(&oss, &platform.clock))
        .with_service(cluster_handler(&parts));
    let why = match why {
        Some(why) => why,
        None => {
            // A revoked key opens a connection here, and no more: the metadata server gives it no pass.
            let keys = Arc::new(AcceptAllClientKeys);
            let (attend, capacity) = (Arc::new(NoObserver), search.share.capacity);
            let server = listening.open(&identity, me, cluster, keys, (hosts, attend), capacity);
            let ready = format!(
                "{} OSTs served at {}, told to others as {advertised}, ready in {}; Ctrl-C to stop",
                oss.osts().len(),
                server.address(),
                show_time(platform.clock.boot().since(began))
            );
            let _ = parts.server.set(server);
            let metrics = start_metrics(config, platform, &parts).await?;
            print_event(settings.json, "ready", &ready);
            let why = tokio::select! {
                why = told.wait() => why,
                () = search.run() => "the search for targets ended".into(),
                error = nothing_left_to_serve(None, Some(&oss), &platform.clock) => {
                    tracing::error!(%error, "ending");
                    report_retired_verifiers(&oss, &lives, platform).await;
                    return Err(error);
                }
            };
            if let Some(metrics) = metrics {
                metrics.stop();
            }
            why
        }
    };
    print_event(settings.json, "stopping", &why);
    announcing.stop();
    if let Some(server) = parts.server.get() {
        server.stop();
    }
    let _ = announcing.await; // that it was stopped
    if let Err(refusal) = oss.stop().await {
        report_retired_verifiers(&oss, &lives, platform).await;
        return Err(CliError::new("an OST did not stop cleanly")
            .because(&refusal)
            .todo("the next start recovers"));
    }
    // Without it the metadata server finds out by itself.
    tokio::select! {
        _ = last_report.report_stopped() => {}
        () = platform.clock.sleep(STOP_REPORT_TIMEOUT) => {}
    }
    print_event(settings.json, "stopped", "stopped; everything is kept");
    Ok(())
}

/// Returns when it is known that the lives of targets whose disk failed are over: at the metadata server, and on their disks
/// if these take it.
async fn report_retired_verifiers(oss: &Oss, lives: &VerifierReporter, platform: &Platform) {
    let told = async {
        while let Err(refusal) = lives.report_changes().await {
            tracing::warn!(%refusal, "the metadata server has not heard which lives of OSTs are over");
            platform.clock.sleep(REPORT_RETRY_PAUSE).await;
        }
    };
    tokio::select! {
        _ = async { tokio::join!(oss.wait_verifiers_retired(), told) } => {}
        () = platform.clock.sleep(VERIFIER_REPORT_TIMEOUT) => {
            tracing::error!("it may be unknown that lives of OSTs are over");
        }
    }
}

/// The cluster, told by its metadata server, which is waited for.
async fn wait_for_mds(line: &ClientConnection, settings: &Settings) -> CliResult<ClusterId> {
    let mut told = false;
    loop {
        match line.wait_connected(Duration::from_secs(3)).await {
            Ok(met) => return Ok(met.cluster),
            Err(error) if error.is_permanent() => {
                return Err(CliError::new(format!(
                    "the metadata server at '{}' does not take us",
                    line.status().address
                ))
                .because(&*error)
                .todo("are --key and --tls those of this cluster?")
                .exit(Exit::Unusable));
            }
            Err(error) => {
                if !told {
                    print_event(
                        settings.json,
                        "waiting",
                        &format!(
                            "the metadata server at {} cannot be reached ({error}); waiting for it",
                            line.status().address
                        ),
                    );
                }
                told = true;
            }
        }
    }
}

/// An address that others can use: what we listen at, or, where that is every address of this host, the one from which the
/// metadata server is reached.
fn reachable(listening: &str, near: Option<String>) -> String {
    let (host, port) = listening.rsplit_once(':').unwrap_or((listening, ""));
    let everywhere = host == "0.0.0.0" || host == "[::]";
    match near.as_deref().and_then(|near| near.rsplit_once(':')) {
        Some((near, _)) if everywhere => format!("{near}:{port}"),
        _ => listening.to_string(),
    }
}

/// Looks for targets in the directories that were named.
struct TargetSearch {
    dirs: Vec<PathBuf>,
    oss: Arc<Oss>,
    cluster: ClusterId,
    share: DescriptorBudget,
    platform: Platform,
    /// Directories that are served.
    known: BTreeSet<PathBuf>,
    /// Those of which it was said that they are not.
    complained: BTreeSet<PathBuf>,
}

impl TargetSearch {
    async fn run(&mut self) {
        loop {
            self.platform.clock.sleep(SEARCH_EVERY).await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        for dir in self.candidates() {
            if self.known.contains(&dir) {
                continue;
            }
            match self.try_one(&dir).await {
                Ok(Some(ost)) => {
                    tracing::info!(%ost, dir = %dir.display(), "an OST serves");
                    self.known.insert(dir);
                }
                Ok(None) => {}
                Err(why) => {
                    if self.complained.insert(dir) {
                        tracing::error!(why, "a directory holds no OST that can be served");
                    }
                }
            }
        }
    }

    /// The directories named, and those right below them; of one that cannot be read, itself.
    fn candidates(&self) -> Vec<PathBuf> {
        let dirs = self.dirs.iter();
        dirs.flat_map(|dir| dir_and_subdirs(dir).unwrap_or_else(|_| vec![dir.clone()]))
            .collect()
    }

    /// None for a directory that is no target.
    async fn try_one(&self, dir: &Path) -> Result<Option<OstId>, String> {
        let at = |why: &dyn std::fmt::Display| format!("'{}': {why}", dir.display());
        let Some(target_id) = read_target_id(dir).await? else {
            return Ok(None);
        };
        let TargetId { cluster, ost } = target_id;
        if cluster != self.cluster {
            return Err(at(&format!(
                "it belongs to cluster {cluster}, not to {}",
                self.cluster
            )));
        }
        let target = match open_target(dir, target_id, self.share, &self.platform).await {
            Ok(objects) => ServedTarget::Serving(objects),
            Err(why) => {
                let _ = self.oss.add(ost, ServedTarget::Down(why.clone()));
                return Err(why);
            }
        };
        match self.oss.add(ost, target) {
            Ok(()) => Ok(Some(ost)),
            Err(_) => Err(at(&format!("another directory is ost{ost} already"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_told_as_the_one_that_leads_to_the_metadata_server() {
        let near = || Some("10.0.0.7:51234".to_string());
        assert_eq!(reachable("0.0.0.0:7701", near()), "10.0.0.7:7701");
        assert_eq!(reachable("192.168.1.1:7701", near()), "192.168.1.1:7701");
        assert_eq!(reachable("0.0.0.0:7701", None), "0.0.0.0:7701");
    }
}
