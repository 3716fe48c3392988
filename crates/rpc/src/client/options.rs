//! What a client connection connects to, and how.

use crate::client_key::AuthKey;
use crate::handler::Handlers;
use crate::handshake::LocalIdentity;
use crate::send_deadline::SendDeadline;
use crate::server_addresses::ServerAddresses;
use crate::tls::TlsConfig;
use gupfs_platform::{Net, Platform};
use gupfs_proto::ClusterId;
use std::sync::Arc;
use std::time::Duration;

/// The server of a client connection, and how the connection behaves.
#[derive(Clone)]
pub struct ClientConnectionOptions {
    /// Where the server listens. With several addresses the client connects to all of them at the same time, and uses the first that welcomes
    /// it.
    pub addresses: Arc<ServerAddresses>,
    /// The name of the server in messages: "the metadata server", "an object server".
    pub peer_name: String,
    pub net: Net,
    pub platform: Platform,
    pub identity: LocalIdentity,
    pub cluster: Option<ClusterId>,
    pub key: Option<AuthKey>,
    /// None: the connection is not encrypted.
    pub tls: Option<TlsConfig>,
    /// How long a request waits for its reply; None: as long as the connection object exists.
    pub request_timeout: Option<Duration>,
    /// A cancelled request must not take effect later: the client closes the connection when it cancels one, and the server
    /// accepts the next connection of this process only when all requests of the previous one have ended.
    pub fence: bool,
    /// Handlers of the server's callbacks.
    pub handlers: Handlers,
    /// Until when this process may send to the server. After the deadline the connection closes, and connects again when an extension has
    /// moved it.
    pub send_deadline: SendDeadline,
}
