//! A stream, with TLS or without.

use super::stream::TlsStream;
use bytes::BytesMut;
use gupfs_platform::Stream;
use std::io::{IoSlice, Result};

pub enum Pipe {
    Plain(Stream),
    Tls(Box<TlsStream>),
}

impl From<Stream> for Pipe {
    fn from(stream: Stream) -> Pipe {
        Pipe::Plain(stream)
    }
}

impl Pipe {
    /// `connection` has not said anything yet.
    pub fn tls(stream: Stream, connection: rustls::Connection) -> Pipe {
        Pipe::Tls(Box::new(TlsStream::new(stream, connection)))
    }

    fn wire(&self) -> &Stream {
        match self {
            Pipe::Plain(stream) => stream,
            Pipe::Tls(tls) => tls.wire(),
        }
    }

    /// As `Stream::read`.
    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        match self {
            Pipe::Plain(stream) => stream.read(into).await,
            Pipe::Tls(tls) => tls.read(into).await,
        }
    }

    /// The other side has begun its TLS handshake.
    pub fn has_begun(&self) -> bool {
        match self {
            Pipe::Plain(_) => false,
            Pipe::Tls(tls) => tls.has_begun(),
        }
    }

    /// As `Stream::try_write`. What was taken may wait still: `try_flush`.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            Pipe::Plain(stream) => stream.try_write(parts),
            Pipe::Tls(tls) => tls.try_write(parts),
        }
    }

    /// Sends what was taken and waits; `WouldBlock` if not all can go now.
    pub fn try_flush(&self) -> Result<()> {
        match self {
            Pipe::Plain(_) => Ok(()),
            Pipe::Tls(tls) => tls.try_flush(),
        }
    }

    pub async fn writable(&self) -> Result<()> {
        self.wire().writable().await
    }

    pub fn close(&self) {
        self.wire().close()
    }

    pub fn peer(&self) -> &str {
        self.wire().peer()
    }

    pub fn near(&self) -> &str {
        self.wire().near()
    }

    pub fn is_local(&self) -> bool {
        self.wire().is_local()
    }

    /// Bytes that both ends of this very connection know, and nobody between them. None without TLS, and before it has begun.
    pub fn bond(&self) -> Option<[u8; 32]> {
        match self {
            Pipe::Plain(_) => None,
            Pipe::Tls(tls) => tls.bond(),
        }
    }

    /// What is said from here on is not encrypted: a last word to who does not speak TLS.
    pub fn speak_plainly(&self) {
        if let Pipe::Tls(tls) = self {
            tls.speak_plainly();
        }
    }
}
