//! # serve: letting others in and answering them
//!
//! Owns   listening, who is connected, that one process has one connection, how much is worked on at once.
//! Never  knows what is asked, or lets a new connection ask before the work of the former one is over (if it must be).
//! Enter  at `Server::start`.

mod admit;
mod caller;
mod connection;
mod doors;
#[cfg(test)]
mod hostile;

pub use caller::Caller;

use crate::client_key::ClientKeys;
use crate::handshake::{Myself, Porter};
use crate::host::Hosts;
use crate::key::ClusterKey;
use crate::strangers::{Bounds, Complaints, Origin, StrangerGuard, Strangers};
use crate::tls::Tls;
use admit::Load;
use doors::Doors;
use gupfs_platform::{BootTime, Listener, Platform, Task};
use gupfs_proto::ClusterId;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct ServerOptions {
    pub platform: Platform,
    pub me: Myself,
    pub cluster: ClusterId,
    /// None: whoever can reach the address is let in.
    pub key: Option<ClusterKey>,
    /// Which hosts that only mount are let in, by their client keys.
    pub clients: Arc<dyn ClientKeys>,
    /// None: connections are not encrypted. With it no other is let in; it must be one that can serve.
    pub tls: Option<Tls>,
    pub hosts: Hosts,
    pub attend: Arc<dyn Attend>,
    pub capacity: Capacity,
}

/// Connections that are kept at once: each holds a descriptor, and together they must leave enough for what the process
/// serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    pub clients: usize,
    /// Of servers and of commands that look, beside them: who sees to a full server must get in. When there is no room the
    /// command that came first is ended.
    pub others: usize,
    /// That have proved nothing yet. A quarter of them is kept for addresses that have.
    pub strangers: usize,
}

impl Capacity {
    /// For so many clients, with the least room for everybody else.
    pub const fn of_clients(clients: usize) -> Capacity {
        Capacity {
            clients,
            others: 32,
            strangers: 24,
        }
    }

    /// Connections that were let in, with those that were ended and have something under way.
    pub const fn inside(self) -> usize {
        self.clients + 2 * self.others
    }

    /// Descriptors for them: connections that were ended hold theirs for a moment, and others have come by then.
    pub const fn descriptors(self) -> usize {
        self.inside() + 2 * self.strangers
    }
}

/// Who wants to know who comes and goes.
pub trait Attend: Send + Sync + 'static {
    fn arrived(&self, _caller: &Arc<Caller>) {}
    fn left(&self, _caller: &Arc<Caller>) {}
}

/// Nobody does.
pub struct Unattended;
impl Attend for Unattended {}

/// A server that listens until it is dropped or stopped.
pub struct Server {
    inner: Arc<Inner>,
    accepting: Task<()>,
    address: String,
}

pub(crate) struct Inner {
    platform: Platform,
    porter: Porter,
    tls: Option<Tls>,
    hosts: Hosts,
    attend: Arc<dyn Attend>,
    doors: Doors,
    load: Arc<Load>,
    strangers: Arc<Strangers>,
    turned: Turned,
    /// Those who were let in and then said what is no message.
    misspoken: Turned,
    complaints: Mutex<Complaints>,
}

/// Those who were not let in.
#[derive(Default)]
struct Turned {
    count: AtomicU64,
    last: Mutex<Option<String>>,
}

/// A server as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ServerStatus {
    pub address: String,
    pub connections: Vec<ConnectionStatus>,
    /// Connections that have proved nothing yet.
    pub strangers: usize,
    /// Questions under way, and bytes that they and what is being read hold.
    pub questions: usize,
    pub payload: usize,
    /// Questions answered with "busy" since the start.
    pub busy: u64,
    /// Connections that were not let in since the start, and why the last was not.
    pub turned_away: u64,
    pub last_turned_away: Option<String>,
    /// Connections that were ended since the start because what came over them is no message, and what the last one sent.
    pub misspoken: u64,
    pub last_misspoken: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ConnectionStatus {
    pub role: &'static str,
    pub name: String,
    pub from: String,
    pub number: u64,
    pub questions: usize,
    pub for_ms: u64,
    /// How long ago something was heard.
    pub silent_ms: u64,
}

impl Server {
    pub fn start(listener: Listener, options: ServerOptions) -> Server {
        let address = listener.address();
        let load = Arc::<Load>::default();
        let capacity = options.capacity;
        let bounds = Bounds {
            all: capacity.strangers,
            for_known: capacity.strangers / 4,
        };
        let inner = Arc::new(Inner {
            platform: options.platform.clone(),
            porter: Porter {
                me: options.me,
                cluster: options.cluster,
                key: options.key,
                clients: options.clients,
            },
            tls: options.tls,
            hosts: options.hosts,
            attend: options.attend,
            doors: Doors::new(capacity, load.clone()),
            load,
            strangers: Strangers::new(options.platform.clock.clone(), bounds),
            turned: Turned::default(),
            misspoken: Turned::default(),
            complaints: Mutex::default(),
        });
        let accepting = options
            .platform
            .tasks
            .spawn("accept", accept(inner.clone(), listener));
        Server {
            inner,
            accepting,
            address,
        }
    }

    /// Where it listens, with the port it got.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn callers(&self) -> Vec<Arc<Caller>> {
        self.inner.doors.all()
    }

    pub fn status(&self) -> ServerStatus {
        let now = self.inner.platform.clock.boot();
        let connections = self.inner.doors.all();
        ServerStatus {
            address: self.address.clone(),
            connections: connections
                .iter()
                .map(|caller| caller.status(now))
                .collect(),
            strangers: self.inner.strangers.count(),
            questions: self.inner.load.questions(),
            payload: self.inner.load.bytes(),
            busy: self.inner.load.refused(),
            turned_away: self.inner.turned.count.load(Relaxed),
            last_turned_away: self.inner.turned.last.lock().clone(),
            misspoken: self.inner.misspoken.count.load(Relaxed),
            last_misspoken: self.inner.misspoken.last.lock().clone(),
        }
    }

    /// Lets nobody in any more and ends all connections.
    pub fn stop(&self) {
        self.accepting.stop();
        for caller in self.inner.doors.all() {
            caller.end();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(inner: Arc<Inner>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let (origin, other_end) = (Origin::of(stream.peer()), stream.clone());
                let end = move || other_end.close();
                let place = inner.strangers.enter(origin, end).await;
                let serving = connection::serve(inner.clone(), stream, place);
                inner.platform.tasks.spawn("connection", serving);
            }
            Err(error) => {
                // Too many open files, mostly: it gets better when somebody leaves.
                tracing::warn!(%error, "a connection could not be accepted");
                inner.platform.clock.sleep(crate::limits::RETRY_LAST).await;
            }
        }
    }
}

impl Inner {
    fn misspoke(&self, from: &str, why: &str) {
        let what = "a connection was ended: what came is no message";
        self.complain(&self.misspoken, from, why, what);
    }

    fn turn_away(&self, from: &str, why: &dyn std::fmt::Display) {
        let what = "a connection was turned away";
        self.complain(&self.turned, from, &why.to_string(), what);
    }

    /// All are counted; an address gets one line a minute.
    fn complain(&self, those: &Turned, from: &str, why: &str, what: &str) {
        those.count.fetch_add(1, Relaxed);
        let now = self.platform.clock.boot();
        let unsaid = self.complaints.lock().about(&Origin::of(from), now);
        match unsaid {
            Some(0) => tracing::warn!(from, why, "{what}"),
            Some(unsaid) => {
                tracing::warn!(from, why, "{what}, and {unsaid} from there before it");
            }
            None => tracing::debug!(from, why, "{what}"),
        }
        *those.last.lock() = Some(format!("{from}: {why}"));
    }
}

fn age(now: BootTime, since: BootTime) -> u64 {
    now.since(since).as_millis() as u64
}
