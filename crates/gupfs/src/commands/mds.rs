//! `gupfs mds`: the metadata server of a cluster.

use super::up::{Logging, open_store_dir};
use crate::amount::BusyPoll;
use crate::check::salvage;
use crate::cluster::TlsFlags;
use crate::config::Config;
use crate::daemon;
use crate::exit::{CliResult, Exit};
use crate::logging;
use clap::Args;
use gupfs_platform::Platform;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve the metadata of a file system to other hosts; an empty directory becomes a new store
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs mds /srv/gupfs
  gupfs mds /srv/gupfs --listen 0.0.0.0:7700
  gupfs mds --config /etc/gupfs/mds.toml /srv/gupfs

The first start makes DIR/cluster.key: copy it to every object server as /etc/gupfs/cluster.key (0600). Object \
servers are added with `gupfs ost add` and `gupfs oss`; hosts mount it with `gupfs mount` and a key of `gupfs key client`.

Exit codes: 0 stopped as asked · 1 it could not start, or failed · 2 wrong arguments or configuration")]
pub struct Mds {
    /// The store's directory; made if it does not exist
    dir: PathBuf,
    /// The address at which it listens [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
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
        let mut config = Config::read_or_default(self.config.as_deref())?;
        config.cluster.listen = self.listen.or(config.cluster.listen);
        config.cluster.root_squash = self.root_squash.or(config.cluster.root_squash);
        config.metrics.listen = self.listen_metrics.or(config.metrics.listen);
        self.tls.apply_to(&mut config.cluster);
        self.logging.apply_to(&mut config)?;
        logging::start(&config.log);
        let platform = Platform::real();
        let began = platform.clock.boot();
        let store = open_store_dir(&self.dir, Some(0), &config, &platform)?;
        let settings = daemon::mds::Settings {
            config,
            accept_loss: self.accept_loss,
            json: self.json,
        };
        let threads = settings.config.threads.clone();
        let run = async {
            if settings.accept_loss {
                salvage::before_start(&store.dir, &store.marker, &platform).await?;
            }
            daemon::mds::run(store, settings, &platform, began).await
        };
        daemon::serve(&threads, BusyPoll::OF_METADATA_SERVER, run).map(|()| Exit::Fine)
    }
}
