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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, Scratch};
    use crate::limits::ALIGN;
    use crate::reply::IntoReply;
    use crate::transport::ring::{COMMIT_ID, DetachedEntry, HEADERS};
    use crate::{OpenReply, ReplyData};
    use bytes::Bytes;

    const UNIQUE: Unique = Unique(0x1234);
    const CAPACITY: usize = 2 * ALIGN;

    fn replies() -> Vec<Reply> {
        let pieces: Vec<Bytes> = (0..2000u32)
            .map(|piece| Bytes::copy_from_slice(&piece.to_ne_bytes()))
            .collect();
        let pool = Arc::new(Pool::new(CAPACITY));
        let mut scratch = Scratch::new(3, pool);
        scratch.copy_from_slice(b"abc");
        let data: [ReplyData; 5] = [
            vec![1; 100].into(),
            Bytes::from_static(b"bytes").into(),
            (b"static" as &'static [u8]).into(),
            pieces.into(),
            scratch.into(),
        ];
        let mut replies = vec![
            Reply::empty(),
            Reply::error(Errno::ENOENT),
            OpenReply::default().into_reply(),
        ];
        replies.extend(data.map(IntoReply::into_reply));
        replies
    }

    fn on_device(mut reply: Reply) -> Vec<u8> {
        reply.with_slices(UNIQUE, |slices| {
            slices.iter().flat_map(|slice| slice.to_vec()).collect()
        })
    }

    /// An entry with a request, and a reference to it.
    fn request() -> (DetachedEntry, EntryRef) {
        let entry = DetachedEntry::new(CAPACITY).unwrap();
        let mut headers = [0; HEADERS];
        headers[COMMIT_ID..][..8].copy_from_slice(&UNIQUE.0.to_ne_bytes());
        let incoming = entry.arrive(&headers, b"payload", false);
        (entry, incoming.into_entry())
    }

    #[test]
    fn a_reply_has_the_same_bytes_on_a_device_and_in_an_entry_at_once_or_later() {
        for ((at_once, later), written) in replies().into_iter().zip(replies()).zip(replies()) {
            let expected = on_device(written);
            let (entry, last) = request();
            reply_through_entry(last, UNIQUE, at_once);
            assert_eq!(entry.take_reply(), Some(expected.clone()));

            let (entry, reference) = request();
            let payload = reference.take_payload().unwrap();
            reply_through_entry(reference, UNIQUE, later);
            assert_eq!(entry.take_reply(), None, "the payload is in use");
            drop(payload);
            assert_eq!(entry.take_reply(), Some(expected));
        }
    }

    #[test]
    fn data_in_place_stays_there_whether_the_reply_is_written_at_once_or_later() {
        for later in [false, true] {
            let (entry, reference) = request();
            let payload = reference.take_payload().unwrap();
            let mut scratch = Scratch::in_entry(payload, CAPACITY);
            scratch[..5].copy_from_slice(b"hello");
            scratch.truncate(5);
            let other = later.then(|| reference.clone());
            let reply = ReplyData::from(scratch).into_reply();
            reply_through_entry(reference, UNIQUE, reply);
            drop(other);
            let expected = on_device(ReplyData::from(b"hello".to_vec()).into_reply());
            assert_eq!(entry.take_reply(), Some(expected));
        }
    }

    #[test]
    fn a_reply_that_does_not_fit_into_its_entry_becomes_eio() {
        for later in [false, true] {
            let (entry, reference) = request();
            let other = later.then(|| reference.clone());
            let reply = vec![1; CAPACITY + 1].into_reply();
            reply_through_entry(reference, UNIQUE, reply);
            drop(other);
            let expected = on_device(Reply::error(Errno::EIO));
            assert_eq!(entry.take_reply(), Some(expected));
        }
    }
}
