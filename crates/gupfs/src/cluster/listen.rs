//! Listening, if that is safe.

use super::ProcessIdentity;
use crate::exit::{CliError, CliResult, Exit, OrCliError};
use gupfs_platform::Listener;
use gupfs_proto::ClusterId;
use gupfs_rpc::{
    Capacity, ClientKeyList, ConnectionObserver, Handlers, LocalIdentity, RpcServer,
    RpcServerOptions,
};
use rustix::process::Resource;
use std::net::IpAddr;
use std::sync::Arc;

/// The connections that a process keeps which may have so many files open. A client has two to a metadata server.
pub fn capacity(open_files: usize) -> Capacity {
    let least = CAPACITY_LEAST;
    Capacity {
        clients: (open_files / 8).clamp(least.clients, MOST_CLIENTS),
        others: (open_files / 32).clamp(least.others, 1_024),
        unauthenticated: (open_files / 40).clamp(least.unauthenticated, 256),
    }
}

const MOST_CLIENTS: usize = 16_384;

/// A small host's limit has room for them beside its stores.
pub const CAPACITY_LEAST: Capacity = Capacity::for_clients(64);

/// An address that is ours; nobody is let in yet.
pub struct BoundListener(Listener);

/// Takes the address.
///
/// # Errors
/// When it is taken, or without a key when other hosts could reach it.
pub async fn listen(identity: &ProcessIdentity, address: &str) -> CliResult<BoundListener> {
    if identity.cluster_key().is_none() && !is_of_this_host(address) {
        return Err(CliError::new(format!(
            "without the cluster's key nobody listens at '{address}': every host that reaches it could read and write everything"
        ))
        .todo("name the key's file with --key, or listen at 127.0.0.1")
        .exit(Exit::Unusable));
    }
    if identity.tls.as_ref().is_some_and(|tls| !tls.can_serve()) {
        return Err(CliError::new("a server that speaks TLS needs a certificate of its own")
            .todo("put cert.pem and key.pem beside ca.pem: docs/operate.md, \"TLS\", says how to make them")
            .exit(Exit::Unusable));
    }
    let listener = identity.net.listen(address).await;
    listener
        .map(BoundListener)
        .or_cli_error(|| format!("cannot listen at '{address}'"))
}

/// How many files this process may have open.
pub fn open_files() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

fn is_of_this_host(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl BoundListener {
    pub fn address(&self) -> String {
        self.0.address()
    }

    /// Lets others in from here on.
    pub fn open(
        self,
        identity: &ProcessIdentity,
        me: LocalIdentity,
        cluster: ClusterId,
        clients: Arc<dyn ClientKeyList>,
        (hosts, attend): (Handlers, Arc<dyn ConnectionObserver>),
        capacity: Capacity,
    ) -> RpcServer {
        RpcServer::start(
            self.0,
            RpcServerOptions {
                platform: identity.platform.clone(),
                identity: me,
                cluster,
                key: identity.cluster_key(),
                client_keys: clients,
                tls: identity.tls.clone(),
                handlers: hosts,
                observer: attend,
                capacity,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_of_this_host() {
        for address in ["127.0.0.1:7700", "localhost:1", "[::1]:7700", "127.0.0.1:0"] {
            assert!(is_of_this_host(address), "{address}");
        }
        for address in ["0.0.0.0:7700", "10.0.0.1:1", "[::]:7700", "node1:7700"] {
            assert!(!is_of_this_host(address), "{address}");
        }
    }
}
