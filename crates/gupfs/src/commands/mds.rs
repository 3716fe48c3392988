//! `gupfs mds`: the metadata server of a cluster.

mod copies;
mod force;
mod join;

use self::copies::{List, Move, Remove};
use self::force::Force;
use self::join::join_copies;
use super::up::{Logging, open_store_dir};
use crate::amount::BusyPoll;
use crate::check::salvage;
use crate::cluster::{EtcdSettings, TlsFlags};
use crate::config::Config;
use crate::daemon;
use crate::daemon::copies::Ended;
use crate::events::print_event;
use crate::exit::{CliError, CliResult, Exit};
use crate::logging;
use crate::store_dir::{LockedStore, StoreDir};
use clap::{Args, Subcommand};
use gupfs_platform::{BootTime, Platform};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

/// Serve the metadata of a file system to other hosts; an empty directory becomes a new store
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  gupfs mds /srv/gupfs
  gupfs mds /srv/gupfs --listen 0.0.0.0:7700
  gupfs mds --config /etc/gupfs/mds.toml /srv/gupfs
  gupfs mds /srv/gupfs --listen node1:7700 --etcd http://node1:2379 --etcd http://node2:2379 --etcd http://node3:2379
  gupfs mds /srv/gupfs --listen node2:7700 --etcd http://node1:2379 … --join node1 --key cluster.key

The first start makes DIR/cluster.key: copy it to every object server as /etc/gupfs/cluster.key (0600). Object \
servers are added with `gupfs ost add` and `gupfs oss`; hosts mount it with `gupfs mount` and a key of `gupfs key client`.

Exit codes: 0 stopped as asked · 1 it could not start, or failed · 2 wrong arguments or configuration")]
pub struct Mds {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    serve: Serve,
}

/// What an administrator does with the copies of the metadata.
#[derive(Subcommand)]
enum Action {
    List(List),
    Move(Move),
    Remove(Remove),
    Force(Force),
}

#[derive(Args)]
struct Serve {
    /// The store's directory; made if it does not exist
    #[arg(required = true)]
    dir: Option<PathBuf>,
    /// The address at which it listens [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// A member of etcd, which decides what metadata server owns the metadata; give the flag for each member. The metadata then has a copy in the directory of each metadata server
    #[arg(long, value_name = "URL")]
    etcd: Vec<String>,
    /// Make the empty directory a copy of the metadata that this metadata server has; needs --key and --etcd
    #[arg(long, value_name = "HOST[:PORT]")]
    join: Option<String>,
    /// File of the cluster key, to join [default: /etc/gupfs/cluster.key]
    #[arg(long, value_name = "FILE", requires = "join")]
    key: Option<PathBuf>,
    /// The address that other hosts use instead of the one at which it listens
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// Map root of hosts whose key was made without --root to nobody, true or false [default: true]
    #[arg(long, value_name = "BOOL", hide_possible_values = true)]
    root_squash: Option<bool>,
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
    /// Start although metadata that was acknowledged as durable is lost, or OSTs have served a later state of it; the log names each loss. (An older copy of an OST is accepted with `gupfs ost accept-loss`)
    #[arg(long)]
    accept_loss: bool,
    /// Print events (ready, stopping, stopped) as JSON objects, one a line
    #[arg(long)]
    json: bool,
}

impl Mds {
    pub fn run(self) -> CliResult<Exit> {
        match self.action {
            None => self.serve.run(),
            Some(Action::List(list)) => list.run(),
            Some(Action::Move(moving)) => moving.run(),
            Some(Action::Remove(remove)) => remove.run(),
            Some(Action::Force(force)) => force.run(),
        }
    }
}

impl Serve {
    /// The argument is required.
    fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new("."))
    }

    fn run(self) -> CliResult<Exit> {
        let mut config = Config::read_or_default(self.config.as_deref())?;
        config.cluster.listen = self.listen.clone().or(config.cluster.listen);
        config.cluster.root_squash = self.root_squash.or(config.cluster.root_squash);
        config.metrics.listen = self.listen_metrics.or(config.metrics.listen);
        if !self.etcd.is_empty() {
            config.mds.etcd = Some(self.etcd.clone());
        }
        config.mds.advertise = self.advertise.clone().or(config.mds.advertise);
        self.tls.apply_to(&mut config.cluster);
        self.logging.apply_to(&mut config)?;
        logging::start(&config.log);
        let platform = Platform::real();
        let began = platform.clock.boot();
        let settings = daemon::mds::Settings {
            config,
            accept_loss: self.accept_loss,
            json: self.json,
        };
        let threads = settings.config.threads.clone();
        let run = async {
            let Some(etcd) = EtcdSettings::of(&settings.config.mds)? else {
                return self.serve_alone(settings, &platform, began).await;
            };
            let store = self.open_copy(&settings.config, &platform).await?;
            let arbiter = etcd.arbiter(store.marker.cluster(), &platform)?;
            let ended = daemon::copies::run(store, settings, arbiter, &platform, began).await?;
            match ended {
                Ended::Stopped => Ok(()),
                Ended::Deposed(why) => {
                    let why = format!("{why}; this host goes on as a copy");
                    Err(start_again(self.json, "deposed", &why))
                }
                Ended::Failed(why) => {
                    let why = format!("{why} This process starts again");
                    Err(start_again(self.json, "failed", &why))
                }
            }
        };
        daemon::serve(&threads, BusyPoll::OF_METADATA_SERVER, run).map(|()| Exit::Fine)
    }

    /// The one metadata server of a cluster.
    async fn serve_alone(
        &self,
        settings: daemon::mds::Settings,
        platform: &Platform,
        began: BootTime,
    ) -> CliResult<()> {
        if self.join.is_some() {
            return Err(no_etcd("--join"));
        }
        let store = open_store_dir(self.dir(), Some(0), &settings.config, platform)?;
        if store.marker.copy().is_some() {
            return Err(no_etcd(&format!(
                "'{}' has a copy of metadata that other hosts have, too, and",
                self.dir().display()
            )));
        }
        if settings.accept_loss {
            salvage::before_start(&store.dir, &store.marker, platform).await?;
        }
        daemon::mds::run(store, settings, platform, began).await
    }

    /// Opens the directory; an empty one joins the copies of another metadata server if that is asked for.
    async fn open_copy(&self, config: &Config, platform: &Platform) -> CliResult<LockedStore> {
        // A directory that has joined needs none of the others to start.
        let has_joined = || -> CliResult<bool> {
            let store_dir = StoreDir::at(self.dir())?;
            Ok(store_dir.is_initialised()? && store_dir.read_marker()?.has_joined())
        };
        let join = self
            .join
            .as_ref()
            .filter(|_| !self.dir().exists() || !has_joined().unwrap_or(false));
        match join {
            Some(host) => {
                join_copies(self.dir(), host, self.key.as_deref(), config, platform).await
            }
            None => open_store_dir(self.dir(), Some(0), config, platform),
        }
    }
}

fn no_etcd(what: &str) -> CliError {
    CliError::new(format!("{what} needs etcd"))
        .todo("name its members with --etcd, or as mds.etcd in the configuration")
        .exit(Exit::Unusable)
}

/// Starts this program anew, as a copy, in the same process: nothing that it had in memory is left. Returns only if that fails.
fn start_again(json: bool, event: &str, why: &str) -> CliError {
    print_event(json, event, why);
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let error = std::process::Command::new("/proc/self/exe")
        .arg0(name.unwrap_or_default())
        .args(arguments)
        .exec();
    CliError::new("this program cannot start again as a copy of the metadata")
        .because(&error)
        .todo("start it again")
}
