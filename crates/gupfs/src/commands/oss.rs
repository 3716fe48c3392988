//! `gupfs oss`: an object server.

use super::up::Logging;
use crate::amount::BusyPoll;
use crate::cluster::TlsFlags;
use crate::config::Config;
use crate::daemon;
use crate::exit::{CliError, CliResult, Exit};
use crate::logging;
use clap::Args;
use gupfs_platform::Platform;
use gupfs_proto::DomainName;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve the object storage targets (OSTs) of this host
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs oss /srv/ost0 /srv/ost1 --mds node1 --listen 0.0.0.0:7701
  gupfs oss /srv/osts --mds node1 --listen 10.0.0.2:7701
  gupfs oss /srv/osts --mds node1 --listen 10.0.0.2:7701 --domain rack7

Each DIR is a target or contains targets; a target that `gupfs ost add` makes there later is served at once. The object server waits \
for the metadata server, at its start and later.

Exit codes: 0 stopped as asked · 1 it could not start, or failed · 2 wrong arguments, configuration or key")]
pub struct Oss {
    /// Targets, or directories of targets
    #[arg(value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// The metadata server, or several, separated by commas [default: 127.0.0.1:7700]
    #[arg(long, value_name = "HOST[:PORT]")]
    mds: Option<String>,
    /// The cluster's key [default: /etc/gupfs/cluster.key, if it is there]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The address at which it listens [default: 127.0.0.1:7701]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// The address that clients and servers use to reach it, if it differs from the one at which it listens
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// The failure domain of this server, such as its rack: OSTs of servers with the same NAME hold no two copies of a byte [default: this host]
    #[arg(long, value_name = "NAME")]
    domain: Option<DomainName>,
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
    /// Print events (ready, stopping, stopped) as JSON objects, one a line
    #[arg(long)]
    json: bool,
}

impl Oss {
    pub fn run(self) -> CliResult<Exit> {
        let mut config = Config::read_or_default(self.config.as_deref())?;
        config.cluster.mds = self.mds.or(config.cluster.mds);
        config.cluster.key = self.key.or(config.cluster.key);
        config.cluster.listen = self.listen.or(config.cluster.listen);
        config.oss.advertise = self.advertise.or(config.oss.advertise);
        config.oss.domain = self.domain.or(config.oss.domain);
        config.metrics.listen = self.listen_metrics.or(config.metrics.listen);
        self.tls.apply_to(&mut config.cluster);
        self.logging.apply_to(&mut config)?;
        let dirs = match self.dirs.is_empty() {
            false => self.dirs,
            true => config.oss.targets.clone().unwrap_or_default(),
        };
        if dirs.is_empty() {
            return Err(CliError::new("no directory of targets is given")
                .todo("name one, or several, or set oss.targets in the configuration")
                .exit(Exit::Unusable));
        }
        for dir in &dirs {
            if !dir.is_dir() {
                return Err(
                    CliError::new(format!("'{}' is not a directory", dir.display()))
                        .todo("make a target with `gupfs ost add`")
                        .exit(Exit::Unusable),
                );
            }
        }
        logging::start(&config.log);
        let platform = Platform::real();
        let began = platform.clock.boot();
        let settings = daemon::oss::Settings {
            config,
            dirs,
            json: self.json,
        };
        let threads = settings.config.threads.clone();
        let run = daemon::oss::run(settings, &platform, began);
        daemon::serve(&threads, BusyPoll::DEFAULT, run).map(|()| Exit::Fine)
    }
}
