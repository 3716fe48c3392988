//! `gupfs mds force`: a copy goes on alone, because the others are lost.

use crate::cluster::{EtcdSettings, identity, read_cluster_key};
use crate::config::Config;
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use crate::store_dir::{Lock, StoreDir, close_to_others};
use crate::stores::{CopyDirectory, DescriptorBudget, metadata_store_id};
use clap::Args;
use gupfs_copies::{CopyOptions, MetadataCopy, Register};
use gupfs_platform::{BootTime, Platform};
use gupfs_proto::{CopyRun, VirtualShards};
use gupfs_rpc::{AuthKey, Role, SendDeadline};
use gupfs_store::kv::KvOptions;
use gupfs_store::log::LogOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long opening the copy and asking etcd may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Let this copy of the metadata go on alone, because the others are lost
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs mds force /srv/gupfs --accept-loss --config /etc/gupfs/mds.toml

For a cluster that lost more of its metadata servers than can be missing, or whose etcd lost its data. Every change that fsync or sync acknowledged \
while this copy counted is there. A copy that did not count any more lacks what was changed since. Start the metadata server of this directory afterwards; the \
others join it again, from empty directories.

Exit codes: 0 this copy goes on alone · 1 a metadata server owns the metadata, or the copy cannot be used · 2 wrong arguments or configuration · 3 etcd does not answer")]
pub struct Force {
    /// The directory of the copy
    dir: PathBuf,
    /// Accept that changes may be lost
    #[arg(long, required = true)]
    accept_loss: bool,
    /// A member of etcd; give the flag for each member
    #[arg(long, value_name = "URL")]
    etcd: Vec<String>,
    /// Configuration file; flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Force {
    pub fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let mut config = Config::read_or_default(self.config.as_deref())?;
        if !self.etcd.is_empty() {
            config.mds.etcd = Some(self.etcd.clone());
        }
        let before = block_on(self.force(&config))?;
        println!("{}", describe(before.as_ref()));
        println!(
            "The copy in '{}' goes on alone: start its metadata server now.",
            self.dir.display()
        );
        Ok(Exit::Fine)
    }

    async fn force(&self, config: &Config) -> CliResult<Option<Register>> {
        close_to_others();
        let platform = Platform::real();
        let etcd = EtcdSettings::of(&config.mds)?.ok_or_else(|| super::no_etcd("this command"))?;
        let store_dir = StoreDir::at(&self.dir)?;
        let _lock = Lock::take(&store_dir)?;
        let marker = store_dir.read_marker()?;
        let id = marker.copy().ok_or_else(|| {
            CliError::new(format!(
                "'{}' has no copies on other hosts",
                self.dir.display()
            ))
            .exit(Exit::Unusable)
        })?;
        let key = read_cluster_key(Some(&store_dir.key()))?;
        let identity = identity(&platform, key.map(AuthKey::from), None);
        let copy = MetadataCopy::new(CopyOptions {
            platform: platform.clone(),
            local: identity.local_identity(Role::Mds, "force"),
            identity,
            id,
            run: CopyRun(platform.random.u64()),
            // The metadata server writes its own when it starts.
            address: String::new(),
            shards: VirtualShards(marker.virtual_shards),
            arbiter: etcd.arbiter(marker.cluster(), &platform)?,
            files: Arc::new(CopyDirectory::new(
                &store_dir,
                DescriptorBudget::of_this_process(0)?,
                &platform,
            )),
            kv: KvOptions::new(LogOptions::new(metadata_store_id(&marker))),
            send_deadline: SendDeadline::until(platform.clock.clone(), BootTime(0)),
            may_begin: false,
        });
        let forced = tokio::select! {
            forced = copy.force() => forced,
            () = platform.clock.sleep(TIMEOUT) => return Err(no_etcd_answer(&copy)),
        };
        forced.map_err(|error| {
            CliError::new(format!(
                "the copy in '{}' cannot go on alone",
                self.dir.display()
            ))
            .because(&error)
        })
    }
}

fn no_etcd_answer(copy: &MetadataCopy) -> CliError {
    let mut error = CliError::new("etcd cannot be used");
    if let Some(why) = copy.arbiter_error() {
        error = error.because(&why);
    }
    error
        .todo("see that a majority of its members runs and accepts this process, and try again")
        .exit(Exit::NotRunning)
}

fn describe(before: Option<&Register>) -> String {
    match before {
        None => "etcd had nothing about this cluster.".into(),
        Some(register) => {
            let counted: Vec<&str> = (register.counting())
                .map(|member| member.address.as_str())
                .collect();
            format!(
                "Before, these copies had everything that was acknowledged: {}.",
                counted.join(", ")
            )
        }
    }
}
