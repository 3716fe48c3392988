//! `gupfs mount`: the file system of servers elsewhere, on this host.

use super::start_metrics;
use crate::amount::{Deadline, show_time};
use crate::cluster::{
    Lines, MDS_PORT, Recalled, greet_again, identity, read_key, read_tls, with_port,
};
use crate::config::Config;
use crate::control::{self, make_base_of_mounts, make_run_of_mount};
use crate::exit::{Exit, Outcome, Trouble};
use crate::metrics::Calls;
use crate::node::{
    Answers, MountWish, Mounted, Parts, Told, client_options, judge_kernel, say, try_kernel,
};
use gupfs_client::{Client, Route};
use gupfs_mount::InTime;
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::Refusal;
use gupfs_rpc::{Hosts, Line, Role};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a start waits for the metadata server.
const MEETING: Duration = Duration::from_secs(60);

/// How long an end waits until everything is told.
const PARTING: Duration = Duration::from_secs(30);

pub struct Settings {
    pub mds: String,
    pub point: PathBuf,
    pub config: Config,
    pub json: bool,
}

/// Serves until it is told to end, or unmounted.
pub async fn run(settings: Settings, platform: &Platform, began: BootTime) -> Outcome<()> {
    let (mut told, ask_stop) = Told::listen()?;
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
    let me = identity.myself(Role::Client, &name);
    let recalled = Arc::new(Recalled::default());
    let line = Line::open(identity.line_to_mds(
        &with_port(&settings.mds, MDS_PORT),
        &me,
        Hosts::none().with(recalled.clone()),
    ));
    let met = tokio::select! {
        met = line.ready(MEETING) => met,
        why = told.wait() => {
            say(settings.json, "stopped", &why);
            return Ok(());
        }
    };
    let to = line.status().to;
    let met = met.map_err(|error| {
        let trouble = Trouble::new(format!("cannot reach the metadata server at '{to}'"));
        let exit = match error.is_for_good() {
            true => Exit::Unusable,
            false => Exit::NotRunning,
        };
        trouble.because(&*error).exit(exit)
    })?;
    let lines = Lines::new(&identity, me, met.cluster, &to);
    let calls = Arc::new(Calls::default());
    let route = Route::found(
        line.peer(),
        Vec::new(),
        line.peer(),
        lines.clone(),
        platform.clock.clone(),
    );
    let mut options = client_options(&settings.point, &config.mount, calls.clone());
    options.shared = true;
    let client = tokio::select! {
        client = Client::begin(route, platform.clone(), options) => client,
        why = told.wait() => {
            say(settings.json, "stopped", &why);
            return Ok(());
        }
    };
    let client = client.map_err(|refusal: Refusal| {
        Trouble::new(format!("the metadata server at '{to}' refused us")).because(&refusal)
    })?;
    recalled.answered_by(&client);
    let greeting = platform
        .tasks
        .spawn("greet", greet_again(line.clone(), client.clone()));
    let mut parts = Parts::new(name, met.cluster, platform, began);
    parts.client = Some(client.clone());
    parts.calls = calls;
    parts.line = Some(line);
    parts.lines.push(lines);
    let parts = Arc::new(parts);
    let wish = MountWish {
        source: to.clone(),
        point: &settings.point,
        config: &config.mount,
        shared: true,
        in_time: Some(InTime {
            deadline: config.mount.deadline.unwrap_or(Deadline::DEFAULT).time(),
        }),
        json: settings.json,
    };
    let judgement = tokio::select! {
        judgement = judge_kernel(trial, platform) => judgement?,
        why = told.wait() => {
            say(settings.json, "stopping", &why);
            greeting.stop();
            part(&settings, &parts, &client, platform).await?;
            say(settings.json, "stopped", "stopped before anything was mounted");
            return Ok(());
        }
    };
    let mut mounted = Mounted::start(wish, judgement, platform, &client, told).await?;
    let _ = parts.mount.set(mounted.mount().clone());
    let run = make_run_of_mount(mounted.mount().at())?;
    let answers = Arc::new(Answers {
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
    say(settings.json, "ready", &ready);
    let why = mounted.wait_for_the_end().await;
    say(settings.json, "stopping", &why);
    mounted.finish().await;
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    greeting.stop();
    let parted = part(&settings, &parts, &client, platform).await;
    drop(control);
    let _ = std::fs::remove_dir(&run);
    parted?;
    say(settings.json, "stopped", "stopped; everything is kept");
    Ok(())
}

/// Tells the servers the last words of this session.
async fn part(
    settings: &Settings,
    parts: &Parts,
    client: &Arc<Client>,
    platform: &Platform,
) -> Outcome<()> {
    let parted = tokio::select! {
        parted = client.stop() => parted,
        () = platform.clock.sleep(PARTING) => Err(Refusal::TimedOut(last_words(parts))),
    };
    parted.map_err(|refusal| {
        Trouble::new(format!("'{}' is unmounted, but not everything could be told to the servers", settings.point.display()))
            .because(&refusal)
            .todo("what fsync acknowledged is kept; sizes of files that were being written are recovered by the metadata server")
    })
}

/// Whom the last words were for, as far as is known who is away.
fn last_words(parts: &Parts) -> String {
    let lines = parts.lines.iter().flat_map(|lines| lines.status());
    let all = lines.chain(parts.line.iter().map(|line| line.status()));
    let away = all.filter(|line| !line.connected || line.open_questions > 0);
    let away: Vec<String> = away
        .map(|line| format!("{} at {}", line.whom, line.to))
        .collect();
    match away.is_empty() {
        true => "the last words to the servers".into(),
        false => format!("the last words to {}", away.join(", ")),
    }
}
