//! A mount and what belongs to it: the trial of the kernel before, the guardian beside, its end.

use super::stop_events::StopEvents;
use super::watchdog::WatchdogProcess;
use crate::config::{self, Atime, Permissions, Transport};
use crate::exit::{CliError, CliResult};
use crate::kernel::{self, FactSelection, Judgement, Trial};
use gupfs_client::Client;
use gupfs_fuse::over_io_uring::{self, UringSupport};
use gupfs_mount::{AtimeFlags, CallDeadlines, Mount};
use gupfs_platform::Platform;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long copies of the mount in other mount namespaces may keep it alive after it was unmounted here. The last requests of
/// an ordinary end take milliseconds.
const COPIES: Duration = Duration::from_secs(10);

/// And that long after a further signal.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
const _: () = assert!(LAST_REQUESTS.as_secs() < COPIES.as_secs());

/// How long requests that are under way may take to end when the kernel's connection was cut.
const ABORTED: Duration = Duration::from_secs(5);

/// How it is to be mounted.
pub struct MountSettings<'a> {
    /// What `mount` shows as the source: a store's directory, or the metadata server's address.
    pub source: String,
    pub point: &'a Path,
    pub config: &'a config::Mount,
    /// Others may mount it too: nothing is kept that they could change.
    pub shared: bool,
    /// Servers may be away.
    pub in_time: Option<CallDeadlines>,
    pub json: bool,
}

/// What is mounted until it is finished.
pub struct ActiveMount {
    pub(super) platform: Platform,
    pub(super) mount: Arc<Mount>,
    /// None where the kernel gives no means to abort a mount, and when it has said farewell.
    guard: Option<WatchdogProcess>,
    pub(super) told: StopEvents,
    pub(super) json: bool,
}

impl ActiveMount {
    pub async fn start(
        wish: MountSettings<'_>,
        judgement: Judgement,
        platform: &Platform,
        client: &Arc<Client>,
        told: StopEvents,
    ) -> CliResult<ActiveMount> {
        let config = wish.config;
        let mut options = gupfs_mount::FuseMountOptions::new(wish.source);
        options.allow_other = config
            .allow_other
            .unwrap_or_else(|| rustix::process::geteuid().is_root());
        options.read_only = config.read_only.unwrap_or(false);
        options.allow_suid = config.setuid.unwrap_or(false);
        options.allow_devices = config.devices.unwrap_or(false);
        options.allow_exec = config.exec.unwrap_or(true);
        options.atime = AtimeFlags {
            never: config.atime == Some(Atime::Never),
            always: config.atime == Some(Atime::Always),
            not_of_directories: config.directory_atime == Some(false),
        };
        options.page_cache = judgement.page_cache;
        if wish.shared {
            options = options.shared();
            options.kernel_permissions = config.permissions != Some(Permissions::Servers);
        }
        options.call_deadlines = wish.in_time;
        if let Some(size) = config.read_ahead {
            options.read_ahead_kib = Some((size.0 >> 10) as u32);
        }
        options.transport = transport(config.transport)?;
        options.reactors = config.threads.map(usize::from);
        // Somebody who wants threads of their own gets them.
        options.on_runtime = wish.in_time.is_some() && config.threads.is_none();
        let runtime = tokio::runtime::Handle::current();
        let (client, point) = (client.clone(), wish.point.to_path_buf());
        // It mounts, and exchanges the first messages with the kernel: both wait.
        let started = platform
            .tasks
            .blocking(move || Mount::start(client, &point, &options, &runtime))
            .await;
        let mount = started.map_err(|error| {
            CliError::new(format!("cannot mount at '{}'", wish.point.display()))
                .because(&error)
                .todo("`gupfs doctor` says what this machine lacks")
        })?;
        let mount = Arc::new(mount);
        let guard = match mount.session().control() {
            Some(control) => Some(WatchdogProcess::start(
                control,
                mount.at(),
                &platform.clock,
                &platform.tasks,
            )?),
            None => None,
        };
        Ok(ActiveMount {
            platform: platform.clone(),
            mount,
            guard,
            told,
            json: wish.json,
        })
    }

    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// After it is out of the tree: the kernel's last requests (releases of what was open) are answered before the session
    /// with the servers ends. What keeps the mount alive longer is cut off: a copy in another mount namespace, as
    /// containers and services with mounts of their own have.
    pub async fn finish(&mut self) {
        let ended = self.ended();
        tokio::pin!(ended);
        let why = tokio::select! {
            biased;
            () = &mut ended => None,
            signal = self.told.signals.next() => {
                // The last requests of an ordinary end are not cut off.
                tokio::select! {
                    biased;
                    () = &mut ended => None,
                    () = self.platform.clock.sleep(LAST_REQUESTS) => Some(format!("{signal} came again")),
                }
            }
            () = self.platform.clock.sleep(COPIES) => Some(format!("it was still alive {} s later", COPIES.as_secs())),
        };
        if let Some(why) = why {
            tracing::warn!(
                why,
                "the mount is out of the tree, but another mount namespace has a copy of it, or the kernel waits for an answer: \
                 it is cut off, programs that use it there get errors"
            );
            self.abort().await;
            tokio::select! {
                () = &mut ended => {}
                () = self.platform.clock.sleep(ABORTED) => {
                    tracing::warn!("the kernel's requests do not end although their connection was cut");
                }
            }
        }
        if let Some(guard) = self.guard.take() {
            guard.finish(&self.platform.clock).await;
        }
    }

    /// Returns when the kernel's connection has ended and no request is under way.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mount = self.mount.clone();
        let tasks = self.platform.tasks.clone();
        let waiting = self.platform.tasks.spawn("end of the session", async move {
            tasks.blocking(move || mount.session().wait()).await
        });
        async move {
            // It is not stopped; and a panic has ended the process.
            let _ = waiting.await;
        }
    }

    /// Whoever still uses the mount gets errors from here on.
    pub(super) async fn abort(&self) {
        let mount = self.mount.clone();
        let aborting = move || mount.session().abort();
        if let Err(error) = self.platform.tasks.blocking(aborting).await {
            tracing::warn!(%error, "the kernel's connection cannot be cut");
        }
    }
}

/// The kernel is tried while the stores are opened.
pub fn try_kernel(config: &config::Mount) -> std::io::Result<Trial> {
    let transport = match config.transport {
        Some(Transport::Device) => gupfs_fuse::FuseTransport::Device,
        Some(Transport::IoUring | Transport::Auto) | None => gupfs_fuse::FuseTransport::Auto,
    };
    Trial::begin(FactSelection::Deciding, transport)
}

/// # Errors
/// When it breaks what every mount counts on. A kernel that could not be tried is believed.
pub async fn judge_kernel(
    trial: std::io::Result<Trial>,
    platform: &Platform,
) -> CliResult<Judgement> {
    let trial = trial.map_err(|error| error.to_string());
    let found = platform
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

/// Who asks for io_uring by name, and may, gets it switched on.
fn transport(wish: Option<Transport>) -> CliResult<gupfs_fuse::FuseTransport> {
    Ok(match wish.unwrap_or(Transport::Auto) {
        Transport::Auto => gupfs_fuse::FuseTransport::Auto,
        Transport::Device => gupfs_fuse::FuseTransport::Device,
        Transport::IoUring => {
            if matches!(over_io_uring::support(), UringSupport::Disabled) {
                over_io_uring::enable().map_err(|error| {
                    CliError::new("FUSE over io_uring is off on this machine")
                        .because(&error)
                        .todo(format!("as root: echo Y > {}", over_io_uring::PARAMETER))
                })?;
                tracing::info!(
                    switch = over_io_uring::PARAMETER,
                    "switched FUSE over io_uring on"
                );
            }
            gupfs_fuse::FuseTransport::IoUring
        }
    })
}
