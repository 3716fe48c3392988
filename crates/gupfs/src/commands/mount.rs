//! `gupfs mount`: mounts the file system of remote servers on this host.

mod background;
pub mod helper;

use super::options::MountOptions;
use super::up::Logging;
use crate::amount::{BusyPoll, Deadline};
use crate::cluster::TlsFlags;
use crate::config::{Config, Permissions, Transport};
use crate::daemon;
use crate::exit::{CliError, CliResult, Exit};
use crate::{logging, mountpoint};
use clap::Args;
use gupfs_platform::Platform;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Mount a file system that servers on other hosts (or this one) serve
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs mount node1 /mnt/gupfs
  gupfs mount node1:7700 /mnt/gupfs --key /etc/gupfs/client.key
  gupfs mount node1 /mnt/gupfs --background
  mount -t gupfs -o nosuid node1:/ /mnt/gupfs

It stays in the foreground, unless --background is given; Ctrl-C, SIGTERM, `gupfs stop MNT` or `umount MNT` unmount it. While a server is unreachable, calls wait, \
and `gupfs status MNT` shows for which server; past the deadline they fail with ETIMEDOUT. A killed program ends at once.

Exit codes: 0 stopped as asked · 1 it could not start, or failed · 2 wrong arguments, configuration, key or mount \
point · 3 the metadata server cannot be reached")]
pub struct Mount {
    /// The metadata server, or several, separated by commas
    #[arg(value_name = "HOST[:PORT]")]
    mds: Option<String>,
    /// Where the file system appears: an empty directory
    #[arg(value_name = "MNT")]
    point: Option<PathBuf>,
    /// The key of this host, or the cluster's [default: client.key or cluster.key in /etc/gupfs]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Configuration file; flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT")]
    listen_metrics: Option<SocketAddr>,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(flatten)]
    logging: Logging,
    /// Whether other users may use the mount, true or false [default: true for root]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    allow_other: Option<bool>,
    /// How requests come from the kernel: device, io-uring, or auto, which is device here [default: auto]
    #[arg(long, value_enum, value_name = "WAY", hide_possible_values = true)]
    transport: Option<Transport>,
    /// Where permissions are checked: kernel, or servers, which makes opening and creating files about twice as fast and \
    /// omits some checks (see the manual) [default: kernel]
    #[arg(long, value_enum, value_name = "WHO", hide_possible_values = true)]
    permissions: Option<Permissions>,
    /// How long a call waits for an unreachable server before it fails with ETIMEDOUT: 90s, 2min, none [default: 60s]
    #[arg(long, value_name = "TIME")]
    deadline: Option<Deadline>,
    /// Mount read-only
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    options: MountOptions,
    /// Return as soon as the file system is mounted; another process serves it
    #[arg(long, conflicts_with = "json")]
    background: bool,
    /// Print events (ready, stopping, stopped) as JSON objects, one a line
    #[arg(long)]
    json: bool,
}

impl Mount {
    pub fn run(self) -> CliResult<Exit> {
        let mut config = Config::read_or_default(self.config.as_deref())?;
        config.cluster.key = self.key.or(config.cluster.key);
        config.metrics.listen = self.listen_metrics.or(config.metrics.listen);
        self.tls.apply_to(&mut config.cluster);
        self.logging.apply_to(&mut config)?;
        let mount = &mut config.mount;
        mount.allow_other = self.allow_other.or(mount.allow_other);
        mount.transport = self.transport.or(mount.transport);
        // With rings the reply of a server would have to wake the thread of a ring (docs/decisions, "Busy polling").
        if matches!(mount.transport, None | Some(Transport::Auto)) {
            mount.transport = Some(Transport::Device);
        }
        mount.permissions = self.permissions.or(mount.permissions);
        mount.deadline = self.deadline.or(mount.deadline);
        mount.read_only = mount.read_only.or(self.read_only.then_some(true));
        self.options.apply_to(mount)?;
        let missing = |what: &str, advice: &str| {
            CliError::new(format!("no {what} is given"))
                .todo(advice)
                .exit(Exit::Unusable)
        };
        let mds = self.mds.or(config.cluster.mds.clone()).ok_or_else(|| {
            missing(
                "metadata server",
                "gupfs mount HOST MNT, or cluster.mds in the configuration",
            )
        })?;
        let point = self.point.or(config.mount.point.clone()).ok_or_else(|| {
            missing(
                "mount point",
                "gupfs mount HOST MNT, or mount.point in the configuration",
            )
        })?;
        if self.background {
            return background::run(&background::same_command()?, &point);
        }
        logging::start(&config.log);
        let platform = Platform::real();
        let began = platform.clock.boot();
        let point = mountpoint::prepare(&point, None)?;
        let settings = daemon::mount::Settings {
            mds,
            point,
            config,
            json: self.json,
        };
        let threads = settings.config.threads.clone();
        let run = daemon::mount::run(settings, &platform, began);
        daemon::serve(&threads, BusyPoll::DEFAULT, run).map(|()| Exit::Fine)
    }
}
