//! Requests without a reply, of a client connection or of a connected peer (callbacks).

use crate::frame::PackedFrame;
use bytes::Bytes;
use gupfs_platform::BootTime;
use gupfs_proto::FsError;
use gupfs_proto::wire::ReplyMessage;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The requests of one connection that have no reply, by their ids.
#[derive(Default)]
pub(crate) struct PendingRequests(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    requests: BTreeMap<u64, PendingRequest>,
}

struct PendingRequest {
    /// Kept until the reply arrives: the client resends it over a new connection.
    packed: PackedFrame,
    deadline: Option<BootTime>,
    /// If it is cancelled it must not take effect later.
    fenced: bool,
    /// It is sent over one connection only, and fails when that has ended.
    is_sent_once: bool,
    /// The number of the connection over which it was last sent; 0 for none.
    sent_on_connection: u64,
    /// The server replied "busy": the time of the next attempt.
    not_before: Option<BootTime>,
    waker: Option<Waker>,
    outcome: Option<RequestOutcome>,
}

/// What the client does with a request whose connection ends, or that it gives up.
#[derive(Clone, Copy)]
pub(crate) struct RequestHandling {
    pub fenced: bool,
    pub is_sent_once: bool,
}

/// How a request ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RequestOutcome {
    Replied { body: Bytes, payload: Bytes },
    Failed(FsError),
}

impl RequestOutcome {
    /// The reply of a request: decoded, or made from the error.
    pub fn into_reply<A: ReplyMessage>(self) -> A {
        match self {
            RequestOutcome::Failed(error) => A::from_error(error),
            RequestOutcome::Replied { body, payload } => match A::decode(&body, payload) {
                Ok(reply) => reply,
                Err(error) => A::from_error(FsError::Malformed(error.to_string())),
            },
        }
    }
}

impl PendingRequests {
    /// A new id, higher than all before.
    pub fn next_id(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.last += 1;
        inner.last
    }

    pub fn insert(
        &self,
        id: u64,
        packed: PackedFrame,
        deadline: Option<BootTime>,
        handling: RequestHandling,
    ) {
        let request = PendingRequest {
            packed,
            deadline,
            fenced: handling.fenced,
            is_sent_once: handling.is_sent_once,
            sent_on_connection: 0,
            not_before: None,
            waker: None,
            outcome: None,
        };
        self.0.lock().requests.insert(id, request);
    }

    pub fn len(&self) -> usize {
        self.0.lock().requests.len()
    }

    /// The frame, if it was not sent over this connection yet; marks it as sent.
    pub fn take_unsent(&self, id: u64, connection: u64) -> Option<PackedFrame> {
        self.0.lock().requests.get_mut(&id)?.take_unsent(connection)
    }

    /// All frames that were not sent over this connection yet, in the order of their requests; marks them as sent. Fails those that were sent
    /// over a former one, and must not be sent again.
    pub fn take_all_unsent(&self, connection: u64) -> Vec<PackedFrame> {
        let mut inner = self.0.lock();
        let failed = |request: &mut PendingRequest| request.fail_if_sent_once(connection);
        let wakers: Vec<Waker> = inner.requests.values_mut().filter_map(failed).collect();
        let all = inner.requests.values_mut();
        let unsent = all.filter_map(|request| request.take_unsent(connection));
        let unsent = unsent.collect();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        unsent
    }

    /// Ends a request and wakes its waiter. Drops the outcome of a request that was cancelled.
    pub fn complete(&self, id: u64, outcome: RequestOutcome) {
        let waker = {
            let mut inner = self.0.lock();
            let Some(request) = inner.requests.get_mut(&id) else {
                return;
            };
            request.outcome.get_or_insert(outcome);
            request.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends all requests with this error.
    pub fn fail_all(&self, error: &FsError) {
        let open: Vec<u64> = self.0.lock().requests.keys().copied().collect();
        for id in open {
            self.complete(id, RequestOutcome::Failed(error.clone()));
        }
    }

    /// The server replied "busy": the request is resent after this pause.
    pub fn postpone(&self, id: u64, now: BootTime, by: Duration) {
        if let Some(request) = self.0.lock().requests.get_mut(&id) {
            request.not_before = Some(now + by);
        }
    }

    /// The frames of the requests whose pause is over.
    pub fn take_due(&self, now: BootTime) -> Vec<PackedFrame> {
        let mut inner = self.0.lock();
        let paused = inner
            .requests
            .values_mut()
            .filter(|request| request.not_before.is_some_and(|when| when <= now));
        paused
            .map(|request| {
                request.not_before = None;
                request.packed.clone()
            })
            .collect()
    }

    /// The requests whose deadline has passed, and whether the connection must be closed because one of them was sent and must
    /// not take effect later.
    pub fn expired(&self, now: BootTime) -> (Vec<u64>, bool) {
        let inner = self.0.lock();
        let late = inner.requests.iter().filter(|(_, request)| {
            request.outcome.is_none() && request.deadline.is_some_and(|when| when <= now)
        });
        let mut ids = Vec::new();
        let mut must_close = false;
        for (id, request) in late {
            ids.push(*id);
            must_close |= request.must_be_fenced();
        }
        (ids, must_close)
    }

    /// The outcome of a request, which this removes.
    pub fn poll(&self, id: u64, cx: &mut Context<'_>) -> Poll<RequestOutcome> {
        let mut inner = self.0.lock();
        let Some(request) = inner.requests.get_mut(&id) else {
            return Poll::Pending; // already taken: no executor polls a finished future
        };
        match request.outcome.take() {
            Some(outcome) => {
                inner.requests.remove(&id);
                Poll::Ready(outcome)
            }
            None => {
                request.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Cancels a request; whether the connection must be closed because it was sent and must not take effect later.
    pub fn cancel(&self, id: u64) -> bool {
        let gone = self.0.lock().requests.remove(&id);
        gone.is_some_and(|request| request.outcome.is_none() && request.must_be_fenced())
    }
}

impl PendingRequest {
    fn must_be_fenced(&self) -> bool {
        self.fenced && self.sent_on_connection > 0
    }

    /// Fails a request that must not be sent again; returns its waiter.
    fn fail_if_sent_once(&mut self, connection: u64) -> Option<Waker> {
        let was_sent = self.sent_on_connection > 0 && self.sent_on_connection != connection;
        if !self.is_sent_once || !was_sent || self.outcome.is_some() {
            return None;
        }
        let why = "a reply: the connection ended".to_owned();
        self.outcome = Some(RequestOutcome::Failed(FsError::TimedOut(why)));
        self.waker.take()
    }

    fn take_unsent(&mut self, connection: u64) -> Option<PackedFrame> {
        if self.sent_on_connection == connection || self.outcome.is_some() {
            return None;
        }
        self.sent_on_connection = connection;
        self.not_before = None;
        Some(self.packed.clone())
    }
}
