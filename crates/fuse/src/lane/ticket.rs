//! The duty to answer a request, once.

use std::sync::Arc;

use tracing::error;

use super::Desk;
use crate::answer::Answer;
use crate::transport::ring::Hold;
use crate::{Errno, Unique};

/// Answers EIO when dropped unused: a handler that panicked, or a task that its executor gave up.
pub(crate) struct Ticket {
    desk: Arc<Desk>,
    unique: Unique,
    /// If the request came through a ring.
    hold: Option<Hold>,
    /// Bytes that the answer's body may have.
    room: usize,
    answered: bool,
}

impl Ticket {
    pub fn new(desk: Arc<Desk>, unique: Unique, hold: Option<Hold>, room: usize) -> Ticket {
        Ticket {
            desk,
            unique,
            hold,
            room,
            answered: false,
        }
    }

    pub fn answer(mut self, answer: Answer) {
        self.send(answer);
    }

    fn send(&mut self, mut answer: Answer) {
        self.answered = true;
        if answer.body() > self.room {
            let (bytes, room) = (answer.body(), self.room);
            error!(unique = %self.unique, bytes, room, "an answer is longer than was asked for; answering EIO");
            answer = Answer::error(Errno::EIO);
        }
        match self.hold.take() {
            Some(hold) => hold.answer(self.unique, answer),
            None => self.desk.send(self.unique, answer),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.answered {
            let panicking = std::thread::panicking();
            error!(unique = %self.unique, panicking, "a handler ended without an answer; answering EIO");
            self.send(Answer::error(Errno::EIO));
        }
    }
}
