//! `gupfs mds DIR --join HOST`: an empty directory becomes a copy of the metadata of another host.

use crate::cluster::{MDS_PORT, identity, read_cluster_key, read_tls, with_port};
use crate::config::Config;
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use crate::store_dir::{CopiedStore, Lock, LockedStore, StoreDir, close_to_others, make_dir};
use gupfs_platform::Platform;
use gupfs_proto::copy::{CopyOp, CopyReply, CopyReplyBody, CopyRequest, CopyState};
use gupfs_rpc::{AuthKey, ClientConnection, Handlers, Role, ServerAddresses};
use std::path::Path;
use std::time::Duration;

/// How long connecting may take, and then the reply.
const TIMEOUT: Duration = Duration::from_secs(10);

const DEFAULT_KEY: &str = "/etc/gupfs/cluster.key";

/// Opens the directory. If it is empty it becomes a copy of what the metadata server at `host` has; a directory that is a copy of that already is
/// opened.
///
/// # Errors
/// If the server does not answer, the directory holds anything else, or it cannot be written.
pub async fn join_copies(
    dir: &Path,
    host: &str,
    key: Option<&Path>,
    config: &Config,
    platform: &Platform,
) -> CliResult<LockedStore> {
    close_to_others();
    let address = with_port(host, MDS_PORT);
    let path = key.unwrap_or(Path::new(DEFAULT_KEY));
    let cluster_key = read_cluster_key(Some(path))?;
    let bytes = std::fs::read(path).or_cli_error(|| format!("cannot read '{}'", path.display()))?;
    let bytes = <[u8; 32]>::try_from(&bytes[..]).map_err(|_| {
        CliError::new(format!("'{}' is not the cluster key", path.display())).exit(Exit::Unusable)
    })?;
    let identity = identity(
        platform,
        cluster_key.map(AuthKey::from),
        read_tls(&config.cluster)?,
    );
    let local = identity.local_identity(Role::Mds, "joins");
    let connection = ClientConnection::connect(identity.mds_connection_options(
        &ServerAddresses::one(&address),
        &local,
        Handlers::none(),
    ));
    let unreachable = || format!("cannot reach the metadata server at '{address}'");
    let connected = connection.wait_connected(TIMEOUT).await;
    connected.map_err(|error| CliError::new(unreachable()).because(&*error))?;
    let found = state_of(&connection, platform).await;
    let found = found.ok_or_else(|| {
        CliError::new(format!("the metadata server at '{address}' has no copies"))
            .todo("start it with --etcd, too: it is the first copy")
            .exit(Exit::Unusable)
    })?;
    if !dir.exists() {
        make_dir(dir)?;
    }
    let store_dir = StoreDir::at(dir)?;
    let lock = Lock::take(&store_dir)?;
    if store_dir.is_initialised()? {
        let marker = store_dir.read_marker()?;
        let is_same = (marker.cluster(), marker.metadata()) == (found.cluster, found.incarnation);
        if !is_same || !marker.has_joined() {
            return Err(CliError::new(format!(
                "'{}' holds other metadata than the server at '{address}'",
                dir.display()
            ))
            .todo("give an empty or new directory")
            .exit(Exit::Unusable));
        }
        let options = crate::store_dir::StoreOptions {
            osts: Some(0),
            virtual_shards: found.shards,
        };
        return store_dir.open_or_initialise(lock, &options, &platform.random);
    }
    let copied = CopiedStore {
        cluster: found.cluster,
        metadata: found.incarnation,
        virtual_shards: found.shards,
        key: bytes,
    };
    store_dir.initialise_copy(lock, &copied, &platform.random)
}

/// What the server has; None if it has no copies, or does not answer.
async fn state_of(
    connection: &std::sync::Arc<ClientConnection>,
    platform: &Platform,
) -> Option<CopyState> {
    let request = CopyRequest {
        to: None,
        run: None,
        op: CopyOp::State,
    };
    let peer = connection.peer::<CopyRequest, CopyReply>();
    tokio::select! {
        reply = peer.call(request) => match reply {
            Ok(CopyReplyBody::State(state)) => Some(state),
            _ => None,
        },
        () = platform.clock.sleep(TIMEOUT) => None,
    }
}
