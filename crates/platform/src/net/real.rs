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
    let addresses = addresses::connection_order(found.collect(), after);
    Stream::new(addresses::connect_first(addresses).await?)
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
    peer_address: String,
    local_address: String,
    is_local: bool,
}

impl Stream {
    fn new(stream: TcpStream) -> Result<Stream> {
        // Each write is a whole message: with Nagle's algorithm the kernel would only delay it.
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        let local = stream.local_addr()?;
        let is_local = peer.ip() == local.ip() || peer.ip().is_loopback();
        Ok(Stream(Arc::new(Connected {
            stream,
            peer_address: peer.to_string(),
            local_address: local.to_string(),
            is_local,
        })))
    }

    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        loop {
            self.0.stream.readable().await?;
            match self.try_read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(bytes) => {
                    busy_poll::record_arrival(bytes);
                    return Ok(bytes);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A read that does not fill the buffer has emptied the socket: the next read waits for readiness without a system call
    /// before.
    fn try_read(&self, into: &mut BytesMut) -> Result<usize> {
        let (stream, spare) = (&self.0.stream, into.capacity() - into.len());
        let mut emptied = None;
        let result = stream.try_io(Interest::READABLE, || {
            let bytes = stream.try_read_buf(into)?;
            if (1..spare).contains(&bytes) {
                emptied = Some(bytes);
                // This error makes the runtime clear the socket's readiness.
                return Err(ErrorKind::WouldBlock.into());
            }
            Ok(bytes)
        });
        emptied.map_or(result, Ok)
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
        // An error means that it was already closed.
        let _ = rustix::net::shutdown(&self.0.stream, rustix::net::Shutdown::Both);
    }

    pub fn peer_address(&self) -> &str {
        &self.0.peer_address
    }

    pub fn local_address(&self) -> &str {
        &self.0.local_address
    }

    pub fn is_local(&self) -> bool {
        self.0.is_local
    }
}
