//! A stream with or without TLS.

use super::stream::TlsStream;
use crate::send_deadline::{DeadlineStream, SendDeadline};
use bytes::BytesMut;
use gupfs_platform::Stream;
use std::io::{IoSlice, Result};

pub enum MaybeTlsStream {
    Plain(DeadlineStream),
    Tls(Box<TlsStream>),
}

impl From<Stream> for MaybeTlsStream {
    fn from(stream: Stream) -> MaybeTlsStream {
        MaybeTlsStream::Plain(DeadlineStream::new(stream))
    }
}

impl MaybeTlsStream {
    /// `connection` is new: its TLS handshake has not begun.
    pub fn tls(stream: Stream, connection: rustls::Connection) -> MaybeTlsStream {
        let stream = DeadlineStream::new(stream);
        MaybeTlsStream::Tls(Box::new(TlsStream::new(stream, connection)))
    }

    fn limited(&self) -> &DeadlineStream {
        match self {
            MaybeTlsStream::Plain(stream) => stream,
            MaybeTlsStream::Tls(tls) => tls.inner(),
        }
    }

    fn inner(&self) -> &Stream {
        self.limited().stream()
    }

    /// From now on nothing is written after this deadline, encrypted bytes that are unsent by then included.
    pub fn set_send_deadline(&self, deadline: &SendDeadline) {
        self.limited().set_deadline(deadline);
    }

    /// Reads what has arrived, or waits for it; 0 at the end of the stream. Cancel-safe.
    ///
    /// # Errors
    /// As of `Stream::read`, and a `TlsFault` if the peer does not use TLS or its TLS handshake fails.
    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        match self {
            MaybeTlsStream::Plain(stream) => stream.stream().read(into).await,
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

    /// Writes without waiting; returns how many bytes were accepted. With TLS accepted bytes may still be unsent: `try_flush` sends
    /// them.
    ///
    /// # Errors
    /// `WouldBlock` if no byte is accepted now; else the error of the stream or of its TLS session, or the deadline has passed.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            MaybeTlsStream::Plain(stream) => stream.try_write(parts),
            MaybeTlsStream::Tls(tls) => tls.try_write(parts),
        }
    }

    /// Sends accepted bytes that are unsent.
    ///
    /// # Errors
    /// `WouldBlock` if the socket does not accept all of them now; else the error of the stream, or the deadline has passed.
    pub fn try_flush(&self) -> Result<()> {
        match self {
            MaybeTlsStream::Plain(_) => Ok(()),
            MaybeTlsStream::Tls(tls) => tls.try_flush(),
        }
    }

    /// Returns when the socket accepts more bytes.
    ///
    /// # Errors
    /// As of `Stream::writable`.
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
