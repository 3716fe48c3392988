//! `gupfs mount`: mounts the file system of remote servers.

use super::start_metrics;
use crate::amount::{Deadline, show_time};
use crate::cluster::{identity, read_key, read_tls};
use crate::config::{Config, Relay};
use crate::control::{self, make_base_of_mounts, make_run_of_mount};
use crate::events::print_event;
use crate::exit::{CliError, CliResult};
use crate::metrics::Calls;
use crate::node::{
    ActiveMount, ControlService, MountSettings, Parts, StopEvents, client_options, kernel_verdict,
    print_stopping, probe_kernel,
};
use gupfs_files::{ClusterSession, DialedCluster};
use gupfs_mount::CallDeadlines;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::FsError;
use gupfs_rpc::{ClientConnection, ConnectError, PeerIdentity};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a start waits for the metadata server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a start that waits for the metadata server looks for another reason.
const SAY_INTERVAL: Duration = Duration::from_millis(500);

/// How long the stop waits until the session has reported everything to the servers.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of `gupfs mount`.
pub struct Settings {
    pub mds: String,
    pub point: PathBuf,
    pub config: Config,
    pub json: bool,
}

/// Mounts, and serves until a stop event or an unmount.
///
/// # Errors
/// If the metadata server cannot be reached or refuses this client, the file system cannot be mounted, the mount was aborted, or the
/// session cannot report everything to the servers at its end.
pub async fn run(settings: Settings, platform: &Platform, began: BootTime) -> CliResult<()> {
    let (mut stop_events, stop_sender) = StopEvents::listen()?;
    let config = &settings.config;
    // Before the mount, because it can fail.
    make_base_of_mounts()?;
    let probe = probe_kernel(&config.mount, true);
    let calls = Arc::new(Calls::default());
    let connecting = connect(&settings, platform, calls.clone(), &mut stop_events);
    let Some(session) = connecting.await? else {
        return Ok(());
    };
    let client = &session.client;
    let name = settings.point.display().to_string();
    let mut parts = Parts::new(name, session.cluster, platform, began);
    parts.client = Some(client.clone());
    parts.calls = calls;
    parts.mds_connection = Some(session.mds_connection.clone());
    parts.oss_connections.push(session.oss_connections.clone());
    let parts = Arc::new(parts);
    let mount_settings = MountSettings {
        source: session.mds_address.clone(),
        point: &settings.point,
        config: &config.mount,
        shared: true,
        call_deadlines: Some(CallDeadlines {
            deadline: config.mount.deadline.unwrap_or(Deadline::DEFAULT).time(),
        }),
        json: settings.json,
    };
    let verdict = tokio::select! {
        verdict = kernel_verdict(probe, platform) => verdict?,
        why = stop_events.wait() => {
            print_event(settings.json, "stopping", &why);
            end_session(&settings, &session, platform).await?;
            print_event(settings.json, "stopped", "stopped before the file system was mounted");
            return Ok(());
        }
    };
    let mut mounted =
        ActiveMount::start(mount_settings, verdict, platform, client, stop_events).await?;
    let _ = parts.mount.set(mounted.mount().clone());
    let run = make_run_of_mount(mounted.mount().at())?;
    let control_service = Arc::new(ControlService {
        parts: parts.clone(),
        stop: stop_sender,
    });
    let control = control::serve(&run, &platform.tasks, control_service)?;
    let metrics = start_metrics(config, platform, &parts).await?;
    let ready = format!(
        "{} mounted at {}, ready in {}; Ctrl-C to stop",
        session.mds_address,
        mounted.mount().at().display(),
        show_time(platform.clock.boot().since(began))
    );
    print_event(settings.json, "ready", &ready);
    let mount_ended = mounted.wait_for_unmount().await;
    print_stopping(settings.json, &mount_ended);
    mounted.finish().await;
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    let session_ended = end_session(&settings, &session, platform).await;
    drop(control);
    let _ = std::fs::remove_dir(&run);
    mount_ended?;
    session_ended?;
    print_event(settings.json, "stopped", "stopped; all data is kept");
    Ok(())
}

/// Connects to the metadata server and opens a session; None if a stop event came first.
async fn connect(
    settings: &Settings,
    platform: &Platform,
    calls: Arc<Calls>,
    stop_events: &mut StopEvents,
) -> CliResult<Option<ClusterSession>> {
    let config = &settings.config;
    let identity = identity(
        platform,
        read_key(config.cluster.key.as_deref())?,
        read_tls(&config.cluster)?,
    );
    let name = settings.point.display().to_string();
    let dialed = DialedCluster::dial(identity, &settings.mds, &name);
    let server = tokio::select! {
        server = wait_connected(&dialed.mds_connection, settings.json, platform) => server,
        why = stop_events.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(None);
        }
    };
    let server = server.map_err(|error| dialed.unreachable(error))?;
    let mut options = client_options(&settings.point, &config.mount, calls);
    options.shared = true;
    options.write_behind = config.mount.write_behind.unwrap_or(true);
    options.relay = config.mount.relay.unwrap_or(Relay::Auto).mode();
    tokio::select! {
        session = dialed.open_session(&server, options) => Ok(Some(session?)),
        why = stop_events.wait() => {
            print_event(settings.json, "stopped", &why);
            Ok(None)
        }
    }
}

/// Waits for the first connection, and says what is wrong as long as there is none.
async fn wait_connected(
    connection: &ClientConnection,
    json: bool,
    platform: &Platform,
) -> Result<PeerIdentity, Arc<ConnectError>> {
    let mut connected = pin!(connection.wait_connected(CONNECT_TIMEOUT));
    let mut said = None;
    loop {
        tokio::select! {
            biased;
            connected = &mut connected => return connected,
            () = platform.clock.sleep(SAY_INTERVAL) => {}
        }
        let status = connection.status();
        if status.last_error.is_some() && status.last_error != said {
            let text = format!(
                "waits for the metadata server at '{}', for a minute at most: {}",
                status.address,
                status.last_error.as_deref().unwrap_or_default()
            );
            print_event(json, "waiting", &text);
            said = status.last_error;
        }
    }
}

/// Ends the session: it reports open files and releases its write leases.
async fn end_session(
    settings: &Settings,
    session: &ClusterSession,
    platform: &Platform,
) -> CliResult<()> {
    session.stop_renewal();
    let ended = tokio::select! {
        ended = session.client.stop() => ended,
        () = platform.clock.sleep(END_SESSION_TIMEOUT) => Err(FsError::TimedOut(session.unreachable_servers())),
    };
    ended.map_err(|refusal| {
        CliError::new(format!("'{}' is unmounted, but the session could not report everything to the servers", settings.point.display()))
            .because(&refusal)
            .todo("data that fsync acknowledged is kept; the metadata server recovers the sizes of files that were being written")
    })
}
