//! `gupfs up`: metadata server, object servers and mount in one process.

use super::options::MountOptions;
use crate::check::salvage;
use crate::cluster::TlsFlags;
use crate::config::{Config, LogFormat, Transport};
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::node::{self, Node};
use crate::store_dir::{Lock, LockedStore, StoreDir, StoreOptions, close_to_others, make_dir};
use crate::{logging, mountpoint};
use clap::Args;
use gupfs_platform::Platform;
use gupfs_proto::VirtualShards;
use gupfs_proto::limits::VIRTUAL_SHARDS_DEFAULT;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Start all servers on this machine and mount the file system; an empty directory becomes a new store
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs up /srv/gupfs --mount /mnt/gupfs
  gupfs up /srv/gupfs --mount /mnt/gupfs --osts 4 --listen-metrics 127.0.0.1:9187
  gupfs up /srv/gupfs --config /etc/gupfs.toml

It stays in the foreground. Ctrl-C, SIGTERM or `gupfs stop` unmount and stop it; a second signal does so even \
while programs use the mount. Each disk of its own for an OST: mount it at DIR/ost0, DIR/ost1, … before the first \
start.

Exit codes: 0 stopped as asked · 1 it could not start, or failed · 2 wrong arguments, configuration or \
mount point")]
pub struct Up {
    /// The store's directory; made if it does not exist
    dir: PathBuf,
    /// Where the file system appears: an empty directory
    #[arg(long, value_name = "MNT")]
    mount: Option<PathBuf>,
    /// Number of object storage targets; a larger number than the store has adds targets [default: as many as the store has, 4 in a new one]
    #[arg(long, value_name = "N")]
    osts: Option<u16>,
    /// Configuration file; flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT")]
    listen_metrics: Option<SocketAddr>,
    /// Also serve other hosts at this address; at other addresses than 127.0.0.1 they need a key (DIR/cluster.key, `gupfs key client`)
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(flatten)]
    logging: Logging,
    /// Whether other users may use the mount, true or false [default: true for root]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    allow_other: Option<bool>,
    /// How requests come from the kernel: over io_uring if the machine has it switched on (auto), through /dev/fuse (device),
    /// or over io_uring, switched on if need be (io-uring) [default: auto]
    #[arg(long, value_enum, value_name = "WAY", hide_possible_values = true)]
    transport: Option<Transport>,
    /// Mount read-only
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    options: MountOptions,
    /// Start although data or metadata that was acknowledged as durable is lost; the log names each loss
    #[arg(long)]
    accept_loss: bool,
    /// Print events (ready, stopping, stopped) as JSON objects, one a line
    #[arg(long)]
    json: bool,
}

/// What is logged, and how.
#[derive(Args)]
pub struct Logging {
    /// How logs are written [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or by part [default: info]
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
}

impl Logging {
    /// Sets in the configuration what the flags give.
    ///
    /// # Errors
    /// If the level is not a log filter.
    pub fn apply_to(&self, config: &mut Config) -> CliResult<()> {
        if let Some(level) = &self.log_level
            && let Err(error) = level.parse::<tracing_subscriber::EnvFilter>()
        {
            return Err(
                CliError::new(format!("--log-level: '{level}' is not a log filter"))
                    .because(&error)
                    .exit(Exit::Unusable),
            );
        }
        let log = &mut config.log;
        log.format = self.log.or(log.format);
        log.level = self.log_level.clone().or(log.level.take());
        Ok(())
    }
}

impl Up {
    pub fn run(self) -> CliResult<Exit> {
        let config = self.configuration()?;
        logging::start(&config.log);
        let platform = Platform::real();
        let began = platform.clock.boot();
        let point = config.mount.point.clone().ok_or_else(|| {
            CliError::new("no mount point is given")
                .todo(
                    "name an empty directory with --mount, or as mount.point in the configuration",
                )
                .exit(Exit::Unusable)
        })?;
        let (store, point) = open_store(&self.dir, &point, &config, &platform)?;
        let settings = node::Settings {
            point,
            listen: config.cluster.listen.clone(),
            config,
            accept_loss: self.accept_loss,
            json: self.json,
        };
        let outcome = block_on(async {
            if settings.accept_loss {
                salvage::before_start(&store.dir, &store.marker, &platform).await?;
            }
            let node = Node::start(store, settings, &platform, began).await?;
            match node {
                Some(node) => node.serve_until_stopped().await,
                None => Ok(()),
            }
        });
        outcome.map(|()| Exit::Fine)
    }

    /// The configuration file with the flags applied.
    fn configuration(&self) -> CliResult<Config> {
        let mut config = Config::read_or_default(self.config.as_deref())?;
        self.tls.apply_to(&mut config.cluster);
        self.logging.apply_to(&mut config)?;
        let Config {
            cluster,
            // The configuration file alone has its keys.
            mds: _,
            store,
            mount,
            metrics,
            log: _,
            oss: _,
            threads: _,
        } = &mut config;
        cluster.listen = self.listen.clone().or(cluster.listen.take());
        store.osts = self.osts.or(store.osts);
        mount.point = self.mount.clone().or(mount.point.take());
        mount.allow_other = self.allow_other.or(mount.allow_other);
        mount.transport = self.transport.or(mount.transport);
        mount.read_only = mount.read_only.or(self.read_only.then_some(true));
        self.options.apply_to(mount)?;
        metrics.listen = self.listen_metrics.or(metrics.listen);
        Ok(config)
    }
}

/// Refuses a store on a gupfs mount: its servers and the file system would wait for each other.
fn refuse_on_gupfs(dir: &Path) -> CliResult<()> {
    let whole =
        std::path::absolute(dir).or_cli_error(|| format!("cannot find '{}'", dir.display()))?;
    match mountpoint::mount_containing(&whole)? {
        Some(mount) if mount.kind == mountpoint::FSTYPE => Err(CliError::new(format!(
            "the store '{}' would be on the gupfs mount '{}'",
            dir.display(),
            mount.path.display()
        ))
        .todo("give a directory of a local file system")
        .exit(Exit::Unusable)),
        _ => Ok(()),
    }
}

/// Opens and locks a store directory, for a process without a mount.
///
/// # Errors
/// If the directory cannot be a store, or is in use.
pub fn open_store_dir(
    dir: &Path,
    osts: Option<u16>,
    config: &Config,
    platform: &Platform,
) -> CliResult<LockedStore> {
    close_to_others();
    refuse_on_gupfs(dir)?;
    if !dir.exists() {
        make_dir(dir)?;
    }
    let store_dir = StoreDir::at(dir)?;
    let lock = Lock::take(&store_dir)?;
    store_dir.open_or_initialise(lock, &store_options(osts, config), &platform.random)
}

fn store_options(osts: Option<u16>, config: &Config) -> StoreOptions {
    StoreOptions {
        osts,
        virtual_shards: VirtualShards(
            config
                .store
                .virtual_shards
                .unwrap_or(VIRTUAL_SHARDS_DEFAULT),
        ),
    }
}

/// Opens and locks the store, and checks the mount point. Writes nothing before both are known to be usable.
fn open_store(
    dir: &Path,
    point: &Path,
    config: &Config,
    platform: &Platform,
) -> CliResult<(LockedStore, PathBuf)> {
    close_to_others();
    let store_options = store_options(config.store.osts, config);
    // Before the directory is created: after an error with the mount point nothing must be left.
    refuse_on_gupfs(dir)?;
    if !dir.exists() {
        mountpoint::prepare(point, None)?;
        make_dir(dir)?;
    }
    let store_dir = StoreDir::at(dir)?;
    let lock = Lock::take(&store_dir)?;
    let point = mountpoint::prepare(point, Some(&store_dir))?;
    let store = store_dir.open_or_initialise(lock, &store_options, &platform.random)?;
    Ok((store, point))
}
