//! Questions that are not answered yet.

use crate::frame::Packed;
use bytes::Bytes;
use gupfs_platform::BootTime;
use gupfs_proto::Refusal;
use gupfs_proto::wire::Reply;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Table(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    questions: BTreeMap<u64, Question>,
}

struct Question {
    /// Kept until the answer is there: a new connection gets it again.
    packed: Packed,
    deadline: Option<BootTime>,
    /// Given up, it must not take effect later.
    fenced: bool,
    /// The number of the connection it was last sent over; 0 for none.
    sent_over: u64,
    /// The server was busy: not before this.
    not_before: Option<BootTime>,
    waker: Option<Waker>,
    outcome: Option<Outcome>,
}

/// How a question ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Answered { body: Bytes, payload: Bytes },
    Failed(Refusal),
}

impl Outcome {
    pub fn read<A: Reply>(self) -> A {
        match self {
            Outcome::Failed(refusal) => A::refused(refusal),
            Outcome::Answered { body, payload } => match A::read(&body, payload) {
                Ok(answer) => answer,
                Err(error) => A::refused(Refusal::Malformed(error.to_string())),
            },
        }
    }
}

impl Table {
    pub fn number(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.last += 1;
        inner.last
    }

    pub fn insert(&self, number: u64, packed: Packed, deadline: Option<BootTime>, fenced: bool) {
        let question = Question {
            packed,
            deadline,
            fenced,
            sent_over: 0,
            not_before: None,
            waker: None,
            outcome: None,
        };
        self.0.lock().questions.insert(number, question);
    }

    pub fn len(&self) -> usize {
        self.0.lock().questions.len()
    }

    /// The frame, if it has not gone over this connection yet; it counts as sent from here on.
    pub fn unsent(&self, number: u64, connection: u64) -> Option<Packed> {
        self.0.lock().questions.get_mut(&number)?.unsent(connection)
    }

    /// All of these, in the order in which they were asked.
    pub fn all_unsent(&self, connection: u64) -> Vec<Packed> {
        let mut inner = self.0.lock();
        let all = inner.questions.values_mut();
        all.filter_map(|question| question.unsent(connection))
            .collect()
    }

    /// An answer to a question that nobody waits for any more is dropped.
    pub fn complete(&self, number: u64, outcome: Outcome) {
        let waker = {
            let mut inner = self.0.lock();
            let Some(question) = inner.questions.get_mut(&number) else {
                return;
            };
            question.outcome.get_or_insert(outcome);
            question.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn fail_all(&self, refusal: &Refusal) {
        let open: Vec<u64> = self.0.lock().questions.keys().copied().collect();
        for number in open {
            self.complete(number, Outcome::Failed(refusal.clone()));
        }
    }

    /// The server was busy: it is asked again in a while.
    pub fn postpone(&self, number: u64, now: BootTime, by: Duration) {
        if let Some(question) = self.0.lock().questions.get_mut(&number) {
            question.not_before = Some(now + by);
        }
    }

    /// Those whose pause is over go again over this connection.
    pub fn due(&self, now: BootTime) -> Vec<Packed> {
        let mut inner = self.0.lock();
        let paused = inner
            .questions
            .values_mut()
            .filter(|question| question.not_before.is_some_and(|when| when <= now));
        paused
            .map(|question| {
                question.not_before = None;
                question.packed.clone()
            })
            .collect()
    }

    /// Those whose time is over, and whether one of them may still take effect, and must not later than now.
    pub fn overdue(&self, now: BootTime) -> (Vec<u64>, bool) {
        let inner = self.0.lock();
        let late = inner.questions.iter().filter(|(_, question)| {
            question.outcome.is_none() && question.deadline.is_some_and(|when| when <= now)
        });
        let mut numbers = Vec::new();
        let mut heard = false;
        for (number, question) in late {
            numbers.push(*number);
            heard |= question.must_be_fenced();
        }
        (numbers, heard)
    }

    pub fn poll(&self, number: u64, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut inner = self.0.lock();
        let Some(question) = inner.questions.get_mut(&number) else {
            return Poll::Pending; // taken already: nobody polls a finished future
        };
        match question.outcome.take() {
            Some(outcome) => {
                inner.questions.remove(&number);
                Poll::Ready(outcome)
            }
            None => {
                question.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Nobody waits any more; whether it may still take effect, and must not later than now.
    pub fn forget(&self, number: u64) -> bool {
        let gone = self.0.lock().questions.remove(&number);
        gone.is_some_and(|question| question.outcome.is_none() && question.must_be_fenced())
    }
}

impl Question {
    fn must_be_fenced(&self) -> bool {
        self.fenced && self.sent_over > 0
    }

    fn unsent(&mut self, connection: u64) -> Option<Packed> {
        if self.sent_over == connection || self.outcome.is_some() {
            return None;
        }
        self.sent_over = connection;
        self.not_before = None;
        Some(self.packed.clone())
    }
}
