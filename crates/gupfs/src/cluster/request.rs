//! The request of a command to a server on another host.

use crate::exit::{CliError, CliResult, Exit};
use gupfs_proto::cluster::{ClusterReplyBody, ClusterRequest};
use gupfs_proto::{ClusterId, FsError};
use gupfs_rpc::{
    ClientConnection, ClientConnectionOptions, Handlers, ProcessIdentity, Role, SendDeadline,
};
use std::time::Duration;

/// How long connecting may take, and then the reply.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the server at `address` in this role and sends one request. Returns the reply and the server's cluster.
///
/// # Errors
/// If the server cannot be reached, does not accept this process, or refuses the request.
pub async fn send_request(
    identity: &ProcessIdentity,
    address: &str,
    role: Role,
    request: ClusterRequest,
) -> CliResult<(ClusterReplyBody, ClusterId)> {
    let connection = ClientConnection::connect(ClientConnectionOptions {
        addresses: super::mds_addresses(address),
        peer_name: "the server".into(),
        net: identity.net.clone(),
        platform: identity.platform.clone(),
        identity: identity.local_identity(role, "command"),
        cluster: None,
        key: identity.key.clone(),
        tls: identity.tls.clone(),
        request_timeout: Some(TIMEOUT),
        fence: false,
        handlers: Handlers::none(),
        send_deadline: SendDeadline::none(),
    });
    let server = connection.wait_connected(TIMEOUT).await.map_err(|error| {
        let exit = match error.is_permanent() {
            true => Exit::Unusable,
            false => Exit::NotRunning,
        };
        CliError::new(format!("cannot reach the server at '{address}'"))
            .because(&*error)
            .exit(exit)
    })?;
    let reply: Result<ClusterReplyBody, FsError> = connection.peer().call(request).await;
    let reply = reply.map_err(|refusal| {
        CliError::new(format!("the server at '{address}' refused the request")).because(&refusal)
    })?;
    Ok((reply, server.cluster))
}
