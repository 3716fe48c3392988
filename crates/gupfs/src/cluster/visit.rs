//! A command that asks a server something and leaves.

use crate::exit::{CliError, CliResult, Exit};
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::{ClusterId, FsError};
use gupfs_rpc::{ClientConnection, ClientConnectionOptions, Handlers, ProcessIdentity, Role};
use std::time::Duration;

/// Connecting, and then the answer, may take so long each.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the server at `address`, as a process of this role; its answer, and its cluster.
pub async fn visit(
    identity: &ProcessIdentity,
    address: &str,
    role: Role,
    question: ClusterRequest,
) -> CliResult<(ClusterReplyBody, ClusterId)> {
    let line = ClientConnection::connect(ClientConnectionOptions {
        address: address.to_string(),
        peer_name: "the server".into(),
        net: identity.net.clone(),
        platform: identity.platform.clone(),
        identity: identity.local_identity(role, "command"),
        cluster: None,
        key: identity.key.clone(),
        tls: identity.tls.clone(),
        request_timeout: Some(PATIENCE),
        fence: false,
        handlers: Handlers::none(),
    });
    let met = line.wait_connected(PATIENCE).await.map_err(|error| {
        let exit = match error.is_permanent() {
            true => Exit::Unusable,
            false => Exit::NotRunning,
        };
        CliError::new(format!("cannot reach '{address}'"))
            .because(&*error)
            .exit(exit)
    })?;
    let answer: Result<ClusterReplyBody, FsError> = line.peer().call(question).await;
    let answer = answer
        .map_err(|refusal| CliError::new(format!("'{address}' refused")).because(&refusal))?;
    Ok((answer, met.cluster))
}
