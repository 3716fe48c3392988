//! A session at the metadata server of a cluster: from the first connection to its end.

use super::{SetupError, SetupErrorKind, mds_addresses};
use gupfs_client::{Client, ClientCallbacks, Route, SessionOptions, renew_after_reconnect};
use gupfs_platform::Task;
use gupfs_proto::{ClusterId, FsError};
use gupfs_rpc::{
    ClientConnection, ConnectError, Handlers, LocalIdentity, OssConnections, PeerIdentity,
    ProcessIdentity, Role,
};
use std::sync::Arc;
use std::time::Duration;

/// A connection to the metadata server, without a session yet.
pub struct DialedCluster {
    pub mds_connection: Arc<ClientConnection>,
    identity: ProcessIdentity,
    local: LocalIdentity,
    callbacks: Arc<ClientCallbacks>,
}

/// A session at the metadata server, with its connections.
pub struct ClusterSession {
    pub client: Arc<Client>,
    pub cluster: ClusterId,
    pub mds_address: String,
    pub mds_connection: Arc<ClientConnection>,
    pub oss_connections: Arc<OssConnections>,
    renewal: Task<()>,
}

impl DialedCluster {
    /// Starts to connect to the metadata server at "HOST[:PORT]", or to several of them, separated by commas. The servers' messages show `what`
    /// uses the session.
    pub fn dial(identity: ProcessIdentity, mds: &str, what: &str) -> DialedCluster {
        let local = identity.local_identity(Role::Client, what);
        let callbacks = Arc::new(ClientCallbacks::default());
        let handlers = Handlers::none().with_service(callbacks.clone());
        let options = identity.mds_connection_options(&mds_addresses(mds), &local, handlers);
        DialedCluster {
            mds_connection: ClientConnection::connect(options),
            identity,
            local,
            callbacks,
        }
    }

    /// Waits for the connection, at most until an attempt at each address has failed.
    ///
    /// # Errors
    /// As `unreachable`.
    pub async fn wait_first_attempt(&self, timeout: Duration) -> Result<PeerIdentity, SetupError> {
        let server = self.mds_connection.wait_first_attempt(timeout).await;
        server.map_err(|error| self.unreachable(error))
    }

    /// Waits for the connection, and tries again until `timeout`.
    ///
    /// # Errors
    /// As `unreachable`.
    pub async fn wait_connected(&self, timeout: Duration) -> Result<PeerIdentity, SetupError> {
        let server = self.mds_connection.wait_connected(timeout).await;
        server.map_err(|error| self.unreachable(error))
    }

    /// The error of a connection that was not made.
    pub fn unreachable(&self, error: Arc<ConnectError>) -> SetupError {
        let address = self.mds_connection.status().address;
        let kind = match error.is_permanent() {
            true => SetupErrorKind::Unusable,
            false => SetupErrorKind::Unreachable,
        };
        let what = format!("cannot reach the metadata server at '{address}'");
        SetupError::new(kind, what).because(error)
    }

    /// Opens the session at the connected server.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn open_session(
        self,
        server: &PeerIdentity,
        options: SessionOptions,
    ) -> Result<ClusterSession, SetupError> {
        let DialedCluster {
            mds_connection,
            identity,
            local,
            callbacks,
        } = self;
        let address = mds_connection.status().address;
        let platform = identity.platform.clone();
        let oss_connections = OssConnections::new(&identity, local, server.cluster, &address);
        let route = Route::with_map(
            mds_connection.peer(),
            Vec::new(),
            mds_connection.peer(),
            oss_connections.clone(),
            platform.clock.clone(),
        );
        let client = Client::connect_with_route(route, platform.clone(), options).await;
        let client = client.map_err(|refusal: FsError| {
            let what = format!("the metadata server at '{address}' refused this client");
            SetupError::new(SetupErrorKind::Refused, what).because(refusal)
        })?;
        callbacks.set_client(&client);
        let renewal = platform.tasks.spawn(
            "renew after reconnect",
            renew_after_reconnect(mds_connection.clone(), client.clone()),
        );
        Ok(ClusterSession {
            client,
            cluster: server.cluster,
            mds_address: address,
            mds_connection,
            oss_connections,
            renewal,
        })
    }
}

impl ClusterSession {
    /// A reconnect no longer renews the session, which is about to end.
    pub fn stop_renewal(&self) {
        self.renewal.stop();
    }

    /// The servers that do not answer now, for the message of a session that could not end.
    pub fn unreachable_servers(&self) -> String {
        let oss_connections = self.oss_connections.status().into_iter();
        let all = oss_connections.chain([self.mds_connection.status()]);
        let unreachable = all.filter(|status| !status.connected || status.pending_requests > 0);
        let unreachable: Vec<String> = unreachable
            .map(|status| format!("{} at {}", status.peer_name, status.address))
            .collect();
        match unreachable.is_empty() {
            true => "the last reports to the servers".into(),
            false => format!("the last reports to {}", unreachable.join(", ")),
        }
    }
}

impl Drop for ClusterSession {
    fn drop(&mut self) {
        self.renewal.stop();
    }
}
