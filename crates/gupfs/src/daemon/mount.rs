//! `gupfs mount`: mounts the file system of remote servers.

use super::start_metrics;
use crate::amount::{Deadline, show_time};
use crate::cluster::{identity, mds_addresses, read_key, read_tls};
use crate::config::{Config, Relay};
use crate::control::{self, make_base_of_mounts, make_run_of_mount};
use crate::events::print_event;
use crate::exit::{CliError, CliResult, Exit};
use crate::metrics::Calls;
use crate::node::{
    ActiveMount, ControlService, MountSettings, Parts, StopEvents, client_options, kernel_verdict,
    print_stopping, probe_kernel,
};
use gupfs_client::{Client, ClientCallbacks, Route, renew_after_reconnect};
use gupfs_mount::CallDeadlines;
use gupfs_platform::{BootTime, Platform, Task};
use gupfs_proto::{ClusterId, FsError};
use gupfs_rpc::{ClientConnection, ConnectError, Handlers, OssConnections, PeerIdentity, Role};
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
    let Some(session) = connect(&settings, platform, &mut stop_events).await? else {
        return Ok(());
    };
    let MountSession {
        client, renewal, ..
    } = &session;
    let name = settings.point.display().to_string();
    let mut parts = Parts::new(name, session.cluster, platform, began);
    parts.client = Some(client.clone());
    parts.calls = session.calls.clone();
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
            renewal.stop();
            end_session(&settings, &parts, client, platform).await?;
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
    renewal.stop();
    let session_ended = end_session(&settings, &parts, client, platform).await;
    drop(control);
    let _ = std::fs::remove_dir(&run);
    mount_ended?;
    session_ended?;
    print_event(settings.json, "stopped", "stopped; all data is kept");
    Ok(())
}

/// A session at the metadata server, with its connections.
struct MountSession {
    client: Arc<Client>,
    cluster: ClusterId,
    mds_address: String,
    mds_connection: Arc<ClientConnection>,
    oss_connections: Arc<OssConnections>,
    calls: Arc<Calls>,
    renewal: Task<()>,
}

/// Connects to the metadata server and opens a session; None if a stop event came first.
async fn connect(
    settings: &Settings,
    platform: &Platform,
    stop_events: &mut StopEvents,
) -> CliResult<Option<MountSession>> {
    let config = &settings.config;
    let identity = identity(
        platform,
        read_key(config.cluster.key.as_deref())?,
        read_tls(&config.cluster)?,
    );
    let name = settings.point.display().to_string();
    let local = identity.local_identity(Role::Client, &name);
    let callbacks = Arc::new(ClientCallbacks::default());
    let mds_connection = ClientConnection::connect(identity.mds_connection_options(
        &mds_addresses(&settings.mds),
        &local,
        Handlers::none().with_service(callbacks.clone()),
    ));
    let server = tokio::select! {
        server = wait_connected(&mds_connection, settings.json, platform) => server,
        why = stop_events.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(None);
        }
    };
    let address = mds_connection.status().address;
    let server = server.map_err(|error| {
        let failed = CliError::new(format!("cannot reach the metadata server at '{address}'"));
        let exit = match error.is_permanent() {
            true => Exit::Unusable,
            false => Exit::NotRunning,
        };
        failed.because(&*error).exit(exit)
    })?;
    let oss_connections = OssConnections::new(&identity, local, server.cluster, &address);
    let calls = Arc::new(Calls::default());
    let route = Route::with_map(
        mds_connection.peer(),
        Vec::new(),
        mds_connection.peer(),
        oss_connections.clone(),
        platform.clock.clone(),
    );
    let mut options = client_options(&settings.point, &config.mount, calls.clone());
    options.shared = true;
    options.write_behind = config.mount.write_behind.unwrap_or(true);
    options.relay = config.mount.relay.unwrap_or(Relay::Auto).mode();
    let client = tokio::select! {
        client = Client::connect_with_route(route, platform.clone(), options) => client,
        why = stop_events.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(None);
        }
    };
    let client = client.map_err(|refusal: FsError| {
        CliError::new(format!(
            "the metadata server at '{address}' refused this client"
        ))
        .because(&refusal)
    })?;
    callbacks.set_client(&client);
    let renewal = platform.tasks.spawn(
        "renew after reconnect",
        renew_after_reconnect(mds_connection.clone(), client.clone()),
    );
    Ok(Some(MountSession {
        client,
        cluster: server.cluster,
        mds_address: address,
        mds_connection,
        oss_connections,
        calls,
        renewal,
    }))
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
    parts: &Parts,
    client: &Arc<Client>,
    platform: &Platform,
) -> CliResult<()> {
    let ended = tokio::select! {
        ended = client.stop() => ended,
        () = platform.clock.sleep(END_SESSION_TIMEOUT) => Err(FsError::TimedOut(unreachable_servers(parts))),
    };
    ended.map_err(|refusal| {
        CliError::new(format!("'{}' is unmounted, but the session could not report everything to the servers", settings.point.display()))
            .because(&refusal)
            .todo("data that fsync acknowledged is kept; the metadata server recovers the sizes of files that were being written")
    })
}

/// The servers that the end of the session waits for.
fn unreachable_servers(parts: &Parts) -> String {
    let oss_connections = parts.oss_connections.iter();
    let oss_connections = oss_connections.flat_map(|connections| connections.status());
    let mds_connection = parts.mds_connection.iter();
    let all = oss_connections.chain(mds_connection.map(|connection| connection.status()));
    let unreachable = all.filter(|status| !status.connected || status.pending_requests > 0);
    let unreachable: Vec<String> = unreachable
        .map(|status| format!("{} at {}", status.peer_name, status.address))
        .collect();
    match unreachable.is_empty() {
        true => "the last reports to the servers".into(),
        false => format!("the last reports to {}", unreachable.join(", ")),
    }
}
