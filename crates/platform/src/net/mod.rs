//! # net: streams of bytes between processes
//!
//! Owns   listening, connecting, reading and writing without waiting; TCP for real, pipes with delay and cuts when faked.
//! Never  knows what is said.
//! Enter  at `Net::real`, `Net::connect`, `Net::listen`; simulations at `fake::FakeNet::host`.

mod addresses;
mod real;

use bytes::BytesMut;
use std::io::{IoSlice, Result};

/// One process's way to others.
#[derive(Clone)]
pub struct Net(Source);

#[derive(Clone)]
enum Source {
    Real,
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeHost),
}

impl Net {
    pub fn real() -> Net {
        Net(Source::Real)
    }

    #[cfg(feature = "fake")]
    pub(crate) fn fake(host: crate::fake::FakeHost) -> Net {
        Net(Source::Fake(host))
    }

    /// Waits for connections at `address` ("host:port"; port 0 takes a free one).
    pub async fn listen(&self, address: &str) -> Result<Listener> {
        Ok(Listener(match &self.0 {
            Source::Real => Ears::Real(real::listen(address).await?),
            #[cfg(feature = "fake")]
            Source::Fake(host) => Ears::Fake(host.listen(address)?),
        }))
    }

    /// Connects to "host:port": to the first address of the name that answers. All are tried, each a moment after the one
    /// before, so that one which swallows packets keeps nobody from the others.
    pub async fn connect(&self, to: &str) -> Result<Stream> {
        self.connect_after(to, None).await
    }

    /// The same, beginning behind the address `after` ("ip:port", as `Stream::peer` has it), if the name has that: it answered
    /// before, and was of no use.
    pub async fn connect_after(&self, to: &str, after: Option<&str>) -> Result<Stream> {
        Ok(Stream(match &self.0 {
            Source::Real => Wire::Real(real::connect(to, after).await?),
            #[cfg(feature = "fake")]
            Source::Fake(host) => Wire::Fake(host.connect(to).await?),
        }))
    }
}

pub struct Listener(Ears);

enum Ears {
    Real(real::Listener),
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeListener),
}

impl Listener {
    pub async fn accept(&self) -> Result<Stream> {
        Ok(Stream(match &self.0 {
            Ears::Real(listener) => Wire::Real(listener.accept().await?),
            #[cfg(feature = "fake")]
            Ears::Fake(listener) => Wire::Fake(listener.accept().await?),
        }))
    }

    /// Where it listens, with the port it got.
    pub fn address(&self) -> String {
        match &self.0 {
            Ears::Real(listener) => listener.address(),
            #[cfg(feature = "fake")]
            Ears::Fake(listener) => listener.address(),
        }
    }
}

/// Both directions of one connection; clones are the same. One task reads at a time, and one writes.
#[derive(Clone)]
pub struct Stream(Wire);

#[derive(Clone)]
enum Wire {
    Real(real::Stream),
    #[cfg(feature = "fake")]
    Fake(crate::fake::FakeStream),
}

/// Runs the same call on whichever stream stands behind the handle.
macro_rules! on {
    ($stream:expr, $it:ident => $call:expr) => {
        match &$stream.0 {
            Wire::Real($it) => $call,
            #[cfg(feature = "fake")]
            Wire::Fake($it) => $call,
        }
    };
}

impl Stream {
    /// Appends what has come, waiting for the first byte, and never more than `into` has room for; 0 when the other side
    /// will send nothing any more.
    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        on!(self, it => it.read(into).await)
    }

    /// Takes as many bytes as can go now, without waiting; `WouldBlock` if none can.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        on!(self, it => it.try_write(parts))
    }

    /// Returns when it is worth trying to write again.
    pub async fn writable(&self) -> Result<()> {
        on!(self, it => it.writable().await)
    }

    /// Ends both directions, for both sides; what waits here ends with it.
    pub fn close(&self) {
        on!(self, it => it.close())
    }

    /// Who is at the other end, for people and for rules about hosts.
    pub fn peer(&self) -> &str {
        on!(self, it => it.peer())
    }

    /// This end's address: how others on the same network reach this host.
    pub fn near(&self) -> &str {
        on!(self, it => it.near())
    }

    /// The other end is on this host.
    pub fn is_local(&self) -> bool {
        on!(self, it => it.is_local())
    }
}
