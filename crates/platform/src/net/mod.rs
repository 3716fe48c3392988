//! # net: streams of bytes between processes
//!
//! Owns   listening, connecting, reading and non-blocking writing; TCP, or fake pipes with delays and partitions.
//! Never  interprets the bytes.
//! Enter  at `Net::real`, `Net::connect`, `Net::listen`; simulations at `fake::FakeNet::host`.

mod addresses;
#[cfg(feature = "fake")]
pub(crate) mod fake;
mod real;

use bytes::BytesMut;
use std::io::{IoSlice, Result};

/// One process's access to the network.
#[derive(Clone)]
pub struct Net(Source);

#[derive(Clone)]
enum Source {
    Real,
    #[cfg(feature = "fake")]
    Fake(fake::FakeHost),
}

impl Net {
    pub fn real() -> Net {
        Net(Source::Real)
    }

    /// Listens for connections at `address` ("host:port"; port 0 selects a free one).
    ///
    /// # Errors
    /// The system's error: the address is in use, or not one of this host.
    pub async fn listen(&self, address: &str) -> Result<Listener> {
        Ok(Listener(match &self.0 {
            Source::Real => ListenerKind::Real(real::listen(address).await?),
            #[cfg(feature = "fake")]
            Source::Fake(host) => ListenerKind::Fake(host.listen(address)?),
        }))
    }

    /// Connects to "host:port": to the first address of the name that accepts. It tries all addresses, each a short time after
    /// the former one, so that an address that drops packets does not delay the others for long.
    ///
    /// # Errors
    /// If no address accepts, with the error of each; an error of the resolver if the name is unknown.
    pub async fn connect(&self, to: &str) -> Result<Stream> {
        self.connect_after(to, None).await
    }

    /// The same, but begins with the address after `after` ("ip:port", as `Stream::peer_address` returns it), if the name has
    /// that one: it accepted a connection before, but the server behind it was not usable.
    ///
    /// # Errors
    /// As `connect`.
    pub async fn connect_after(&self, to: &str, after: Option<&str>) -> Result<Stream> {
        Ok(Stream(match &self.0 {
            Source::Real => StreamKind::Real(real::connect(to, after).await?),
            #[cfg(feature = "fake")]
            Source::Fake(host) => StreamKind::Fake(host.connect(to).await?),
        }))
    }
}

pub struct Listener(ListenerKind);

enum ListenerKind {
    Real(real::Listener),
    #[cfg(feature = "fake")]
    Fake(fake::FakeListener),
}

impl Listener {
    /// # Errors
    /// The system's error; the next call may succeed (too many descriptors, a client that hung up).
    pub async fn accept(&self) -> Result<Stream> {
        Ok(Stream(match &self.0 {
            ListenerKind::Real(listener) => StreamKind::Real(listener.accept().await?),
            #[cfg(feature = "fake")]
            ListenerKind::Fake(listener) => StreamKind::Fake(listener.accept().await?),
        }))
    }

    /// The address on which it listens, with the actual port.
    pub fn address(&self) -> String {
        match &self.0 {
            ListenerKind::Real(listener) => listener.address(),
            #[cfg(feature = "fake")]
            ListenerKind::Fake(listener) => listener.address(),
        }
    }
}

/// Both directions of one connection; clones share it. One task reads at a time, and one writes.
#[derive(Clone)]
pub struct Stream(StreamKind);

#[derive(Clone)]
enum StreamKind {
    Real(real::Stream),
    #[cfg(feature = "fake")]
    Fake(fake::FakeStream),
}

/// Calls the same method on the stream behind the handle, real or fake.
macro_rules! on {
    ($stream:expr, $it:ident => $call:expr) => {
        match &$stream.0 {
            StreamKind::Real($it) => $call,
            #[cfg(feature = "fake")]
            StreamKind::Fake($it) => $call,
        }
    };
}

impl Stream {
    /// Appends received bytes, at most as many as the spare capacity of `into`; waits for the first byte. 0 when the peer will
    /// send no more.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        on!(self, stream => stream.read(into).await)
    }

    /// Writes as many bytes as possible without waiting; `WouldBlock` if none.
    ///
    /// # Errors
    /// `WouldBlock` if the connection takes no byte now; any other error if it broke.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        on!(self, stream => stream.try_write(parts))
    }

    /// Returns when a write may succeed again.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn writable(&self) -> Result<()> {
        on!(self, stream => stream.writable().await)
    }

    /// Closes both directions for both sides; calls that wait here return.
    pub fn close(&self) {
        on!(self, stream => stream.close())
    }

    /// The address of the peer, for messages and for rules about hosts.
    pub fn peer_address(&self) -> &str {
        on!(self, stream => stream.peer_address())
    }

    /// The local address: other hosts on the same network reach this host at it.
    pub fn local_address(&self) -> &str {
        on!(self, stream => stream.local_address())
    }

    /// Whether the peer is on this host.
    pub fn is_local(&self) -> bool {
        on!(self, stream => stream.is_local())
    }
}

#[cfg(feature = "fake")]
impl fake::FakeNet {
    /// The handle for the code of one host.
    pub fn host(&self, name: &str) -> Net {
        Net(Source::Fake(self.fake_host(name)))
    }
}
