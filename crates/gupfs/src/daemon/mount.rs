//! `gupfs mount`: the file system of servers elsewhere, on this host.

use super::start_metrics;
use crate::amount::{Deadline, show_time};
use crate::cluster::{
    ClientCallbacks, MDS_PORT, OssConnections, identity, read_key, read_tls, renew_after_reconnect,
    with_port,
};
use crate::config::Config;
use crate::control::{self, make_base_of_mounts, make_run_of_mount};
use crate::events::print_event;
use crate::exit::{CliError, CliResult, Exit};
use crate::metrics::Calls;
use crate::node::{
    ActiveMount, ControlService, MountSettings, Parts, StopEvents, client_options, judge_kernel,
    try_kernel,
};
use gupfs_client::{Client, Route};
use gupfs_mount::CallDeadlines;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::FsError;
use gupfs_rpc::{ClientConnection, Handlers, Role};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a start waits for the metadata server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an end waits until everything is told.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Settings {
    pub mds: String,
    pub point: PathBuf,
    pub config: Config,
    pub json: bool,
}

/// Serves until it is told to end, or unmounted.
pub async fn run(settings: Settings, platform: &Platform, began: BootTime) -> CliResult<()> {
    let (mut told, ask_stop) = StopEvents::listen()?;
    let config = &settings.config;
    // Where it can be asked, before anything is mounted.
    make_base_of_mounts()?;
    let trial = try_kernel(&config.mount);
    let identity = identity(
        platform,
        read_key(config.cluster.key.as_deref())?,
        read_tls(&config.cluster)?,
    );
    let name = settings.point.display().to_string();
    let me = identity.local_identity(Role::Client, &name);
    let recalled = Arc::new(ClientCallbacks::default());
    let line = ClientConnection::connect(identity.mds_connection_options(
        &with_port(&settings.mds, MDS_PORT),
        &me,
        Handlers::none().with_service(recalled.clone()),
    ));
    let met = tokio::select! {
        met = line.wait_connected(CONNECT_TIMEOUT) => met,
        why = told.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(());
        }
    };
    let to = line.status().address;
    let met = met.map_err(|error| {
        let failed = CliError::new(format!("cannot reach the metadata server at '{to}'"));
        let exit = match error.is_permanent() {
            true => Exit::Unusable,
            false => Exit::NotRunning,
        };
        failed.because(&*error).exit(exit)
    })?;
    let lines = OssConnections::new(&identity, me, met.cluster, &to);
    let calls = Arc::new(Calls::default());
    let route = Route::with_map(
        line.peer(),
        Vec::new(),
        line.peer(),
        lines.clone(),
        platform.clock.clone(),
    );
    let mut options = client_options(&settings.point, &config.mount, calls.clone());
    options.shared = true;
    let client = tokio::select! {
        client = Client::connect_with_route(route, platform.clone(), options) => client,
        why = told.wait() => {
            print_event(settings.json, "stopped", &why);
            return Ok(());
        }
    };
    let client = client.map_err(|refusal: FsError| {
        CliError::new(format!("the metadata server at '{to}' refused us")).because(&refusal)
    })?;
    recalled.set_client(&client);
    let greeting = platform
        .tasks
        .spawn("greet", renew_after_reconnect(line.clone(), client.clone()));
    let mut parts = Parts::new(name, met.cluster, platform, began);
    parts.client = Some(client.clone());
    parts.calls = calls;
    parts.line = Some(line);
    parts.lines.push(lines);
    let parts = Arc::new(parts);
    let wish = MountSettings {
        source: to.clone(),
        point: &settings.point,
        config: &config.mount,
        shared: true,
        in_time: Some(CallDeadlines {
            deadline: config.mount.deadline.unwrap_or(Deadline::DEFAULT).time(),
        }),
        json: settings.json,
    };
    let judgement = tokio::select! {
        judgement = judge_kernel(trial, platform) => judgement?,
        why = told.wait() => {
            print_event(settings.json, "stopping", &why);
            greeting.stop();
            end_session(&settings, &parts, &client, platform).await?;
            print_event(settings.json, "stopped", "stopped before anything was mounted");
            return Ok(());
        }
    };
    let mut mounted = ActiveMount::start(wish, judgement, platform, &client, told).await?;
    let _ = parts.mount.set(mounted.mount().clone());
    let run = make_run_of_mount(mounted.mount().at())?;
    let answers = Arc::new(ControlService {
        parts: parts.clone(),
        stop: ask_stop,
    });
    let control = control::serve(&run, &platform.tasks, answers)?;
    let metrics = start_metrics(config, platform, &parts).await?;
    let ready = format!(
        "{to} mounted at {}, ready in {}; Ctrl-C to stop",
        mounted.mount().at().display(),
        show_time(platform.clock.boot().since(began))
    );
    print_event(settings.json, "ready", &ready);
    let why = mounted.wait_for_unmount().await;
    print_event(settings.json, "stopping", &why);
    mounted.finish().await;
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    greeting.stop();
    let parted = end_session(&settings, &parts, &client, platform).await;
    drop(control);
    let _ = std::fs::remove_dir(&run);
    parted?;
    print_event(settings.json, "stopped", "stopped; everything is kept");
    Ok(())
}

/// Tells the servers the last words of this session.
async fn end_session(
    settings: &Settings,
    parts: &Parts,
    client: &Arc<Client>,
    platform: &Platform,
) -> CliResult<()> {
    let parted = tokio::select! {
        parted = client.stop() => parted,
        () = platform.clock.sleep(END_SESSION_TIMEOUT) => Err(FsError::TimedOut(unreachable_servers(parts))),
    };
    parted.map_err(|refusal| {
        CliError::new(format!("'{}' is unmounted, but not everything could be told to the servers", settings.point.display()))
            .because(&refusal)
            .todo("what fsync acknowledged is kept; sizes of files that were being written are recovered by the metadata server")
    })
}

/// Whom the last words were for, as far as is known who is away.
fn unreachable_servers(parts: &Parts) -> String {
    let lines = parts.lines.iter().flat_map(|lines| lines.status());
    let all = lines.chain(parts.line.iter().map(|line| line.status()));
    let away = all.filter(|line| !line.connected || line.pending_requests > 0);
    let away: Vec<String> = away
        .map(|line| format!("{} at {}", line.peer_name, line.address))
        .collect();
    match away.is_empty() {
        true => "the last words to the servers".into(),
        false => format!("the last words to {}", away.join(", ")),
    }
}
