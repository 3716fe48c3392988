//! Sends the reply to one request, exactly once.

use std::sync::Arc;

use tracing::error;

use super::WorkerContext;
use crate::reply::Reply;
use crate::transport::ring::EntryRef;
use crate::{Errno, Unique};

/// Replies EIO when dropped unused: after a handler that panicked, or a task that its executor dropped.
pub(crate) struct Responder {
    context: Arc<WorkerContext>,
    unique: Unique,
    /// The ring entry, if the request came through a ring.
    entry: Option<EntryRef>,
    /// Largest body of the reply in bytes.
    body_max: usize,
    replied: bool,
}

impl Responder {
    pub fn new(
        context: Arc<WorkerContext>,
        unique: Unique,
        entry: Option<EntryRef>,
        body_max: usize,
    ) -> Responder {
        Responder {
            context,
            unique,
            entry,
            body_max,
            replied: false,
        }
    }

    pub fn reply(mut self, reply: Reply) {
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
            Some(entry) => entry.reply(self.unique, reply),
            None => self.context.send_reply(self.unique, reply),
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
