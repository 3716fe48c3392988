//! # rpc: one call
//!
//! Owns   the way a question reaches who answers it: a function call in one process, frames over a connection between two;
//!        TLS, handshake, connecting again, asking again with the same number, how much is worked on at once.
//! Never  knows a message's meaning.
//! Enter  at `Peer::call`. A server implements `Service` (or `Host`, to know who asks) and is reached through `Peer::local`,
//!        or over the net through `Server::start` on one side and `Line::open` on the other.

mod call;
mod client_key;
mod code;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handshake;
mod host;
mod key;
pub mod limits;
mod link;
mod peer;
mod serve;
pub mod strangers;
mod tls;

pub use call::{ConnectError, Line, LineOptions, LineStatus};
pub use client_key::{
    CLIENT_NAME_MAX, ClientKey, ClientKeys, ClientName, ClientOptions, EveryClientKey, Key, KeyKind,
};
pub use handshake::{GreetError, Met, Myself, Role};
pub use host::{Host, Hosts};
pub use key::ClusterKey;
pub use peer::{Peer, Service};
pub use serve::{
    Attend, Caller, Capacity, ConnectionStatus, Server, ServerOptions, ServerStatus, Unattended,
};
pub use tls::{Tls, TlsError, TlsFault, TlsParts};
