//! One connection as a sequence of frames: any thread sends without waiting, one task reads.

mod frame_reader;

pub use frame_reader::FrameReader;

use crate::frame::{Flags, FrameError, PackedFrame, pack};
use crate::frame_mac::FrameMacKeys;
use crate::limits::{FRAME_TIMEOUT, SILENCE_TIMEOUT};
use crate::send_deadline::SendDeadline;
use crate::tls::{MaybeTlsStream, TlsFault};
use bytes::{Buf, Bytes};
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::wire::{EncodedMessage, MessageKind};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// A connection whose bytes are frames.
pub struct FramedStream {
    stream: MaybeTlsStream,
    clock: Clock,
    send_queue: Mutex<SendQueue>,
    /// Notified when queued bytes could not be sent at once.
    unsent: Notify,
    /// Notified when all queued bytes were sent.
    drained: Notify,
    closed: AtomicBool,
    ended: Notify,
    /// Boot time of the last received byte.
    last_received: AtomicU64,
    /// The result of the handshake; empty until the handshake is over.
    negotiated: OnceLock<NegotiatedProtocol>,
    /// A complete frame was received.
    has_received: AtomicBool,
    /// Boot time at which the reader began the current frame; 0 between frames.
    frame_started: AtomicU64,
}

/// The result of a handshake for the frames that follow it.
pub struct NegotiatedProtocol {
    /// The negotiated version of each message kind; kinds that only one side knows are missing.
    pub versions: Vec<(u16, u8)>,
    /// None where frames have no MAC: without a key, with TLS, with a peer of LINK version 1.
    pub mac_keys: Option<FrameMacKeys>,
}

/// The version in the heads of LINK frames, whatever the handshake negotiates: their format is the same in all versions.
pub const LINK_VERSION: u8 = 1;

#[derive(Default)]
struct SendQueue {
    parts: VecDeque<Bytes>,
    bytes: usize,
    /// The number of sent frames with a MAC.
    frames: u64,
}

/// Why the stream delivers no more frames.
#[derive(Debug, thiserror::Error)]
pub enum FramedStreamError {
    #[error("the other side closed the connection")]
    Ended,
    #[error("connection error: {0}")]
    Broken(std::io::Error),
    #[error(transparent)]
    Tls(TlsFault),
    #[error("received an invalid frame: {0}")]
    Frame(#[from] FrameError),
    #[error("received an invalid handshake message: {0}")]
    Handshake(&'static str),
}

impl From<std::io::Error> for FramedStreamError {
    fn from(error: std::io::Error) -> FramedStreamError {
        match error.downcast::<TlsFault>() {
            Ok(fault) => FramedStreamError::Tls(fault),
            Err(error) => FramedStreamError::Broken(error),
        }
    }
}

impl FramedStream {
    pub fn new(stream: impl Into<MaybeTlsStream>, clock: Clock) -> FramedStream {
        let last_received = AtomicU64::new(clock.boot().0);
        FramedStream {
            stream: stream.into(),
            clock,
            send_queue: Mutex::default(),
            unsent: Notify::new(),
            drained: Notify::new(),
            closed: AtomicBool::new(false),
            ended: Notify::new(),
            last_received,
            has_received: AtomicBool::new(false),
            frame_started: AtomicU64::new(0),
            negotiated: OnceLock::new(),
        }
    }

    /// Called at the end of the handshake: from here on frames have the negotiated versions.
    pub fn set_negotiated(&self, negotiated: NegotiatedProtocol) {
        // A connection has one handshake.
        let _ = self.negotiated.set(negotiated);
    }

    fn mac_keys(&self) -> Option<&FrameMacKeys> {
        self.negotiated
            .get()
            .and_then(|negotiated| negotiated.mac_keys.as_ref())
    }

    /// Whether the handshake negotiated messages of this version.
    pub fn accepts(&self, kind: MessageKind, version: u8) -> bool {
        let negotiated = self.negotiated_version(kind);
        negotiated.is_some_and(|negotiated| (kind.oldest()..=negotiated).contains(&version))
    }

    /// The newest version of the kind that the peer understands; zero if the handshake negotiated none.
    pub fn newest_version(&self, kind: MessageKind) -> u8 {
        self.negotiated_version(kind).unwrap_or(0)
    }

    fn negotiated_version(&self, kind: MessageKind) -> Option<u8> {
        let negotiated = self.negotiated.get()?;
        let mut versions = negotiated.versions.iter();
        let found = versions.find(|(known, _)| *known == kind.0);
        found.map(|(_, version)| *version)
    }

    pub fn stream(&self) -> &MaybeTlsStream {
        &self.stream
    }

    /// From now on this side sends only until the deadline. A write after it closes the stream and drops what is queued.
    pub fn set_send_deadline(&self, deadline: &SendDeadline) {
        self.stream.set_send_deadline(deadline);
    }

    /// Writes what the socket accepts now; `flush` sends the rest. Drops the frame if the stream is closed.
    pub fn send(&self, packed: PackedFrame) {
        if self.is_closed() {
            return;
        }
        let mut send_queue = self.send_queue.lock();
        let front = match self.mac_keys() {
            None => packed.head_and_body(),
            Some(mac_keys) => {
                // Numbered under the lock, so that frames are sent in the order of their numbers.
                let number = send_queue.frames;
                send_queue.frames += 1;
                packed.head_and_body_with_mac(number, mac_keys)
            }
        };
        self.send_parts(&mut send_queue, [front.freeze(), packed.payload]);
    }

    /// Sends a ping: an empty frame that shows that this process is alive.
    pub fn send_ping(&self) {
        self.send_ping_with(Vec::new());
    }

    /// Sends a ping with a body, which receivers of former versions ignore.
    pub fn send_ping_with(&self, body: Vec<u8>) {
        let message = EncodedMessage {
            min_version: LINK_VERSION,
            body,
            ..EncodedMessage::default()
        };
        if let Ok(packed) = pack(MessageKind::LINK, Flags::empty(), 0, message) {
            self.send(packed);
        }
    }

    fn send_parts(&self, send_queue: &mut SendQueue, parts: [Bytes; 2]) {
        let idle = send_queue.parts.is_empty();
        for part in parts {
            if !part.is_empty() {
                send_queue.bytes += part.len();
                send_queue.parts.push_back(part);
            }
        }
        // Order: while earlier bytes are queued, later ones queue behind them.
        if idle && !self.write_queued(send_queue) {
            self.unsent.notify_one();
        }
    }

    /// Appends the MAC of frame `number` to a head and body that no payload follows; the head's length counts it already.
    #[cfg(test)]
    pub fn with_mac(&self, number: u64, bytes: Vec<u8>) -> Vec<u8> {
        let mut front = bytes::BytesMut::from(&bytes[..]);
        let mac_keys = self.mac_keys().expect("a connection with MAC keys");
        mac_keys.send.append_mac(number, &mut front, &[]);
        front.to_vec()
    }

    #[cfg(test)]
    pub fn send_with_mac(&self, bytes: Vec<u8>) {
        let number = {
            let mut send_queue = self.send_queue.lock();
            send_queue.frames += 1;
            send_queue.frames - 1
        };
        self.send_raw(self.with_mac(number, bytes));
    }

    /// Sends these bytes as they are.
    #[cfg(any(test, fuzzing))]
    pub fn send_raw(&self, bytes: Vec<u8>) {
        self.send_parts(&mut self.send_queue.lock(), [bytes.into(), Bytes::new()]);
    }

    /// Writes as much as the socket accepts; whether the queue is empty now.
    fn write_queued(&self, send_queue: &mut SendQueue) -> bool {
        while !send_queue.parts.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(&send_queue.parts) {
                *slice = IoSlice::new(part);
                count += 1;
            }
            match self.stream.try_write(&slices[..count]) {
                Ok(sent) => send_queue.advance(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => {
                    // The reader gets the same error and reports it; or the deadline for sending has passed.
                    self.close();
                    send_queue.parts.clear();
                    send_queue.bytes = 0;
                }
            }
        }
        // Bytes that TLS has accepted may still be unsent.
        match self.stream.try_flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                self.close();
                true
            }
            Ok(()) => true,
        }
    }

    /// Sends the queued bytes. Runs beside the reader until the stream is closed.
    pub async fn flush(&self) {
        loop {
            self.unsent.notified().await;
            loop {
                if self.is_closed() || self.stream.writable().await.is_err() {
                    return;
                }
                let done = self.write_queued(&mut self.send_queue.lock());
                if done {
                    self.drained.notify_waiters();
                    break;
                }
            }
        }
    }

    /// Returns when at most `bytes` are queued, or the stream is closed.
    pub async fn wait_for_send_space(&self, bytes: usize) {
        loop {
            let mut drained = std::pin::pin!(self.drained.notified());
            drained.as_mut().enable();
            if self.is_closed() || self.send_queue.lock().bytes <= bytes {
                return;
            }
            tokio::select! {
                biased;
                () = drained => {}
                () = self.wait_closed() => {}
            }
        }
    }

    /// Closes the connection. Queued bytes are dropped, and the reader ends.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.stream.close();
        self.ended.notify_waiters();
        self.unsent.notify_one();
        self.drained.notify_waiters();
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The number of queued bytes.
    pub fn queued_bytes(&self) -> usize {
        self.send_queue.lock().bytes
    }

    /// Returns when the stream is closed.
    pub async fn wait_closed(&self) {
        let mut ended = std::pin::pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.is_closed() {
            ended.await;
        }
    }

    /// The boot time of the last received byte.
    pub fn last_received(&self) -> BootTime {
        BootTime(self.last_received.load(Ordering::Relaxed))
    }

    /// Whether the other side has sent anything: a complete frame, or with TLS any byte.
    pub fn has_received(&self) -> bool {
        self.has_received.load(Ordering::Relaxed) || self.stream.has_received()
    }

    /// Why the connection has timed out, if it has: no byte arrived for too long, or a frame stays incomplete.
    pub fn timeout_reason(&self) -> Option<&'static str> {
        let now = self.clock.boot();
        let started = self.frame_started.load(Ordering::Relaxed);
        if now.since(self.last_received()) >= SILENCE_TIMEOUT {
            return Some("no data received for too long");
        }
        if started != 0 && now.since(BootTime(started)) >= FRAME_TIMEOUT {
            return Some("a frame stayed incomplete for too long");
        }
        None
    }

    /// The only reader of this stream.
    pub fn reader(self: &Arc<Self>) -> FrameReader {
        FrameReader::new(self.clone())
    }
}

impl SendQueue {
    fn advance(&mut self, mut sent: usize) {
        self.bytes -= sent;
        while let Some(front) = self.parts.front_mut() {
            if sent < front.len() {
                front.advance(sent);
                return;
            }
            sent -= front.len();
            self.parts.pop_front();
        }
    }
}
