//! # responder: sends the reply to one request, exactly once
//!
//! Owns   the way of a reply to the kernel: through the device, or through the ring entry of its request.
//! Never  knows the operation that it replies to.
//! Enter  at `Responder::reply`; `ReplyWriter::write` and `reply_through_entry` send a reply without a responder.

use std::sync::Arc;

use tracing::{debug, error};

use crate::reply::Reply;
use crate::transport::Device;
use crate::transport::ring::EntryRef;
use crate::{Errno, Unique};

/// Replies EIO when dropped unused: after a handler that panicked, or a task that its executor dropped.
pub(crate) struct Responder {
    writer: Arc<ReplyWriter>,
    unique: Unique,
    /// The ring entry, if the request came through a ring.
    entry: Option<EntryRef>,
    /// Largest body of the reply in bytes.
    body_max: usize,
    replied: bool,
}

impl Responder {
    pub fn new(
        writer: Arc<ReplyWriter>,
        unique: Unique,
        entry: Option<EntryRef>,
        body_max: usize,
    ) -> Responder {
        Responder {
            writer,
            unique,
            entry,
            body_max,
            replied: false,
        }
    }

    pub fn reply(mut self, reply: Reply) {
        tracing::trace!(target: "walk", file = file!(), "reply");
        self.send(reply);
    }

    fn send(&mut self, mut reply: Reply) {
        self.replied = true;
        if reply.body_length() > self.body_max {
            let (bytes, body_max) = (reply.body_length(), self.body_max);
            error!(unique = %self.unique, bytes, body_max, "a reply is longer than the request allows; replying EIO");
            reply = Reply::error(Errno::EIO);
        }
        match self.entry.take() {
            Some(entry) => reply_through_entry(entry, self.unique, reply),
            None => self.writer.write(self.unique, reply),
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.replied {
            let panicking = std::thread::panicking();
            error!(unique = %self.unique, panicking, "a handler ended without a reply; replying EIO");
            self.send(Reply::error(Errno::EIO));
        }
    }
}

/// Writes replies to a device. Each worker has one of its own, so that its requests count references where no other worker
/// does, although workers may share the device.
pub(crate) struct ReplyWriter {
    device: Arc<Device>,
}

impl ReplyWriter {
    pub fn new(device: Arc<Device>) -> ReplyWriter {
        ReplyWriter { device }
    }

    /// Writes a reply. If the kernel does not accept it, there is no caller to report this to.
    pub fn write(&self, unique: Unique, mut reply: Reply) {
        match reply.with_slices(unique, |pieces| self.device.write(pieces)) {
            // The program was killed, or the mount has ended.
            Ok(()) | Err(Errno::ENOENT | Errno::ENODEV | Errno::ECONNABORTED) => {}
            Err(errno) => {
                error!(%unique, %errno, bytes = reply.body_length(), "the kernel rejected a reply; replying EIO");
                // Most likely the reply is longer than the request allows: the kernel then ends the request with EIO itself.
                // After other errors the kernel may still wait for a reply.
                let retried = Reply::error(Errno::EIO)
                    .with_slices(unique, |pieces| self.device.write(pieces));
                debug!(%unique, ?retried, "replied EIO instead");
            }
        }
    }
}

/// Sends a reply through the ring entry of its request: at once if `entry` is the last reference to it; otherwise when the last
/// one is dropped.
pub(crate) fn reply_through_entry(entry: EntryRef, unique: Unique, mut reply: Reply) {
    let in_place = reply
        .take_in_place(|payload| payload.is_of(&entry))
        .unwrap_or(0);
    match entry.is_last() {
        true => reply.with_slices(unique, |slices| entry.reply_now(unique, slices, in_place)),
        false => entry.reply_when_last(unique, reply.into_slices(unique), in_place),
    }
}
