//! # call: a line to one server
//!
//! Owns   connecting and connecting again, which questions are not answered yet, sending them again with the same numbers.
//! Never  gives up a question by itself unless it was told how long to wait.
//! Enter  at `Line::open`, then `Line::peer`.

mod awaiting;
mod connect;
mod keep;
mod table;

pub use connect::ConnectError;

pub(crate) use connect::ping;
pub(crate) use table::{Outcome, Table};

use crate::client_key::Key;
use crate::frame::{Flags, pack};
use crate::handshake::{Met, Myself};
use crate::host::Hosts;
use crate::link::Link;
use crate::peer::{Answering, Peer, Way};
use crate::tls::Tls;
use awaiting::Awaiting;
use gupfs_platform::{BootTime, Net, Platform, Task};
use gupfs_proto::wire::{Message, Reply};
use gupfs_proto::{ClusterId, Refusal};
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Where a line leads and how it is used.
#[derive(Clone)]
pub struct LineOptions {
    /// "host:port"
    pub to: String,
    /// What is at the other end, for messages: "the metadata server", "ost3".
    pub whom: String,
    pub net: Net,
    pub platform: Platform,
    pub me: Myself,
    pub cluster: Option<ClusterId>,
    pub key: Option<Key>,
    /// None: the connection is not encrypted.
    pub tls: Option<Tls>,
    /// How long a question may go unanswered; None: as long as the line is open.
    pub patience: Option<Duration>,
    /// A question that is given up must not take effect later: the connection is ended with it, and the server lets the
    /// next one in when the former one's work is over.
    pub fence: bool,
    /// Who answers what the server asks.
    pub hosts: Hosts,
}

/// A line that is open until it is dropped, whatever becomes of its connections.
pub struct Line {
    shared: Arc<Shared>,
    tasks: [Task<()>; 2],
}

pub(crate) struct Shared {
    pub options: LineOptions,
    pub table: Table,
    pub state: Mutex<State>,
    /// The state changed.
    pub changed: Notify,
}

pub(crate) struct State {
    /// The connection, and its number; None while there is none.
    pub link: Option<(Arc<Link>, u64)>,
    pub number: u64,
    pub met: Option<Met>,
    /// Why the last attempt failed; None while connected.
    pub failure: Option<Arc<ConnectError>>,
    pub since: BootTime,
    /// The address that was connected to last, as long as nobody there has welcomed us.
    pub tried: Option<String>,
    pub closed: bool,
}

/// A line as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LineStatus {
    pub whom: String,
    pub to: String,
    pub connected: bool,
    /// How long it has been so.
    pub for_ms: u64,
    /// Why it is not connected.
    pub why_not: Option<String>,
    /// Connections made so far.
    pub connections: u64,
    /// Questions that are not answered yet.
    pub open_questions: usize,
}

impl Line {
    /// Begins to connect, and goes on trying as long as the line is there.
    pub fn open(options: LineOptions) -> Arc<Line> {
        let tasks = options.platform.tasks.clone();
        let since = options.platform.clock.boot();
        let shared = Arc::new(Shared {
            options,
            table: Table::default(),
            state: Mutex::new(State {
                link: None,
                number: 0,
                met: None,
                failure: None,
                since,
                tried: None,
                closed: false,
            }),
            changed: Notify::new(),
        });
        let connections = tasks.spawn("line", connect::keep_connected(shared.clone()));
        let clock = tasks.spawn("line's clock", keep::look_at_the_clock(shared.clone()));
        Arc::new(Line {
            shared,
            tasks: [connections, clock],
        })
    }

    /// Waits for the first connection.
    ///
    /// # Errors
    /// When the server refuses us for good, or there is no connection after `patience`.
    pub async fn ready(&self, patience: Duration) -> Result<Met, Arc<ConnectError>> {
        let shared = &self.shared;
        let until = shared.options.platform.clock.boot() + patience;
        loop {
            let mut changed = std::pin::pin!(shared.changed.notified());
            changed.as_mut().enable();
            {
                let state = shared.state.lock();
                if let (Some(_), Some(met)) = (&state.link, &state.met) {
                    return Ok(met.clone());
                }
                if let Some(failure) = &state.failure
                    && (failure.is_for_good() || shared.options.platform.clock.boot() >= until)
                {
                    return Err(failure.clone());
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = shared.options.platform.clock.sleep_until(until) => {
                    let mut state = shared.state.lock();
                    state.failure.get_or_insert_with(|| Arc::new(ConnectError::Slow));
                }
            }
        }
    }

    /// The server as one who answers `Q` with `A`.
    pub fn peer<Q: Message, A: Reply>(self: &Arc<Self>) -> Peer<Q, A> {
        Peer::over(self.clone())
    }

    pub fn status(&self) -> LineStatus {
        let shared = &self.shared;
        let state = shared.state.lock();
        LineStatus {
            whom: shared.options.whom.clone(),
            to: shared.options.to.clone(),
            connected: state.link.is_some(),
            for_ms: shared
                .options
                .platform
                .clock
                .boot()
                .since(state.since)
                .as_millis() as u64,
            why_not: state.failure.as_ref().map(|why| why.to_string()),
            connections: state.number,
            open_questions: shared.table.len(),
        }
    }

    /// Whom the line leads to now; None while it is not connected.
    pub fn met(&self) -> Option<Met> {
        let state = self.shared.state.lock();
        state.link.as_ref().and(state.met.clone())
    }

    /// The address of our end: how others on the network of the server reach this host. None while not connected.
    pub fn near(&self) -> Option<String> {
        let state = self.shared.state.lock();
        let link = state.link.as_ref();
        link.map(|(link, _)| link.stream().near().to_string())
    }

    /// Which connection this is, from 1 on; 0 while there is none.
    pub fn connection(&self) -> u64 {
        let state = self.shared.state.lock();
        state.link.as_ref().map_or(0, |(_, number)| *number)
    }

    /// Returns when the line has another connection than `former`, or none.
    pub async fn changed(&self, former: u64) {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if self.connection() != former {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.stop();
        }
        self.shared.close("the line was closed");
    }
}

impl<Q: Message, A: Reply> Way<Q, A> for Line {
    fn call(&self, question: Q) -> Answering<A> {
        let awaiting = self.shared.clone().ask(question);
        Box::pin(async move {
            let outcome = match awaiting {
                Ok(awaiting) => awaiting.await,
                Err(refusal) => Outcome::Failed(refusal),
            };
            outcome.read()
        })
    }
}

impl Shared {
    fn ask<Q: Message>(self: Arc<Self>, question: Q) -> Result<Awaiting, Refusal> {
        let options = &self.options;
        let deadline = options
            .patience
            .map(|patience| options.platform.clock.boot() + patience);
        let number = self.table.number();
        let fenced = question.must_be_fenced();
        let packed = pack(Q::KIND, Flags::empty(), number, question.write()).map_err(|error| {
            Refusal::Malformed(format!("a question to {}: {error}", options.whom))
        })?;
        self.table.insert(number, packed, deadline, fenced);
        let (link, failure) = {
            let state = self.state.lock();
            if state.closed {
                (None, Some(Refusal::TimedOut(options.whom.clone())))
            } else {
                (state.link.clone(), None)
            }
        };
        if let Some(refusal) = failure {
            self.table.complete(number, Outcome::Failed(refusal));
        }
        if let Some((link, connection)) = link
            && let Some(packed) = self.table.unsent(number, connection)
        {
            link.send(packed);
        }
        Ok(Awaiting::new(self, number))
    }

    /// Sends what has not been sent over this connection.
    pub(crate) fn send_open(&self, link: &Link, connection: u64) {
        for packed in self.table.all_unsent(connection) {
            link.send(packed);
        }
    }

    pub(crate) fn close(&self, why: &str) {
        let link = {
            let mut state = self.state.lock();
            state.closed = true;
            state.link.take()
        };
        if let Some((link, _)) = link {
            link.close();
        }
        let whom = &self.options.whom;
        self.table
            .fail_all(&Refusal::TimedOut(format!("{whom}: {why}")));
        self.changed.notify_waiters();
    }

    /// A question that was sent is given up: what becomes of it must be decided before anything else is asked.
    pub(crate) fn fence(&self) {
        if !self.options.fence {
            return;
        }
        let state = self.state.lock();
        if let Some((link, _)) = &state.link {
            link.close();
        }
    }

    /// What a question waits for when it waits too long.
    pub(crate) fn excuse(&self) -> Refusal {
        let state = self.state.lock();
        let (whom, to) = (&self.options.whom, &self.options.to);
        Refusal::TimedOut(match &state.failure {
            Some(why) => format!("{whom} at {to}: {why}"),
            None => format!("{whom} at {to}"),
        })
    }
}
