//! Connections of a line, one after the other.

use super::Shared;
use super::table::Outcome;
use crate::frame::{Flags, Frame, Head, Limits, pack};
use crate::handshake::{GreetError, Met, Wish, greet};
use crate::host::Asker;
use crate::limits::{CONNECT, PING, RETRY_FIRST, RETRY_LAST};
use crate::link::{LINK_VERSION, Link, LinkError, Reader};
use crate::tls::{Pipe, TlsError};
use bytes::Bytes;
use gupfs_proto::Refusal;
use gupfs_proto::wire::{Kind, Written};
use std::sync::Arc;
use std::time::Duration;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error(transparent)]
    Greet(GreetError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("it does not answer")]
    Slow,
    /// What a connection that there was ended with.
    #[error("{0}")]
    Lost(String),
}

impl ConnectError {
    /// Trying again will not help: something must be set right first.
    pub fn is_for_good(&self) -> bool {
        match self {
            ConnectError::Greet(error) => error.is_for_good(),
            ConnectError::Tls(_) => true,
            _ => false,
        }
    }
}

pub(super) async fn keep_connected(shared: Arc<Shared>) {
    let platform = shared.options.platform.clone();
    let mut pause = RETRY_FIRST;
    loop {
        let dialled = tokio::select! {
            biased;
            dialled = dial(&shared) => dialled,
            () = platform.clock.sleep(CONNECT) => Err(ConnectError::Slow),
        };
        let failure = match dialled {
            Ok(connection) => {
                let begun = platform.clock.boot();
                let lost = talk(&shared, connection).await;
                // One that breaks as soon as it is used is not made again fifty times a second.
                if platform.clock.boot().since(begun) >= PING {
                    pause = RETRY_FIRST;
                }
                ConnectError::Lost(lost)
            }
            Err(failure) => failure,
        };
        let for_good = failure.is_for_good();
        tracing::debug!(whom = shared.options.whom, to = shared.options.to, %failure, "no connection");
        note(&shared, failure);
        if for_good {
            shared.table.fail_all(&shared.excuse());
        }
        platform.clock.sleep(pause).await;
        pause = (pause * 2).min(RETRY_LAST);
    }
}

struct Connection {
    link: Ends,
    reader: Reader,
    number: u64,
    met: Met,
}

/// Connects, and shows who we are.
async fn dial(shared: &Shared) -> Result<Connection, ConnectError> {
    let options = &shared.options;
    // One that answered and did not become a connection has its turn after the others of the name.
    let of_no_use = shared.state.lock().tried.take();
    let stream = (options.net)
        .connect_after(&options.to, of_no_use.as_deref())
        .await;
    let stream = stream.map_err(ConnectError::Connect)?;
    shared.state.lock().tried = Some(stream.peer().to_string());
    let pipe = match &options.tls {
        Some(tls) => Pipe::tls(stream, tls.connect(&options.to)?),
        None => Pipe::Plain(stream),
    };
    let link = Ends(Arc::new(Link::new(pipe, options.platform.clock.clone())));
    let number = {
        let mut state = shared.state.lock();
        state.number += 1;
        state.number
    };
    let mut reader = link.0.reader();
    let greeting = greet(
        &link.0,
        &mut reader,
        &options.platform.dice,
        &options.me,
        Wish {
            number,
            cluster: options.cluster,
            key: options.key.as_ref(),
            fenced: options.fence,
        },
    );
    // What is said in a handshake may wait for room in the socket too.
    let met = tokio::select! {
        biased;
        met = greeting => met.map_err(ConnectError::Greet)?,
        () = link.0.flush() => return Err(ConnectError::Lost("the connection ended".into())),
    };
    Ok(Connection {
        link,
        reader,
        number,
        met,
    })
}

/// From the first question to the end of the connection; why it ended.
async fn talk(shared: &Arc<Shared>, connection: Connection) -> String {
    let Connection {
        link,
        mut reader,
        number,
        met,
    } = connection;
    install(shared, &link.0, number, met);
    let lost = tokio::select! {
        biased;
        lost = read(shared, &link.0, &mut reader) => lost,
        () = link.0.flush() => "the connection ended".to_string(),
    };
    shared.state.lock().link = None;
    lost
}

/// Closes the link however its connection ends.
struct Ends(Arc<Link>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn install(shared: &Arc<Shared>, link: &Arc<Link>, number: u64, met: Met) {
    tracing::debug!(
        whom = shared.options.whom,
        to = shared.options.to,
        number,
        "connected"
    );
    {
        let mut state = shared.state.lock();
        state.link = Some((link.clone(), number));
        state.met = Some(met);
        state.failure = None;
        state.tried = None;
        state.since = shared.options.platform.clock.boot();
    }
    shared.send_open(link, number);
    shared.changed.notify_waiters();
}

fn note(shared: &Shared, failure: ConnectError) {
    let mut state = shared.state.lock();
    state.link = None;
    if state.failure.is_none() {
        state.since = shared.options.platform.clock.boot();
    }
    state.failure = Some(Arc::new(failure));
    drop(state);
    shared.changed.notify_waiters();
}

/// Takes what comes until nothing comes any more; why.
async fn read(shared: &Arc<Shared>, link: &Arc<Link>, reader: &mut Reader) -> String {
    loop {
        let frame = match reader.next(Limits::AMONG_US).await {
            Ok(frame) => frame,
            Err(error) => {
                if let LinkError::Frame(error) = &error {
                    let (whom, to) = (shared.options.whom.as_str(), shared.options.to.as_str());
                    tracing::warn!(whom, to, %error, "what came is no frame; connecting again");
                }
                return error.to_string();
            }
        };
        let Head { kind, version, .. } = frame.head;
        if !link.takes(kind, version) {
            return format!(
                "a message of kind {} and version {version}, as nobody agreed",
                kind.0
            );
        }
        match (frame.head.kind, frame.head.is_answer()) {
            (Kind::LINK, _) => {} // a sign of life
            (_, true) => answered(shared, frame),
            (_, false) => asked(shared, link, frame),
        }
    }
}

fn answered(shared: &Shared, frame: Frame) {
    if frame.head.flags.contains(Flags::BUSY) {
        let mut hint = [0; 4];
        let have = frame.body.len().min(4);
        hint[..have].copy_from_slice(&frame.body[..have]);
        let by = Duration::from_millis(u64::from(u32::from_le_bytes(hint)));
        let now = shared.options.platform.clock.boot();
        shared
            .table
            .postpone(frame.head.id, now, by.min(RETRY_LAST));
        return;
    }
    let outcome = Outcome::Answered {
        body: frame.body,
        payload: frame.payload,
    };
    shared.table.complete(frame.head.id, outcome);
}

/// The server asks us.
fn asked(shared: &Arc<Shared>, link: &Arc<Link>, frame: Frame) {
    let (kind, id) = (frame.head.kind, frame.head.id);
    let Some(host) = shared.options.hosts.get(kind) else {
        tracing::warn!(
            ?kind,
            whom = shared.options.whom,
            "a question that nobody here answers"
        );
        return;
    };
    let (host, link) = (host.clone(), link.clone());
    let role = shared.state.lock().met.as_ref().map(|met| met.role);
    let Some(role) = role else {
        return; // nothing is read before the handshake is over
    };
    let asker = Asker { role, caller: None };
    let answering = host.answer(asker, frame.body, frame.payload);
    shared
        .options
        .platform
        .tasks
        .spawn("answer the server", async move {
            let answer = answering.await;
            let packed = pack(kind, Flags::ANSWER, id, answer);
            let packed = packed.or_else(|error| {
                let refusal = Refusal::StoreFailed(format!("an answer cannot be sent: {error}"));
                pack(kind, Flags::ANSWER, id, host.refuse(refusal))
            });
            if let Ok(packed) = packed {
                link.send(packed);
            }
        });
}

/// A frame that says only that we are here.
pub(crate) fn ping(link: &Link) {
    let nothing = Written {
        since: LINK_VERSION,
        body: Vec::new(),
        payload: Bytes::new(),
    };
    if let Ok(packed) = pack(Kind::LINK, Flags::empty(), 0, nothing) {
        link.send(packed);
    }
}

/// The excuse that goes with a question whose time is over.
pub(super) fn give_up(shared: &Shared, numbers: Vec<u64>) {
    let refusal: Refusal = shared.excuse();
    for number in numbers {
        shared
            .table
            .complete(number, Outcome::Failed(refusal.clone()));
    }
}
