//! TCP.

use super::addresses;
use crate::busy_poll;
use bytes::BytesMut;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

pub async fn listen(address: &str) -> Result<Listener> {
    Ok(Listener(TcpListener::bind(address).await?))
}

pub async fn connect(to: &str, after: Option<&str>) -> Result<Stream> {
    let found = tokio::net::lookup_host(to).await?;
    let addresses = addresses::in_turn(found.collect(), after);
    Stream::new(addresses::first_of(addresses).await?)
}

pub struct Listener(TcpListener);

impl Listener {
    pub async fn accept(&self) -> Result<Stream> {
        Stream::new(self.0.accept().await?.0)
    }

    pub fn address(&self) -> String {
        self.0
            .local_addr()
            .map_or_else(|error| error.to_string(), |address| address.to_string())
    }
}

#[derive(Clone)]
pub struct Stream(Arc<Connected>);

struct Connected {
    stream: TcpStream,
    peer: String,
    near: String,
    local: bool,
}

impl Stream {
    fn new(stream: TcpStream) -> Result<Stream> {
        // Messages are whole when they are sent: waiting for more would only delay them.
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        let near = stream.local_addr()?;
        let local = peer.ip() == near.ip() || peer.ip().is_loopback();
        Ok(Stream(Arc::new(Connected {
            stream,
            peer: peer.to_string(),
            near: near.to_string(),
            local,
        })))
    }

    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        loop {
            self.0.stream.readable().await?;
            match self.try_read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(bytes) => {
                    busy_poll::heard(bytes);
                    return Ok(bytes);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A read that leaves room has taken all there was: the next one waits, and does not ask the kernel first.
    fn try_read(&self, into: &mut BytesMut) -> Result<usize> {
        let (stream, room) = (&self.0.stream, into.capacity() - into.len());
        let mut all = None;
        let some = stream.try_io(Interest::READABLE, || {
            let bytes = stream.try_read_buf(into)?;
            if (1..room).contains(&bytes) {
                all = Some(bytes);
                // How one tells the runtime that nothing is left.
                return Err(ErrorKind::WouldBlock.into());
            }
            Ok(bytes)
        });
        all.map_or(some, Ok)
    }

    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        match self.0.stream.try_write_vectored(parts) {
            Ok(0) => Err(Error::from(ErrorKind::WriteZero)),
            other => other,
        }
    }

    pub async fn writable(&self) -> Result<()> {
        self.0.stream.writable().await
    }

    pub fn close(&self) {
        // An error means that it was closed already.
        let _ = rustix::net::shutdown(&self.0.stream, rustix::net::Shutdown::Both);
    }

    pub fn peer(&self) -> &str {
        &self.0.peer
    }

    pub fn near(&self) -> &str {
        &self.0.near
    }

    pub fn is_local(&self) -> bool {
        self.0.local
    }
}
