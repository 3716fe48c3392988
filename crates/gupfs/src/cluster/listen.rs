//! Listening for connections, where that is safe, and how many a process accepts.

use crate::exit::{CliError, CliResult, Exit, OrCliError};
use gupfs_platform::Listener;
use gupfs_proto::ClusterId;
use gupfs_rpc::{
    Admission, AdmitAll, Capacity, ClientKeyList, ConnectionObserver, Handlers, LocalIdentity,
    ProcessIdentity, RpcServer, RpcServerOptions, SendDeadline,
};
use rustix::process::Resource;
use std::net::IpAddr;
use std::sync::Arc;

/// How many connections a process accepts that may have `open_files` open files. A client has two to a metadata server.
pub fn capacity(open_files: usize) -> Capacity {
    let min = CAPACITY_MIN;
    Capacity {
        clients: (open_files / 8).clamp(min.clients, CLIENTS_MAX),
        others: (open_files / 32).clamp(min.others, 1_024),
        unauthenticated: (open_files / 40).clamp(min.unauthenticated, 256),
    }
}

/// The most connections of clients, however many files the process may open.
const CLIENTS_MAX: usize = 16_384;

/// The fewest connections that a process accepts; the limit of open files of a small host suffices for them and its stores.
pub const CAPACITY_MIN: Capacity = Capacity::for_clients(64);

/// A bound address; the process accepts no connections yet.
pub struct BoundListener(Listener);

/// Binds the address.
///
/// # Errors
/// If another process uses it, or if other hosts can reach it and there is no key.
pub async fn listen(identity: &ProcessIdentity, address: &str) -> CliResult<BoundListener> {
    if identity.cluster_key().is_none() && !is_loopback(address) {
        return Err(CliError::new(format!(
            "cannot listen at '{address}' without the cluster key: every host that reaches this address could read and write all files"
        ))
        .todo("name the key file with --key, or listen at 127.0.0.1")
        .exit(Exit::Unusable));
    }
    if identity.tls.as_ref().is_some_and(|tls| !tls.can_serve()) {
        return Err(CliError::new("a server needs a certificate for TLS")
            .todo("put cert.pem and key.pem into the directory of ca.pem; docs/operate.md, \"TLS\", describes how to make them")
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

/// Whether a listening address stands for all addresses of the host.
pub fn is_wildcard(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host == "0.0.0.0" || host == "[::]"
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl BoundListener {
    pub fn address(&self) -> String {
        self.0.address()
    }

    /// Accepts connections from now on.
    pub fn serve(
        self,
        identity: &ProcessIdentity,
        local: LocalIdentity,
        cluster: ClusterId,
        client_keys: Arc<dyn ClientKeyList>,
        (handlers, observer): (Handlers, Arc<dyn ConnectionObserver>),
        capacity: Capacity,
    ) -> RpcServer {
        let names = (local, cluster, client_keys);
        self.serve_admitted(
            identity,
            names,
            (handlers, observer),
            (Arc::new(AdmitAll), SendDeadline::none()),
            capacity,
        )
    }

    /// Accepts connections from now on, as far as `admission` does, and sends to clients and object servers until the deadline.
    pub fn serve_admitted(
        self,
        identity: &ProcessIdentity,
        (local, cluster, client_keys): (LocalIdentity, ClusterId, Arc<dyn ClientKeyList>),
        (handlers, observer): (Handlers, Arc<dyn ConnectionObserver>),
        (admission, send_deadline): (Arc<dyn Admission>, SendDeadline),
        capacity: Capacity,
    ) -> RpcServer {
        RpcServer::start(
            self.0,
            RpcServerOptions {
                platform: identity.platform.clone(),
                identity: local,
                cluster,
                key: identity.cluster_key(),
                client_keys,
                tls: identity.tls.clone(),
                handlers,
                observer,
                capacity,
                admission,
                send_deadline,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognised() {
        for address in ["127.0.0.1:7700", "localhost:1", "[::1]:7700", "127.0.0.1:0"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0:7700", "10.0.0.1:1", "[::]:7700", "node1:7700"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
