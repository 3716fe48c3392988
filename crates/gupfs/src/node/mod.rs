//! # node: all roles in one process
//!
//! Owns   the order in which stores, servers, client and mount are started and stopped; what ends the process.
//! Never  takes part in an operation.
//! Enter  at `Node::start`, then `Node::serve_until_told`.

mod answers;
mod descriptors;
mod guard;
mod layout;
mod metadata;
mod numbers;
mod roles;
mod status;
mod unmount;

pub use descriptors::Share;
pub use layout::LayoutView;
pub use metadata::open_metadata;
pub use roles::open_target;
pub use status::{Offline, StatusAnswer};

use crate::amount::show_time;
use crate::config::{Config, Transport};
use crate::control::{self, Served};
use crate::exit::{OrTrouble, Outcome, Trouble};
use crate::home::Entered;
use crate::kernel::{self, Judgement, Trial, Which};
use crate::metrics::{self, Calls};
use answers::Answers;
use guard::Guard;
use gupfs_door::over_io_uring::{self, Support};
use gupfs_mount::Mount;
use gupfs_world::{BootTime, Task, World};
use roles::Roles;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// What the command line and the configuration say together.
pub struct Settings {
    pub point: PathBuf,
    pub config: Config,
    pub accept_loss: bool,
    /// Events as JSON lines instead of sentences.
    pub json: bool,
}

/// A process that serves.
pub struct Node {
    entered: Entered,
    settings: Settings,
    world: World,
    roles: Arc<Roles>,
    mount: Arc<Mount>,
    /// None where the kernel gives no means to abort a mount.
    guard: Option<Guard>,
    _control: Served,
    metrics: Option<Task<()>>,
    stops: mpsc::Receiver<StopRequest>,
    signals: Signals,
}

/// Somebody asked through the control socket.
pub struct StopRequest {
    pub force: bool,
    pub answer: oneshot::Sender<Result<(), String>>,
}

impl Node {
    /// `began` is when the command was given: the ready line tells how long it took.
    pub async fn start(
        mut entered: Entered,
        settings: Settings,
        world: &World,
        began: BootTime,
    ) -> Outcome<Node> {
        // Before anything is started: a signal from here on ends us cleanly.
        let signals = Signals::listen()?;
        let trial = try_kernel(&settings);
        let calls = Arc::new(Calls::default());
        let roles = Roles::start(&mut entered, &settings, world, calls.clone()).await?;
        let roles = Arc::new(roles);
        let mounted = match judge_kernel(trial, world).await {
            Ok(judgement) => start_mount(&entered, &settings, judgement, world, &roles).await,
            Err(trouble) => Err(trouble),
        };
        let (mount, guard) = match mounted {
            Ok(mounted) => mounted,
            Err(trouble) => {
                roles.stop().await;
                return Err(trouble);
            }
        };
        let (ask_stop, stops) = mpsc::channel(1);
        let answers = Arc::new(Answers {
            home: entered.home.clone(),
            marker: entered.marker.clone(),
            world: world.clone(),
            started: began,
            roles: roles.clone(),
            mount: mount.clone(),
            calls,
            stop: ask_stop,
        });
        let control = control::serve(&entered.home, &world.tasks, answers.clone())?;
        let metrics = match settings.config.metrics.listen {
            Some(listen) => {
                let (address, task) = metrics::serve(listen, &world.tasks, answers).await?;
                tracing::info!("metrics at http://{address}/metrics");
                Some(task)
            }
            None => None,
        };
        let node = Node {
            entered,
            settings,
            world: world.clone(),
            roles,
            mount,
            guard,
            _control: control,
            metrics,
            stops,
            signals,
        };
        node.say_ready(began).await;
        Ok(node)
    }

    /// Until a signal, `gupfs stop`, or an unmount from outside; then everything is stopped in order.
    pub async fn serve_until_told(mut self) -> Outcome<()> {
        let why = self.wait_for_the_end().await;
        self.say("stopping", &why);
        // The kernel's last requests (releases of what was open) are answered before the session has ended.
        let mount = self.mount.clone();
        self.world
            .tasks
            .blocking(move || mount.session().wait())
            .await;
        if let Some(guard) = self.guard {
            guard.farewell();
        }
        if let Some(metrics) = &self.metrics {
            metrics.stop();
        }
        let clean = self.roles.stop().await;
        let _ = std::fs::remove_file(self.entered.home.pid());
        if !clean {
            return Err(Trouble::new(format!(
                "'{}' is unmounted, but did not stop cleanly; the log says what failed",
                self.entered.home.root().display()
            ))
            .todo("the next start recovers; `gupfs check` looks for damage"));
        }
        say(self.settings.json, "stopped", "stopped; everything is kept");
        Ok(())
    }

    async fn say_ready(&self, began: BootTime) {
        let took = show_time(self.world.clock.boot().since(began));
        let osts = self.entered.marker.osts().len();
        let down = match self.roles.down().await {
            0 => String::new(),
            n => format!(" ({n} down: see `gupfs status`)"),
        };
        let text = format!(
            "mounted at {}, {osts} OSTs{down}, ready in {took}; Ctrl-C to stop",
            self.mount.at().display()
        );
        self.say("ready", &text);
    }

    fn say(&self, event: &str, text: &str) {
        say(self.settings.json, event, text);
    }
}

/// On standard output, where a person or a script waits for it.
fn say(json: bool, event: &str, text: &str) {
    if json {
        println!("{}", serde_json::json!({ "event": event, "text": text }));
    } else {
        println!("gupfs: {text}");
    }
}

/// The kernel is tried while the stores are opened.
fn try_kernel(settings: &Settings) -> std::io::Result<Trial> {
    let transport = match settings.config.mount.transport {
        Some(Transport::Device) => gupfs_door::Transport::Device,
        Some(Transport::IoUring | Transport::Auto) | None => gupfs_door::Transport::Auto,
    };
    Trial::begin(Which::Deciding, transport)
}

/// # Errors
/// When it breaks what every mount counts on. A kernel that could not be tried is believed.
async fn judge_kernel(trial: std::io::Result<Trial>, world: &World) -> Outcome<Judgement> {
    let trial = trial.map_err(|error| error.to_string());
    let found = world
        .tasks
        .blocking(move || trial.and_then(Trial::findings))
        .await;
    match found {
        Ok(findings) => kernel::judge(&findings),
        Err(why) => {
            tracing::warn!(
                why,
                "what this kernel does with answers could not be tried; `gupfs doctor` tries it again"
            );
            kernel::judge(&[])
        }
    }
}

async fn start_mount(
    entered: &Entered,
    settings: &Settings,
    judgement: Judgement,
    world: &World,
    roles: &Roles,
) -> Outcome<(Arc<Mount>, Option<Guard>)> {
    let wish = &settings.config.mount;
    let mut options = gupfs_mount::Options::new(entered.home.root().to_string_lossy());
    options.allow_other = wish
        .allow_other
        .unwrap_or_else(|| rustix::process::geteuid().is_root());
    options.read_only = wish.read_only.unwrap_or(false);
    options.page_cache = judgement.page_cache;
    if let Some(size) = wish.read_ahead {
        options.read_ahead_kib = Some((size.0 >> 10) as u32);
    }
    options.transport = transport(wish.transport)?;
    options.reactors = wish.threads.map(usize::from);
    let runtime = tokio::runtime::Handle::current();
    let (client, point) = (roles.client.clone(), settings.point.clone());
    // It mounts, and exchanges the first messages with the kernel: both wait.
    let started = world
        .tasks
        .blocking(move || Mount::start(client, &point, &options, &runtime))
        .await;
    let mount = started.map_err(|error| {
        Trouble::new(format!("cannot mount at '{}'", settings.point.display()))
            .because(&error)
            .todo("`gupfs doctor` says what this machine lacks")
    })?;
    let mount = Arc::new(mount);
    let guard = match mount.session().control() {
        Some(control) => Some(Guard::start(
            control,
            mount.at(),
            &world.clock,
            &world.tasks,
        )?),
        None => None,
    };
    Ok((mount, guard))
}

/// Who asks for io_uring by name, and may, gets it switched on.
fn transport(wish: Option<Transport>) -> Outcome<gupfs_door::Transport> {
    Ok(match wish.unwrap_or(Transport::Auto) {
        Transport::Auto => gupfs_door::Transport::Auto,
        Transport::Device => gupfs_door::Transport::Device,
        Transport::IoUring => {
            if matches!(over_io_uring::support(), Support::SwitchedOff) {
                over_io_uring::switch_on().map_err(|error| {
                    Trouble::new("FUSE over io_uring is off on this machine")
                        .because(&error)
                        .todo(format!("as root: echo Y > {}", over_io_uring::SWITCH))
                })?;
                tracing::info!(
                    switch = over_io_uring::SWITCH,
                    "switched FUSE over io_uring on"
                );
            }
            gupfs_door::Transport::IoUring
        }
    })
}

/// The signals that end us.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> Outcome<Signals> {
        let listen = |kind| signal(kind).or_trouble(|| "cannot listen for signals".into());
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
