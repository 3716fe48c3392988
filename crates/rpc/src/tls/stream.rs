//! TLS over a stream, without waiting where the stream does not wait. Its handshake goes on by itself with the first reads and
//! writes.

use super::TlsFault;
use bytes::{Buf, BytesMut};
use gupfs_platform::Stream;
use parking_lot::Mutex;
use rustls::Connection;
use std::io::{BufRead, Error, ErrorKind, IoSlice, Result, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Bytes that are encrypted and not sent yet, at most: what is more waits where it came from.
const AHEAD: usize = 256 << 10;

/// Room for what comes: a few records of 16 KiB with one call.
const COMES: usize = 64 << 10;

/// How every frame of ours begins, whoever sends it without TLS.
const FRAME: &[u8] = b"gpf1";

pub struct TlsStream {
    wire: Stream,
    state: Mutex<State>,
    /// Empty room for what comes, while nobody reads into it.
    room: Mutex<BytesMut>,
    plainly: AtomicBool,
}

struct State {
    connection: Connection,
    /// What came and is not decrypted yet.
    came: BytesMut,
    /// Something came before.
    begun: bool,
}

/// Where rustls writes to: as much as goes now.
struct Now<'a>(&'a Stream);

impl Write for Now<'_> {
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
    pub fn new(wire: Stream, mut connection: Connection) -> TlsStream {
        connection.set_buffer_limit(Some(AHEAD));
        TlsStream {
            wire,
            state: Mutex::new(State {
                connection,
                came: BytesMut::new(),
                begun: false,
            }),
            room: Mutex::default(),
            plainly: AtomicBool::new(false),
        }
    }

    pub fn wire(&self) -> &Stream {
        &self.wire
    }

    pub fn has_begun(&self) -> bool {
        self.state.lock().begun
    }

    pub async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        loop {
            let (had, waits) = {
                let mut state = self.state.lock();
                let had = state.decrypt(into, &self.wire)?;
                (
                    had,
                    state.connection.is_handshaking() && state.connection.wants_write(),
                )
            };
            if had > 0 {
                return Ok(had);
            }
            if waits {
                // Our part of the handshake must go before anything comes.
                self.wire.writable().await?;
                self.state.lock().push(&self.wire)?;
                continue;
            }
            let mut room = std::mem::take(&mut *self.room.lock());
            room.reserve(COMES);
            // Given up here, nothing was read.
            let count = self.wire.read(&mut room).await?;
            let mut state = self.state.lock();
            if count == 0 {
                return Ok(0);
            }
            if !state.begun && room.starts_with(FRAME) {
                return Err(fault(TlsFault::Plain));
            }
            state.begun = true;
            state.came.unsplit(room.split());
            *self.room.lock() = room;
        }
    }

    pub fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        if self.plainly.load(SeqCst) {
            return self.wire.try_write(parts);
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
        match state.push(&self.wire) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if taken == 0 => Err(Error::from(ErrorKind::WouldBlock)),
            _ => Ok(taken),
        }
    }

    pub fn try_flush(&self) -> Result<()> {
        match self.plainly.load(SeqCst) {
            true => Ok(()),
            false => self.state.lock().push(&self.wire),
        }
    }

    pub fn bond(&self) -> Option<[u8; 32]> {
        let state = self.state.lock();
        let label = b"EXPORTER-gupfs-handshake";
        let bond = match &state.connection {
            Connection::Client(client) => client.export_keying_material([0; 32], label, None),
            Connection::Server(server) => server.export_keying_material([0; 32], label, None),
        };
        bond.ok()
    }

    pub fn speak_plainly(&self) {
        self.plainly.store(true, SeqCst);
    }
}

impl State {
    /// As much of what came as is whole, and there is room for.
    fn decrypt(&mut self, into: &mut BytesMut, wire: &Stream) -> Result<usize> {
        let before = into.len();
        loop {
            let room = into.capacity() - into.len();
            match self.connection.reader().fill_buf() {
                Ok(plain) if !plain.is_empty() => {
                    let count = plain.len().min(room);
                    into.extend_from_slice(&plain[..count]);
                    self.connection.reader().consume(count);
                    if into.len() == into.capacity() {
                        break;
                    }
                    continue;
                }
                // Said goodbye, or nothing is there.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.came.is_empty() {
                break;
            }
            let mut came = &self.came[..];
            let count = self.connection.read_tls(&mut came)?;
            self.came.advance(count);
            let processed = self.connection.process_new_packets();
            match self.push(wire) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            if let Err(error) = processed {
                return Err(fault(error.into()));
            }
        }
        Ok(into.len() - before)
    }

    fn push(&mut self, wire: &Stream) -> Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Now(wire))?;
        }
        Ok(())
    }
}

/// As an error of the stream; `LinkError` finds it in there.
fn fault(fault: TlsFault) -> Error {
    Error::new(ErrorKind::InvalidData, fault)
}
