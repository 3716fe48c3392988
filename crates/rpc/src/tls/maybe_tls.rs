//! A stream with or without TLS.

use super::stream::TlsStream;
use bytes::BytesMut;
use gupfs_platform::Stream;
use std::io::{IoSlice, Result};

pub enum MaybeTlsStream {
    Plain(Stream),
    Tls(Box<TlsStream>),
}

impl From<Stream> for MaybeTlsStream {
    fn from(stream: Stream) -> MaybeTlsStream {
        MaybeTlsStream::Plain(stream)
    }
}

impl MaybeTlsStream {
    /// `connection` is new: its TLS handshake has not begun.
    pub fn tls(stream: Stream, connection: rustls::Connection) -> MaybeTlsStream {
        MaybeTlsStream::Tls(Box::new(TlsStream::new(stream, connection)))
    }

    fn inner(&self) -> &Stream {
        match self {
            MaybeTlsStream::Plain(stream) => stream,
            MaybeTlsStream::Tls(tls) => tls.inner(),
        }
    }

    /// As `Stream::read`.
    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        match self {
            MaybeTlsStream::Plain(stream) => stream.read(into).await,
            MaybeTlsStream::Tls(tls) => tls.read(into).await,
        }
    }

    /// Whether the other side has begun its TLS handshake.
    pub fn has_received(&self) -> bool {
        match self {
            MaybeTlsStream::Plain(_) => false,
            MaybeTlsStream::Tls(tls) => tls.has_received(),
        }
    }

    /// As `Stream::try_write`. Accepted bytes may still be unsent: `try_flush` sends them.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            MaybeTlsStream::Plain(stream) => stream.try_write(parts),
            MaybeTlsStream::Tls(tls) => tls.try_write(parts),
        }
    }

    /// Sends accepted bytes that are unsent; `WouldBlock` if the socket does not accept all of them now.
    pub fn try_flush(&self) -> Result<()> {
        match self {
            MaybeTlsStream::Plain(_) => Ok(()),
            MaybeTlsStream::Tls(tls) => tls.try_flush(),
        }
    }

    pub async fn writable(&self) -> Result<()> {
        self.inner().writable().await
    }

    pub fn close(&self) {
        self.inner().close()
    }

    pub fn peer_address(&self) -> &str {
        self.inner().peer_address()
    }

    pub fn local_address(&self) -> &str {
        self.inner().local_address()
    }

    pub fn is_local(&self) -> bool {
        self.inner().is_local()
    }

    /// The channel binding (RFC 9266): 32 bytes that only the two ends of this TLS connection know. None without TLS, and before
    /// the TLS handshake is over.
    pub fn channel_binding(&self) -> Option<[u8; 32]> {
        match self {
            MaybeTlsStream::Plain(_) => None,
            MaybeTlsStream::Tls(tls) => tls.channel_binding(),
        }
    }

    /// Sends all further bytes unencrypted: for the rejection of a peer that does not use TLS.
    pub fn stop_encrypting(&self) {
        if let MaybeTlsStream::Tls(tls) = self {
            tls.stop_encrypting();
        }
    }
}
