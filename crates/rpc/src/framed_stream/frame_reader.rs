//! Reading the frames of a stream.

use super::{FramedStream, FramedStreamError};
use crate::frame::{Frame, FrameError, FrameLimits, HEAD_LEN, Head};
use crate::frame_mac::FRAME_MAC_LEN;
use crate::limits::{READ_BUFFER_LOW, READ_BUFFER_MIN};
use bytes::{Buf, BytesMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads the frames of a stream.
pub struct FrameReader {
    framed: Arc<FramedStream>,
    buffer: BytesMut,
    /// The number of received frames with a MAC.
    frames: u64,
}

impl FrameReader {
    pub(super) fn new(framed: Arc<FramedStream>) -> FrameReader {
        FrameReader {
            framed,
            buffer: BytesMut::new(),
            frames: 0,
        }
    }

    /// The next frame. Cancel-safe: received bytes stay in the buffer.
    ///
    /// # Errors
    /// The stream has ended, or the received bytes are not a valid frame.
    pub async fn next(&mut self, limits: FrameLimits) -> Result<Frame, FramedStreamError> {
        let head = self.read_head(limits).await?;
        self.read_rest(head).await
    }

    /// The head of the next frame. It stays in the buffer until `read_rest` or `skip`.
    ///
    /// # Errors
    /// As of `next`.
    pub async fn read_head(&mut self, limits: FrameLimits) -> Result<Head, FramedStreamError> {
        self.fill(HEAD_LEN).await?;
        let mut head = [0; HEAD_LEN];
        head.copy_from_slice(&self.buffer[..HEAD_LEN]);
        let limits = match self.framed.mac_keys() {
            Some(_) => limits.with_mac(),
            None => limits,
        };
        Ok(Head::read(&head, limits)?)
    }

    /// The frame of this `head`. Extends the buffer for the whole frame at once, so that its bytes are not copied when more
    /// arrive: the caller has checked the length against the limits, and pages that were never written use no memory.
    ///
    /// # Errors
    /// As of `next`.
    pub async fn read_rest(&mut self, head: Head) -> Result<Frame, FramedStreamError> {
        let (mut body, payload) = (head.body as usize, head.payload as usize);
        if self.buffer.len() < HEAD_LEN + body + payload {
            self.start_frame_timer();
            self.fill(HEAD_LEN + body + payload).await?;
            self.stop_frame_timer();
        }
        if let Some(mac_keys) = self.framed.mac_keys() {
            let (front, rest) = self.buffer.split_at(HEAD_LEN + body);
            let covered = head.covered_payload(&rest[..payload]);
            if !mac_keys.receive.verifies(self.frames, front, covered) {
                return Err(FrameError::Mac.into());
            }
            self.frames += 1;
            body -= FRAME_MAC_LEN;
        }
        self.buffer.advance(HEAD_LEN);
        let code = head.body as usize - body;
        let body = self.buffer.split_to(body).freeze();
        self.buffer.advance(code);
        head.check_body(&body)?;
        let payload = self.buffer.split_to(payload).freeze();
        if payload.len() > READ_BUFFER_MIN && self.buffer.is_empty() {
            self.buffer = BytesMut::with_capacity(READ_BUFFER_LOW);
        }
        if !self.framed.has_received.load(Ordering::Relaxed) {
            self.framed.has_received.store(true, Ordering::Relaxed);
        }
        Ok(Frame {
            head,
            body,
            payload,
        })
    }

    /// Discards the frame of this `head`. Does not verify its MAC but counts its number: if an attacker inserted this frame, the
    /// MAC of the next frame is wrong.
    ///
    /// # Errors
    /// As of `next`.
    pub async fn skip(&mut self, head: Head) -> Result<(), FramedStreamError> {
        let mut left = HEAD_LEN + head.body as usize + head.payload as usize;
        if self.framed.mac_keys().is_some() {
            self.frames += 1;
        }
        self.start_frame_timer();
        loop {
            let some = left.min(self.buffer.len());
            self.buffer.advance(some);
            left -= some;
            if left == 0 {
                self.stop_frame_timer();
                return Ok(());
            }
            self.fill(left.min(READ_BUFFER_MIN)).await?;
        }
    }

    fn start_frame_timer(&self) {
        let now = self.framed.clock.boot().0.max(1);
        self.framed.frame_started.store(now, Ordering::Relaxed);
    }

    fn stop_frame_timer(&self) {
        self.framed.frame_started.store(0, Ordering::Relaxed);
    }

    async fn fill(&mut self, bytes: usize) -> Result<(), FramedStreamError> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            if self.buffer.capacity() - self.buffer.len() < missing.max(READ_BUFFER_LOW) {
                // A large frame gets its own buffer; small frames share one. After a large frame the buffer is small
                // (`read_rest`): the next one is probably large too, and what is received before its length is known is copied.
                self.buffer.reserve(missing.max(READ_BUFFER_MIN));
            }
            if self.framed.stream.read(&mut self.buffer).await? == 0 {
                return Err(FramedStreamError::Ended);
            }
            let now = self.framed.clock.boot().0;
            self.framed.last_received.store(now, Ordering::Relaxed);
        }
        Ok(())
    }
}
