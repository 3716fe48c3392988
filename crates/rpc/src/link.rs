//! One connection as a sequence of frames: sent from any thread without waiting, read by one task.

use crate::code::{CODE, Codes};
use crate::frame::{Frame, FrameError, HEAD, Head, Limits, Packed};
use crate::limits::{FRAME, READ_AT_LEAST, READ_LITTLE, SILENCE};
use crate::tls::{Pipe, TlsFault};
use bytes::{Buf, Bytes, BytesMut};
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::wire::Kind;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

pub struct Link {
    stream: Pipe,
    clock: Clock,
    out: Mutex<Out>,
    /// Something waits that could not go at once.
    unsent: Notify,
    /// What waited has gone.
    drained: Notify,
    closed: AtomicBool,
    ended: Notify,
    /// Boot time at which something came last.
    heard: AtomicU64,
    /// What the handshake agreed; nothing as long as it is not over.
    agreed: OnceLock<Agreed>,
    /// A whole frame came.
    has_come: AtomicBool,
    /// Boot time at which the frame began that is being read; 0 between frames.
    begun: AtomicU64,
}

/// What a handshake agreed on for the frames that follow it.
pub struct Agreed {
    /// The version of each kind that both sides speak; kinds that only one knows are missing.
    pub versions: Vec<(u16, u8)>,
    /// None where frames have no code: without a key, with TLS, with a peer of LINK 1.
    pub codes: Option<Codes>,
}

/// Frames of kind LINK have this version in their heads, whatever is agreed: their form is the same in all.
pub const LINK_VERSION: u8 = 1;

#[derive(Default)]
struct Out {
    parts: VecDeque<Bytes>,
    bytes: usize,
    /// Frames with a code that were sent.
    frames: u64,
}

/// Why no more frames come.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the other side ended the connection")]
    Ended,
    #[error("the connection broke: {0}")]
    Broken(std::io::Error),
    #[error(transparent)]
    Tls(TlsFault),
    #[error("what came is not understood: {0}")]
    Frame(#[from] FrameError),
    #[error("what came is not understood: {0}")]
    Handshake(&'static str),
}

impl From<std::io::Error> for LinkError {
    fn from(error: std::io::Error) -> LinkError {
        match error.downcast::<TlsFault>() {
            Ok(fault) => LinkError::Tls(fault),
            Err(error) => LinkError::Broken(error),
        }
    }
}

impl Link {
    pub fn new(stream: impl Into<Pipe>, clock: Clock) -> Link {
        let heard = AtomicU64::new(clock.boot().0);
        Link {
            stream: stream.into(),
            clock,
            out: Mutex::default(),
            unsent: Notify::new(),
            drained: Notify::new(),
            closed: AtomicBool::new(false),
            ended: Notify::new(),
            heard,
            has_come: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            agreed: OnceLock::new(),
        }
    }

    /// The handshake is over: frames carry the agreed versions from here on.
    pub fn agree(&self, agreed: Agreed) {
        // A connection has one handshake.
        let _ = self.agreed.set(agreed);
    }

    fn codes(&self) -> Option<&Codes> {
        self.agreed.get().and_then(|agreed| agreed.codes.as_ref())
    }

    /// Whether a message of this version was agreed on.
    pub fn takes(&self, kind: Kind, version: u8) -> bool {
        let agreed = self.agreed.get().and_then(|agreed| {
            let found = agreed.versions.iter().find(|(known, _)| *known == kind.0);
            found.map(|(_, version)| *version)
        });
        agreed.is_some_and(|agreed| (kind.oldest()..=agreed).contains(&version))
    }

    pub fn stream(&self) -> &Pipe {
        &self.stream
    }

    /// Sends now what can go now; `flush` sends the rest. What is sent over a link that is closed goes nowhere.
    pub fn send(&self, packed: Packed) {
        if self.is_closed() {
            return;
        }
        let mut out = self.out.lock();
        let front = match self.codes() {
            None => packed.front(),
            Some(codes) => {
                // Under the lock: frames go in the order of their numbers.
                let number = out.frames;
                out.frames += 1;
                packed.front_sealed(number, &codes.send)
            }
        };
        self.send_parts(&mut out, [front.freeze(), packed.payload]);
    }

    fn send_parts(&self, out: &mut Out, parts: [Bytes; 2]) {
        let idle = out.parts.is_empty();
        for part in parts {
            if !part.is_empty() {
                out.bytes += part.len();
                out.parts.push_back(part);
            }
        }
        // In order: while something waits, everything queues behind it.
        if idle && !self.push(out) {
            self.unsent.notify_one();
        }
    }

    /// Head and body with the code of this place behind them; the head counts it already.
    #[cfg(test)]
    pub fn sealed(&self, number: u64, bytes: Vec<u8>) -> Vec<u8> {
        let mut front = BytesMut::from(&bytes[..]);
        let codes = self.codes().expect("a connection with codes");
        codes.send.seal(number, &mut front);
        front.to_vec()
    }

    #[cfg(test)]
    pub fn send_sealed(&self, bytes: Vec<u8>) {
        let number = {
            let mut out = self.out.lock();
            out.frames += 1;
            out.frames - 1
        };
        self.send_raw(self.sealed(number, bytes));
    }

    /// Whatever these bytes are.
    #[cfg(any(test, fuzzing))]
    pub fn send_raw(&self, bytes: Vec<u8>) {
        self.send_parts(&mut self.out.lock(), [bytes.into(), Bytes::new()]);
    }

    /// Writes as much as the socket takes; whether nothing waits any more.
    fn push(&self, out: &mut Out) -> bool {
        while !out.parts.is_empty() {
            let mut slices = [IoSlice::new(&[]); 16];
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(&out.parts) {
                *slice = IoSlice::new(part);
                count += 1;
            }
            match self.stream.try_write(&slices[..count]) {
                Ok(sent) => out.sent(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => {
                    // The reader meets the same end and tells it.
                    self.close();
                    out.parts.clear();
                    out.bytes = 0;
                }
            }
        }
        // What TLS has taken may wait still.
        !matches!(self.stream.try_flush(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Runs beside the reader as long as the link lives: sends what could not go at once.
    pub async fn flush(&self) {
        loop {
            self.unsent.notified().await;
            loop {
                if self.is_closed() || self.stream.writable().await.is_err() {
                    return;
                }
                let done = self.push(&mut self.out.lock());
                if done {
                    self.drained.notify_waiters();
                    break;
                }
            }
        }
    }

    /// Returns when no more than `bytes` wait to be sent, or the link is closed.
    pub async fn room(&self, bytes: usize) {
        loop {
            let mut drained = std::pin::pin!(self.drained.notified());
            drained.as_mut().enable();
            if self.is_closed() || self.out.lock().bytes <= bytes {
                return;
            }
            tokio::select! {
                biased;
                () = drained => {}
                () = self.ended() => {}
            }
        }
    }

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

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.out.lock().bytes
    }

    /// Returns when the link is closed.
    pub async fn ended(&self) {
        let mut ended = std::pin::pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.is_closed() {
            ended.await;
        }
    }

    /// When something came last.
    pub fn heard(&self) -> BootTime {
        BootTime(self.heard.load(Ordering::Relaxed))
    }

    /// Whether the other side has said anything: a frame, or with TLS what comes before.
    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed) || self.stream.has_begun()
    }

    /// Why the other side is given up, if it is: nothing came for too long, or a frame does not come to its end.
    pub fn overdue(&self) -> Option<&'static str> {
        let now = self.clock.boot();
        let begun = self.begun.load(Ordering::Relaxed);
        if now.since(self.heard()) >= SILENCE {
            return Some("nothing is heard any more");
        }
        if begun != 0 && now.since(BootTime(begun)) >= FRAME {
            return Some("a message did not come to its end in time");
        }
        None
    }

    pub fn reader(self: &Arc<Self>) -> Reader {
        Reader {
            link: self.clone(),
            buffer: BytesMut::new(),
            frames: 0,
        }
    }
}

impl Out {
    fn sent(&mut self, mut sent: usize) {
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

/// Reads a link's frames.
pub struct Reader {
    link: Arc<Link>,
    buffer: BytesMut,
    /// Frames with a code that were read.
    frames: u64,
}

impl Reader {
    /// The next frame. Dropped half way, nothing is lost: what came stays in the buffer.
    ///
    /// # Errors
    /// When there is none any more, or what came is not a frame.
    pub async fn next(&mut self, limits: Limits) -> Result<Frame, LinkError> {
        let head = self.head(limits).await?;
        self.rest(head).await
    }

    /// What the next frame announces. It stays to be taken: by `rest`, or by `skip`.
    ///
    /// # Errors
    /// As of `next`.
    pub async fn head(&mut self, limits: Limits) -> Result<Head, LinkError> {
        self.fill(HEAD).await?;
        let mut head = [0; HEAD];
        head.copy_from_slice(&self.buffer[..HEAD]);
        let limits = match self.link.codes() {
            Some(_) => limits.with_code(),
            None => limits,
        };
        Ok(Head::read(&head, limits)?)
    }

    /// The frame that `head` announced. Room is made for all of it at once, so that its bytes are not copied when more come:
    /// who may announce so much was asked before, and pages that nothing was written to cost nothing.
    ///
    /// # Errors
    /// As of `next`.
    pub async fn rest(&mut self, head: Head) -> Result<Frame, LinkError> {
        let (mut body, payload) = (head.body as usize, head.payload as usize);
        if self.buffer.len() < HEAD + body + payload {
            self.begins();
            self.fill(HEAD + body + payload).await?;
            self.ends();
        }
        if let Some(codes) = self.link.codes() {
            let coded = &mut self.buffer[..HEAD + body];
            if !codes.receive.verifies(self.frames, coded) {
                return Err(FrameError::Code.into());
            }
            self.frames += 1;
            body -= CODE;
        }
        self.buffer.advance(HEAD);
        let code = head.body as usize - body;
        let body = self.buffer.split_to(body).freeze();
        self.buffer.advance(code);
        head.check_body(&body)?;
        let payload = self.buffer.split_to(payload).freeze();
        if !self.link.has_come.load(Ordering::Relaxed) {
            self.link.has_come.store(true, Ordering::Relaxed);
        }
        Ok(Frame {
            head,
            body,
            payload,
        })
    }

    /// Reads past the frame that `head` announced and keeps nothing of it. Its code is not looked at, and its place counts: what was
    /// added on the way makes the next code wrong.
    ///
    /// # Errors
    /// As of `next`.
    pub async fn skip(&mut self, head: Head) -> Result<(), LinkError> {
        let mut left = HEAD + head.body as usize + head.payload as usize;
        if self.link.codes().is_some() {
            self.frames += 1;
        }
        self.begins();
        loop {
            let some = left.min(self.buffer.len());
            self.buffer.advance(some);
            left -= some;
            if left == 0 {
                self.ends();
                return Ok(());
            }
            self.fill(left.min(READ_AT_LEAST)).await?;
        }
    }

    fn begins(&self) {
        let now = self.link.clock.boot().0.max(1);
        self.link.begun.store(now, Ordering::Relaxed);
    }

    fn ends(&self) {
        self.link.begun.store(0, Ordering::Relaxed);
    }

    async fn fill(&mut self, bytes: usize) -> Result<(), LinkError> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            if self.buffer.capacity() - self.buffer.len() < missing.max(READ_LITTLE) {
                // A large frame is read into its own memory; small ones share some.
                self.buffer.reserve(missing.max(READ_AT_LEAST));
            }
            if self.link.stream.read(&mut self.buffer).await? == 0 {
                return Err(LinkError::Ended);
            }
            let now = self.link.clock.boot().0;
            self.link.heard.store(now, Ordering::Relaxed);
        }
        Ok(())
    }
}
