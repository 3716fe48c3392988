//! A mount of this process: the kernel probes before it, its watchdog, its end.

use super::stop_events::StopEvents;
use super::watchdog::WatchdogProcess;
use crate::config::{self, Atime, Permissions, Transport};
use crate::exit::{CliError, CliResult};
use crate::jobs::HostProcesses;
use crate::kernel::{self, KernelProbe, KernelVerdict, ProbeSelection};
use gupfs_client::Client;
use gupfs_fuse::over_io_uring::{self, UringSupport};
use gupfs_mount::{AtimeFlags, CacheLifetimes, CallDeadlines, Mount};
use gupfs_platform::Platform;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the session may last after the unmount: a copy of the mount in another mount namespace keeps it alive. The last requests of
/// an ordinary end take milliseconds.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The same after a further signal.
const END_TIMEOUT_AFTER_SIGNAL: Duration = Duration::from_secs(1);
const _: () = assert!(END_TIMEOUT_AFTER_SIGNAL.as_secs() < END_TIMEOUT.as_secs());

/// How long running requests may take to end after the connection was aborted.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a mount.
pub struct MountSettings<'a> {
    /// The source that mount(8) shows: a store's directory, or the address of the metadata server.
    pub source: String,
    pub point: &'a Path,
    pub config: &'a config::Mount,
    /// Whether other hosts can mount the file system: then the kernel caches nothing that they can change.
    pub shared: bool,
    /// How long calls wait for unreachable servers; None if all servers are in this process.
    pub call_deadlines: Option<CallDeadlines>,
    pub json: bool,
}

/// A mount, until `finish`.
pub struct ActiveMount {
    pub(super) platform: Platform,
    pub(super) mount: Arc<Mount>,
    /// None if the kernel offers no way to abort a connection, and after the end of the mount.
    watchdog: Option<WatchdogProcess>,
    pub(super) stop_events: StopEvents,
    pub(super) json: bool,
}

impl ActiveMount {
    pub async fn start(
        settings: MountSettings<'_>,
        verdict: KernelVerdict,
        platform: &Platform,
        client: &Arc<Client>,
        stop_events: StopEvents,
    ) -> CliResult<ActiveMount> {
        let config = settings.config;
        let mut options = gupfs_mount::FuseMountOptions::new(settings.source);
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
        options.page_cache = verdict.page_cache;
        if settings.shared {
            options = options.shared();
            if !verdict.shared_attributes {
                tracing::warn!(
                    "this kernel lacks a behaviour that cached attributes of shared files require, or could not be probed: each stat costs a request; `gupfs doctor` lists the behaviours"
                );
                options.lifetimes = CacheLifetimes::SHARED_WITHOUT_ATTRIBUTES;
            }
            options.kernel_permissions = config.permissions != Some(Permissions::Servers);
        }
        options.call_deadlines = settings.call_deadlines;
        options.jobs = Some(Arc::new(HostProcesses {
            variable: config.job.clone(),
        }));
        if let Some(size) = config.read_ahead {
            options.read_ahead_kib = Some((size.0 >> 10) as u32);
        }
        options.transport = transport(config.transport)?;
        options.device_workers = config.threads.map(usize::from);
        // A configured number of threads asks for worker threads.
        options.on_runtime = settings.call_deadlines.is_some() && config.threads.is_none();
        let runtime = tokio::runtime::Handle::current();
        let (client, point) = (client.clone(), settings.point.to_path_buf());
        // `Mount::start` blocks in mount(2) and in the first messages from the kernel.
        let started = platform
            .tasks
            .blocking(move || Mount::start(client, &point, &options, &runtime))
            .await;
        let mount = started.map_err(|error| {
            CliError::new(format!("cannot mount at '{}'", settings.point.display()))
                .because(&error)
                .todo("`gupfs doctor` shows what this host lacks")
        })?;
        let mount = Arc::new(mount);
        let watchdog = match mount.session().control() {
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
            watchdog,
            stop_events,
            json: settings.json,
        })
    }

    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// Waits after the unmount until the kernel has sent its last requests (releases of open files), so that they are served before the
    /// session with the servers ends. Aborts the connection if a copy of the mount in another mount namespace (containers, services with
    /// private mounts) keeps it alive longer.
    pub async fn finish(&mut self) {
        let ended = self.ended();
        tokio::pin!(ended);
        let why = tokio::select! {
            biased;
            () = &mut ended => None,
            signal = self.stop_events.signals.next() => {
                // The last requests of an ordinary end must not be aborted.
                tokio::select! {
                    biased;
                    () = &mut ended => None,
                    () = self.platform.clock.sleep(END_TIMEOUT_AFTER_SIGNAL) => Some(format!("a further {signal}")),
                }
            }
            () = self.platform.clock.sleep(END_TIMEOUT) => Some(format!("the session still exists after {} s", END_TIMEOUT.as_secs())),
        };
        if let Some(why) = why {
            tracing::warn!(
                why,
                "the file system is unmounted, but another mount namespace has a copy of the mount, or the kernel waits for a reply: \
                 aborting the connection; calls of programs that use the copy fail"
            );
            self.abort().await;
            tokio::select! {
                () = &mut ended => {}
                () = self.platform.clock.sleep(ABORT_TIMEOUT) => {
                    tracing::warn!("requests of the kernel are still running after the abort of its connection");
                }
            }
        }
        self.finish_watchdog().await;
    }

    /// Ends the watchdog after the end of the connection; returns whether the watchdog had aborted it.
    pub(super) async fn finish_watchdog(&mut self) -> bool {
        match self.watchdog.take() {
            Some(watchdog) => watchdog.finish(&self.platform.clock).await,
            None => false,
        }
    }

    /// Waits until the kernel's connection has ended and no request is running.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mount = self.mount.clone();
        let tasks = self.platform.tasks.clone();
        let waiting = self.platform.tasks.spawn("end of the session", async move {
            tasks.blocking(move || mount.session().wait()).await
        });
        async move {
            // Nothing stops this task, and a panic ends the process.
            let _ = waiting.await;
        }
    }

    /// Aborts the kernel's connection: all calls of programs that use the mount fail.
    pub(super) async fn abort(&self) {
        let mount = self.mount.clone();
        let aborting = move || mount.session().abort();
        if let Err(error) = self.platform.tasks.blocking(aborting).await {
            tracing::warn!(%error, "cannot abort the kernel's connection");
        }
    }
}

/// Starts the kernel probes; they run while the stores are opened.
///
/// # Errors
/// If their process cannot be started.
pub fn probe_kernel(config: &config::Mount, shared: bool) -> std::io::Result<KernelProbe> {
    let transport = match config.transport {
        Some(Transport::Device) => gupfs_fuse::FuseTransport::Device,
        Some(Transport::IoUring | Transport::Auto) | None => gupfs_fuse::FuseTransport::Auto,
    };
    let which = match shared {
        true => ProbeSelection::DecidingForSharing,
        false => ProbeSelection::Deciding,
    };
    KernelProbe::begin(which, transport)
}

/// Waits for the kernel probes and decides how to mount.
///
/// # Errors
/// If the kernel violates a rule that every mount requires. A kernel that could not be probed is accepted.
pub async fn kernel_verdict(
    probe: std::io::Result<KernelProbe>,
    platform: &Platform,
) -> CliResult<KernelVerdict> {
    let probe = probe.map_err(|error| error.to_string());
    let findings = platform
        .tasks
        .blocking(move || probe.and_then(KernelProbe::findings))
        .await;
    match findings {
        Ok(findings) => kernel::decide(&findings),
        Err(why) => {
            tracing::warn!(
                why,
                "the kernel could not be probed; `gupfs doctor` probes it again"
            );
            kernel::decide(&[])
        }
    }
}

/// The transport; switches FUSE over io_uring on if the configuration requests it by name.
fn transport(requested: Option<Transport>) -> CliResult<gupfs_fuse::FuseTransport> {
    Ok(match requested.unwrap_or(Transport::Auto) {
        Transport::Auto => gupfs_fuse::FuseTransport::Auto,
        Transport::Device => gupfs_fuse::FuseTransport::Device,
        Transport::IoUring => {
            if matches!(over_io_uring::support(), UringSupport::Disabled) {
                over_io_uring::enable().map_err(|error| {
                    CliError::new("FUSE over io_uring is switched off on this host")
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
