//! `gupfs oss`: an object server and its targets.

use super::start_metrics;
use crate::amount::show_time;
use crate::cluster::{
    MDS_PORT, OSS_PORT, host_number, identity, is_wildcard, listen, mds_addresses,
    read_cluster_key, read_tls, with_port,
};
use crate::config::Config;
use crate::events::print_event;
use crate::exit::{CliError, CliResult, Exit};
use crate::node::{ClusterHandler, Parts, StopEvents, wait_for_store_failure};
use crate::stores::{DescriptorBudget, dir_and_subdirs, open_target, read_target_id};
use gupfs_accounting::JobTable;
use gupfs_oss::{
    DataHandler, Oss, OssReporter, ServedTarget, VerifierReporter, WriteRelay, run_reports,
};
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::{ClusterId, OstId};
use gupfs_rpc::{
    AcceptAllClientKeys, AuthKey, ClientConnection, ClientConnectionOptions, Handlers, NoObserver,
    OssConnections, Role,
};
use gupfs_store::object::TargetId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the directories are searched for new targets.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// How long the stop waits until the retired write verifiers are recorded.
const VERIFIER_REPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause before a report that the metadata server did not accept is sent again.
const REPORT_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The descriptor budget is for at least so many targets, because targets may be added while the server runs.
const TARGETS_MIN: usize = 16;

/// How long the announcement that this server stops its targets may take.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the report that this server stops may take.
const STOP_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of `gupfs oss`.
pub struct Settings {
    pub config: Config,
    /// Targets, or directories that contain targets.
    pub dirs: Vec<PathBuf>,
    pub json: bool,
}

/// Serves until a stop event.
///
/// # Errors
/// If the address cannot be bound, the metadata server rejects this server for good, all OSTs fail, or an OST does not stop cleanly.
pub async fn run(settings: Settings, platform: &Platform, began: BootTime) -> CliResult<()> {
    let (mut stop_events, stop_sender) = StopEvents::listen()?;
    // An object server has no control socket.
    drop(stop_sender);
    let config = &settings.config;
    let identity = identity(
        platform,
        read_cluster_key(config.cluster.key.as_deref())?.map(AuthKey::from),
        read_tls(&config.cluster)?,
    );
    let default = format!("127.0.0.1:{OSS_PORT}");
    let address = config.cluster.listen.as_deref().unwrap_or(&default);
    let listener = listen(&identity, address).await?;
    let mds = config.cluster.mds.as_deref().unwrap_or("127.0.0.1");
    let name = settings.dirs[0].display().to_string();
    let local = identity.local_identity(Role::Oss, &name);
    let mds_connection = ClientConnection::connect(ClientConnectionOptions {
        request_timeout: Some(Duration::from_secs(5)),
        ..identity.mds_connection_options(&mds_addresses(mds), &local, Handlers::none())
    });
    let cluster = tokio::select! {
        cluster = wait_for_mds(&mds_connection, &settings) => cluster?,
        why = stop_events.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(());
        }
    };
    let oss = Oss::of_host(host_number(), Vec::<(OstId, ServedTarget)>::new());
    oss.authorizer().set_cluster_key(identity.cluster_key());
    let first = with_port(mds.split(',').next().unwrap_or(mds), MDS_PORT);
    let others = OssConnections::new(&identity, local.clone(), cluster, &first);
    oss.set_jobs(Arc::new(JobTable::new(platform.clock.clone())));
    oss.set_relay(WriteRelay::new(mds_connection.peer(), others, platform));
    let mut search = TargetSearch {
        dirs: settings.dirs.clone(),
        oss: oss.clone(),
        cluster,
        budget: DescriptorBudget::of_this_process(TARGETS_MIN)?,
        platform: platform.clone(),
        known: BTreeSet::new(),
        reported: BTreeSet::new(),
    };
    search.add_new().await;
    let mut parts = Parts::new(name, cluster, platform, began);
    parts.oss = Some(oss.clone());
    parts.mds_connection = Some(mds_connection.clone());
    let parts = Arc::new(parts);
    let advertised = match &config.oss.advertise {
        Some(address) => with_port(address, OSS_PORT),
        None => reachable_address(&listener.address(), mds_connection.local_address()),
    };
    let (report_sent, mut first_report) = watch::channel(false);
    let verifier_reporter = VerifierReporter::new(oss.clone(), mds_connection.peer());
    let reporter = OssReporter {
        oss: oss.clone(),
        address: advertised.clone(),
        domain: config.oss.domain,
        mds: mds_connection.peer(),
        verifiers: verifier_reporter.clone(),
        platform: platform.clone(),
    };
    let last_report = reporter.clone();
    let reports = platform
        .tasks
        .spawn("reports", run_reports(reporter, report_sent));
    // Requests come only after the metadata server has received a report and checked the identities of the targets.
    let why = tokio::select! {
        _ = first_report.wait_for(|sent| *sent) => None,
        why = stop_events.wait() => Some(why),
    };
    let handlers = Handlers::none()
        .with_peer_handler(DataHandler::new(&oss, &platform.clock))
        .with_service(ClusterHandler::new(&parts));
    let why = match why {
        Some(why) => why,
        None => {
            // A host with a revoked key can connect, but the metadata server issues no capabilities for it.
            let keys = Arc::new(AcceptAllClientKeys);
            let (observer, capacity) = (Arc::new(NoObserver), search.budget.capacity);
            let server = listener.serve(
                &identity,
                local,
                cluster,
                keys,
                (handlers, observer),
                capacity,
            );
            let ready = format!(
                "{} OSTs served at {}, advertised as {advertised}, ready in {}; Ctrl-C to stop",
                oss.osts().len(),
                server.address(),
                show_time(platform.clock.boot().since(began))
            );
            let _ = parts.server.set(server);
            let metrics = start_metrics(config, platform, &parts).await?;
            print_event(settings.json, "ready", &ready);
            let why = tokio::select! {
                why = stop_events.wait() => why,
                () = search.run() => "the search for targets ended".into(),
                error = wait_for_store_failure(None, Some(&oss), &platform.clock) => {
                    tracing::error!(%error, "stopping this process");
                    report_retired_verifiers(&oss, &verifier_reporter, platform).await;
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
    reports.stop();
    // While the targets still serve: writers of mirrored files then go on without them at once.
    tokio::select! {
        announced = last_report.announce_stop() => {
            if let Err(refusal) = announced {
                tracing::debug!(%refusal, "the metadata server does not tell sessions that the OSTs stop");
            }
        }
        () = platform.clock.sleep(ANNOUNCE_TIMEOUT) => {}
    }
    if let Some(server) = parts.server.get() {
        server.stop();
    }
    let _ = reports.await; // stopped above
    stop_server(&oss, &verifier_reporter, &last_report, platform).await?;
    print_event(settings.json, "stopped", "stopped; all data is kept");
    Ok(())
}

async fn stop_server(
    oss: &Oss,
    verifier_reporter: &VerifierReporter,
    reporter: &OssReporter,
    platform: &Platform,
) -> CliResult<()> {
    if let Err(refusal) = oss.stop().await {
        report_retired_verifiers(oss, verifier_reporter, platform).await;
        return Err(CliError::new("an OST did not stop cleanly")
            .because(&refusal)
            .todo("the next start recovers it"));
    }
    // Without this report the metadata server notices the end of the connection.
    tokio::select! {
        _ = reporter.report_stopped() => {}
        () = platform.clock.sleep(STOP_REPORT_TIMEOUT) => {}
    }
    Ok(())
}

/// Waits, up to a timeout, until the write verifiers of failed targets are recorded as retired: at the metadata server, and on the
/// disks of the targets if these can still be written.
async fn report_retired_verifiers(oss: &Oss, reporter: &VerifierReporter, platform: &Platform) {
    let reported = async {
        while let Err(refusal) = reporter.report_changes().await {
            tracing::warn!(%refusal, "cannot report the retired write verifiers of OSTs to the metadata server");
            platform.clock.sleep(REPORT_RETRY_PAUSE).await;
        }
    };
    tokio::select! {
        _ = async { tokio::join!(oss.wait_verifiers_retired(), reported) } => {}
        () = platform.clock.sleep(VERIFIER_REPORT_TIMEOUT) => {
            tracing::error!("the retired write verifiers of OSTs may not be recorded");
        }
    }
}

/// Waits for the metadata server; returns its cluster.
async fn wait_for_mds(connection: &ClientConnection, settings: &Settings) -> CliResult<ClusterId> {
    let mut printed = false;
    loop {
        match connection.wait_connected(Duration::from_secs(3)).await {
            Ok(server) => return Ok(server.cluster),
            Err(error) if error.is_permanent() => {
                return Err(CliError::new(format!(
                    "the metadata server at '{}' does not accept this object server",
                    connection.status().address
                ))
                .because(&*error)
                .todo("check that --key and --tls are those of this cluster")
                .exit(Exit::Unusable));
            }
            Err(error) => {
                if !printed {
                    print_event(
                        settings.json,
                        "waiting",
                        &format!(
                            "the metadata server at {} cannot be reached ({error}); waiting for it",
                            connection.status().address
                        ),
                    );
                }
                printed = true;
            }
        }
    }
}

/// An address that other hosts can connect to: the listening address or, if that is the wildcard address, the local address of the
/// connection to the metadata server.
fn reachable_address(listening: &str, local: Option<String>) -> String {
    let (_, port) = listening.rsplit_once(':').unwrap_or((listening, ""));
    match local.as_deref().and_then(|local| local.rsplit_once(':')) {
        Some((local, _)) if is_wildcard(listening) => format!("{local}:{port}"),
        _ => listening.to_string(),
    }
}

/// Searches the directories of the command line for targets, and adds them to the object server.
struct TargetSearch {
    dirs: Vec<PathBuf>,
    oss: Arc<Oss>,
    cluster: ClusterId,
    budget: DescriptorBudget,
    platform: Platform,
    /// Directories of served targets.
    known: BTreeSet<PathBuf>,
    /// Directories that an error was logged for.
    reported: BTreeSet<PathBuf>,
}

impl TargetSearch {
    async fn run(&mut self) {
        loop {
            self.platform.clock.sleep(SEARCH_INTERVAL).await;
            self.add_new().await;
        }
    }

    async fn add_new(&mut self) {
        for dir in self.candidates() {
            if self.known.contains(&dir) {
                continue;
            }
            match self.add_target(&dir).await {
                Ok(Some(ost)) => {
                    tracing::info!(%ost, dir = %dir.display(), "an OST was added");
                    self.known.insert(dir);
                }
                Ok(None) => {}
                Err(why) => {
                    if self.reported.insert(dir) {
                        tracing::error!(why, "cannot serve an OST");
                    }
                }
            }
        }
    }

    /// The directories of the command line and their subdirectories.
    fn candidates(&self) -> Vec<PathBuf> {
        let dirs = self.dirs.iter();
        dirs.flat_map(|dir| dir_and_subdirs(dir).unwrap_or_else(|_| vec![dir.clone()]))
            .collect()
    }

    /// Adds the target in a directory; None if the directory holds none.
    async fn add_target(&self, dir: &Path) -> Result<Option<OstId>, String> {
        let at = |why: &dyn std::fmt::Display| format!("'{}': {why}", dir.display());
        let Some(target_id) = read_target_id(dir).await? else {
            return Ok(None);
        };
        let TargetId { cluster, ost } = target_id;
        if cluster != self.cluster {
            return Err(at(&format!(
                "it belongs to cluster {cluster}, and the metadata server serves cluster {}",
                self.cluster
            )));
        }
        let target = match open_target(dir, target_id, self.budget, &self.platform).await {
            Ok(objects) => ServedTarget::Serving(objects),
            Err(why) => {
                let _ = self.oss.add(ost, ServedTarget::Down(why.clone()));
                return Err(why);
            }
        };
        match self.oss.add(ost, target) {
            Ok(()) => Ok(Some(ost)),
            Err(_) => Err(at(&format!("ost{ost} is served from another directory"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_address_is_advertised_as_the_one_that_reaches_the_metadata_server() {
        let local = || Some("10.0.0.7:51234".to_string());
        assert_eq!(reachable_address("0.0.0.0:7701", local()), "10.0.0.7:7701");
        assert_eq!(
            reachable_address("192.168.1.1:7701", local()),
            "192.168.1.1:7701"
        );
        assert_eq!(reachable_address("0.0.0.0:7701", None), "0.0.0.0:7701");
    }
}
