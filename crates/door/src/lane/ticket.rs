//! The duty to answer a request, once.

use std::sync::Arc;

use tracing::error;

use super::Desk;
use crate::answer::{Answer, IntoAnswer};
use crate::{Errno, Unique};

/// Answers EIO when dropped unused: a handler that panicked, or a task that its executor gave up.
pub(super) struct Ticket {
    desk: Arc<Desk>,
    unique: Unique,
    answered: bool,
}

impl Ticket {
    pub fn new(desk: Arc<Desk>, unique: Unique) -> Ticket {
        Ticket {
            desk,
            unique,
            answered: false,
        }
    }

    pub fn answer(mut self, answer: impl IntoAnswer) {
        self.answered = true;
        self.desk.send(self.unique, answer.into_answer());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.answered {
            let panicking = std::thread::panicking();
            error!(unique = %self.unique, panicking, "a handler ended without an answer; answering EIO");
            self.desk.send(self.unique, Answer::error(Errno::EIO));
        }
    }
}
