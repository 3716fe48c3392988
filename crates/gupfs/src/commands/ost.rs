//! `gupfs ost`: adds targets to a cluster, drains and removes them, declares them lost, and accepts older copies of them.

mod accept_loss;
mod drain;
mod lost;
mod remove;
mod target;

use crate::cluster::{TlsFlags, identity, read_cluster_key, send_request};
use crate::daemon::block_on;
use crate::exit::{CliError, CliResult, Exit};
use crate::store_dir::make_dir;
use clap::{Args, Subcommand};
use gupfs_platform::{Disk, Platform};
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::{Incarnation, OstId};
use gupfs_rpc::{AuthKey, ProcessIdentity, Role};
use gupfs_store::object::{Objects, TargetId};
use std::path::{Path, PathBuf};

/// Make targets for a cluster, empty and remove them, declare that one is lost, or accept an older copy of one
#[derive(Subcommand)]
pub enum Ost {
    AcceptLoss(accept_loss::AcceptLoss),
    Add(Add),
    Drain(drain::Drain),
    Lost(lost::Lost),
    Remove(remove::Remove),
}

/// Make an empty directory an object storage target of a running cluster
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs ost add /srv/osts/disk1 --mds node1
  gupfs oss /srv/osts --mds node1 --listen 0.0.0.0:7701

A running `gupfs oss` of the parent directory serves the new target at once; otherwise start one. New files use the target from \
then on.

Exit codes: 0 added · 1 the target could not be made · 2 the directory cannot be used, or the key is wrong · 3 the metadata server \
cannot be reached")]
pub struct Add {
    /// An empty directory on the disk that the target is to use; made if it does not exist
    dir: PathBuf,
    /// The metadata server, or several, separated by commas [default: 127.0.0.1:7700]
    #[arg(long, value_name = "HOST[:PORT]")]
    mds: Option<String>,
    /// The cluster's key [default: /etc/gupfs/cluster.key, if it is there]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsFlags,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Ost {
    pub fn run(self) -> CliResult<Exit> {
        match self {
            Ost::AcceptLoss(accept) => accept.run(),
            Ost::Add(add) => add.run(),
            Ost::Drain(drain) => drain.run(),
            Ost::Remove(remove) => remove.run(),
            Ost::Lost(lost) => lost.run(),
        }
    }
}

impl Add {
    fn run(self) -> CliResult<Exit> {
        crate::logging::start_quiet();
        let platform = Platform::real();
        let identity = identity(
            &platform,
            read_cluster_key(self.key.as_deref())?.map(AuthKey::from),
            self.tls.read()?,
        );
        let mds = self.mds.clone().unwrap_or_else(|| "127.0.0.1".into());
        prepare_dir(&self.dir)?;
        let ost = block_on(self.make(&identity, &mds, &platform))?;
        match self.json {
            true => println!("{}", serde_json::json!({ "ost": ost.0, "dir": self.dir })),
            false => println!("'{}' is now ost{ost}.", self.dir.display()),
        }
        Ok(Exit::Fine)
    }

    async fn make(
        &self,
        identity: &ProcessIdentity,
        mds: &str,
        platform: &Platform,
    ) -> CliResult<OstId> {
        let failed = |error: &(dyn std::error::Error + 'static)| {
            CliError::new(format!("cannot create the target '{}'", self.dir.display()))
                .because(error)
        };
        let disk = Disk::real(&self.dir).map_err(|error| failed(&error))?;
        // The number first, because the superblock contains it; a number without a target leaves only a gap.
        let incarnation = Incarnation(platform.random.u64());
        // In the role of an object server: no other role may register targets.
        let request = ClusterRequest::RegisterTarget { incarnation };
        let (reply, cluster) = send_request(identity, mds, Role::Oss, request).await?;
        let ClusterReplyBody::TargetRegistered { ost } = reply else {
            return Err(CliError::new(format!(
                "'{mds}' sent an unexpected reply to the registration of the target"
            )));
        };
        let target_id = TargetId { cluster, ost };
        Objects::init_as(&disk, platform, target_id, incarnation)
            .await
            .map_err(|error| failed(&error))?;
        Ok(ost)
    }
}

/// Creates `dir`, or checks that it is empty.
///
/// # Errors
/// If it is not empty, or cannot be created or read.
fn prepare_dir(dir: &Path) -> CliResult<()> {
    let failed = |error: &std::io::Error| {
        CliError::new(format!("cannot use '{}'", dir.display()))
            .because(error)
            .exit(Exit::Unusable)
    };
    if !dir.exists() {
        return make_dir(dir).map_err(|error| error.exit(Exit::Unusable));
    }
    let entries = std::fs::read_dir(dir).map_err(|error| failed(&error))?;
    for entry in entries.flatten() {
        if entry.file_name() != "lost+found" {
            return Err(CliError::new(format!(
                "'{}' is not empty: it contains '{}'",
                dir.display(),
                entry.file_name().to_string_lossy()
            ))
            .todo("give an empty directory")
            .exit(Exit::Unusable));
        }
    }
    Ok(())
}
