//! TLS over a stream, with the same non-blocking writes. The first reads and writes drive the TLS handshake.

use super::TlsFault;
use crate::send_deadline::DeadlineStream;
use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use rustls::Connection;
use std::io::{BufRead, Error, ErrorKind, IoSlice, Result, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Largest number of encrypted bytes that are not sent yet: `try_write` accepts no more before some are sent.
const UNSENT_MAX: usize = 256 << 10;

/// Size of the read buffer: one call reads a few TLS records of 16 KiB.
const READ_BUFFER: usize = 64 << 10;

/// The magic number of a gupfs frame, which a peer without TLS sends first.
const FRAME_MAGIC: &[u8] = b"gpf1";

pub struct TlsStream {
    inner: DeadlineStream,
    state: Mutex<TlsState>,
    /// The empty read buffer, while no read uses it.
    read_buffer: Mutex<BytesMut>,
    is_plaintext: AtomicBool,
}

struct TlsState {
    connection: Connection,
    /// Received bytes that are not decrypted yet.
    ciphertext: BytesMut,
    /// The peer has sent something.
    has_received: bool,
}

/// The writer for rustls: writes as much as the socket accepts now.
struct NonBlockingWriter<'a>(&'a DeadlineStream);

impl Write for NonBlockingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.try_write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<usize> {
        self.0.try_write(parts)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl TlsStream {
    pub fn new(inner: DeadlineStream, mut connection: Connection) -> TlsStream {
        connection.set_buffer_limit(Some(UNSENT_MAX));
        TlsStream {
            inner,
            state: Mutex::new(TlsState {
                connection,
                ciphertext: BytesMut::new(),
                has_received: false,
            }),
            read_buffer: Mutex::default(),
            is_plaintext: AtomicBool::new(false),
        }
    }

    pub fn inner(&self) -> &DeadlineStream {
        &self.inner
    }

    pub fn has_received(&self) -> bool {
        self.state.lock().has_received
    }

    /// # Errors
    /// As of `MaybeTlsStream::read`.
    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        loop {
            let (decrypted, must_write) = {
                let mut state = self.state.lock();
                let decrypted = state.decrypt(into, &self.inner)?;
                (
                    decrypted,
                    state.connection.is_handshaking() && state.connection.wants_write(),
                )
            };
            if decrypted > 0 {
                return Ok(decrypted);
            }
            if must_write {
                // The peer sends nothing before it has received our part of the TLS handshake.
                self.inner.stream().writable().await?;
                self.state.lock().write_pending(&self.inner)?;
                continue;
            }
            let mut buffer = std::mem::take(&mut *self.read_buffer.lock());
            buffer.reserve(READ_BUFFER);
            // Cancel-safe: a cancelled read has read nothing.
            let count = self.inner.stream().read(&mut buffer).await?;
            let mut state = self.state.lock();
            if count == 0 {
                return Ok(0);
            }
            if !state.has_received && buffer.starts_with(FRAME_MAGIC) {
                return Err(io_error(TlsFault::NotTls));
            }
            state.has_received = true;
            state.ciphertext.unsplit(buffer.split());
            *self.read_buffer.lock() = buffer;
        }
    }

    /// # Errors
    /// As of `MaybeTlsStream::try_write`.
    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        if self.is_plaintext.load(SeqCst) {
            return self.inner.try_write(parts);
        }
        let mut state = self.state.lock();
        let mut taken = 0;
        for part in parts {
            let some = state.connection.writer().write(part)?;
            taken += some;
            if some < part.len() {
                break;
            }
        }
        match state.write_pending(&self.inner) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if taken == 0 => Err(Error::from(ErrorKind::WouldBlock)),
            _ => Ok(taken),
        }
    }

    /// # Errors
    /// As of `MaybeTlsStream::try_flush`.
    pub fn try_flush(&self) -> Result<()> {
        match self.is_plaintext.load(SeqCst) {
            true => Ok(()),
            false => self.state.lock().write_pending(&self.inner),
        }
    }

    pub fn channel_binding(&self) -> Option<[u8; 32]> {
        let state = self.state.lock();
        let label = b"EXPORTER-gupfs-handshake";
        let channel_binding = match &state.connection {
            Connection::Client(client) => client.export_keying_material([0; 32], label, None),
            Connection::Server(server) => server.export_keying_material([0; 32], label, None),
        };
        channel_binding.ok()
    }

    pub fn stop_encrypting(&self) {
        self.is_plaintext.store(true, SeqCst);
    }
}

impl TlsState {
    /// Decrypts complete records as far as `into` has space.
    fn decrypt(&mut self, into: &mut BytesMut, inner: &DeadlineStream) -> Result<usize> {
        let before = into.len();
        loop {
            let free = into.capacity() - into.len();
            match self.connection.reader().fill_buf() {
                Ok(plain) if !plain.is_empty() => {
                    let count = plain.len().min(free);
                    into.extend_from_slice(&plain[..count]);
                    self.connection.reader().consume(count);
                    if into.len() == into.capacity() {
                        break;
                    }
                    continue;
                }
                // The peer closed its TLS session, or no plaintext is available.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.ciphertext.is_empty() {
                break;
            }
            let mut ciphertext = &self.ciphertext[..];
            let count = self.connection.read_tls(&mut ciphertext)?;
            self.ciphertext.advance(count);
            let processed = self.connection.process_new_packets();
            match self.write_pending(inner) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            if let Err(error) = processed {
                return Err(io_error(error.into()));
            }
        }
        Ok(into.len() - before)
    }

    fn write_pending(&mut self, inner: &DeadlineStream) -> Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut NonBlockingWriter(inner))?;
        }
        Ok(())
    }
}

/// Wraps the fault in an I/O error; `FramedStreamError` unwraps it.
fn io_error(fault: TlsFault) -> Error {
    Error::new(ErrorKind::InvalidData, fault)
}
