//! # fake: a simulated network
//!
//! Owns   named hosts, pipes between them with delays, partitions, broken connections.
//! Never  opens a socket.
//! Enter  at `FakeNet::new`; `FakeNet::host` returns the handle of one host.

mod links;
mod network;
mod stream;

pub use network::{FakeHost, FakeListener, FakeNet};
pub use stream::FakeStream;
