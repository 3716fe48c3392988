//! # rpc: one call
//!
//! Owns   the transport of a request to its server: a function call within one process, frames over a connection between two
//!        processes; the identity that a process shows in its handshakes, TLS, reconnecting (also to another copy of the server),
//!        resending a request with the same id, admission control (the limits on connections, concurrent requests and their bytes;
//!        a standby's connections), the deadline after which a server that lost its lease sends nothing.
//! Never  knows a message's meaning.
//! Enter  at `Peer::call`. A server implements `Service` (or `PeerHandler`, which also receives the connected peer). Clients in
//!        the same process reach it through `Peer::local`; over the network the server calls `RpcServer::start`, and the client
//!        calls `ClientConnection::connect` or, for one of many object servers, `OssConnections::dial`.

mod client;
mod client_key;
mod connected_peer;
mod frame;
mod frame_mac;
mod framed_stream;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handler;
mod handshake;
mod key;
pub mod limits;
mod load;
mod oss_connections;
mod peer;
mod pending_requests;
mod process_identity;
mod send_deadline;
mod serve;
mod server_addresses;
mod tls;
pub mod unauthenticated;

pub use client::{
    AddressFailures, ClientConnection, ClientConnectionOptions, ClientConnectionStatus,
    ConnectError,
};
pub use client_key::{
    AcceptAllClientKeys, AuthKey, CLIENT_NAME_MAX, ClientKey, ClientKeyId, ClientKeyList,
    ClientKeyOptions, ProvenKey,
};
pub use connected_peer::{ConnectedPeer, ConnectedPeerStatus};
pub use handler::{Handlers, PeerHandler};
pub use handshake::{HandshakeError, LocalIdentity, PeerIdentity, Role};
pub use key::ClusterKey;
pub use oss_connections::{DialOss, OssConnections};
pub use peer::{Peer, Service};
pub use process_identity::ProcessIdentity;
pub use send_deadline::SendDeadline;
pub use serve::{
    Admission, AdmissionFuture, AdmitAll, Admitted, Capacity, ConnectionObserver, NoObserver,
    RpcServer, RpcServerOptions, RpcServerStatus,
};
pub use server_addresses::ServerAddresses;
pub use tls::{TlsConfig, TlsError, TlsFault, TlsMaterial};
