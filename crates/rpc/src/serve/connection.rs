//! One connection, from the first byte to its end.

use super::admit::{Load, Work};
use super::{Caller, Inner};
use crate::call::Outcome;
use crate::frame::{Flags, Frame, FrameError, Limits, pack};
use crate::handshake::{Role, Turned, refuse, refuse_manner, welcome};
use crate::host::{Answered, Erased};
use crate::limits::{ANSWERS_WAITING, BUSY_HINT, DRAIN, HANDSHAKE, PARTING, SILENCE, TICK};
use crate::link::{Link, LinkError, Reader};
use crate::tls::{Pipe, Tls, TlsFault};
use bytes::Bytes;
use gupfs_proto::Refusal;
use gupfs_proto::wire::{Kind, Written};
use gupfs_world::Stream;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::OwnedSemaphorePermit;

pub(super) async fn serve(inner: Arc<Inner>, stream: Stream, place: OwnedSemaphorePermit) {
    let clock = inner.world.clock.clone();
    let pipe = match inner.tls.as_ref().map(Tls::accept) {
        None => Pipe::Plain(stream),
        Some(Ok(connection)) => Pipe::tls(stream, connection),
        Some(Err(error)) => return inner.turn_away(stream.peer(), &error),
    };
    let link = Arc::new(Link::new(pipe, clock.clone()));
    let mut reader = link.reader();
    let from = link.stream().peer().to_string();
    let receiving = inner.porter.receive(&link, &mut reader, &inner.world.dice);
    let guest = tokio::select! {
        biased;
        guest = receiving => guest,
        () = link.flush() => return,
        () = clock.sleep(HANDSHAKE) => {
            inner.turn_away(&from, &"its handshake did not come to an end");
            link.close();
            return;
        }
    };
    let guest = match guest {
        Ok(guest) => guest,
        Err(turned) => {
            // Somebody who connects and leaves (a port scan, a health check) is no trouble.
            if !matches!(turned, Turned::Link(LinkError::Ended)) {
                inner.turn_away(&from, &turned);
            }
            if let Some(why) = other_manner(&turned) {
                refuse_manner(&link, why);
            }
            // The refusal should arrive before the end does.
            sent(&inner, &link).await;
            link.close();
            return;
        }
    };
    drop(place);
    let now = clock.boot();
    let entered = inner.doors.enter(&guest.clone(), |load| {
        Arc::new(Caller::new(guest, now, link.clone(), load))
    });
    match entered {
        Ok(caller) => {
            if drained(&inner, &caller).await {
                converse(&inner, &caller, &mut reader).await;
            } else {
                let why = "what the former connection asked is still under way";
                part(&inner, &link, why).await;
            }
            caller.end();
            // Until its work is over the next connection of this process finds it here.
            caller.load.below(1).await;
            inner.doors.leave(&caller);
        }
        Err(why) => {
            inner.turn_away(&from, &why);
            part(&inner, &link, &why.to_string()).await;
            link.close();
        }
    }
}

/// What is told to who speaks TLS where nobody does, or does not where everybody must.
fn other_manner(turned: &Turned) -> Option<&'static str> {
    match turned {
        Turned::Link(LinkError::Tls(TlsFault::Plain)) => {
            Some("this server speaks TLS alone: say where the site's certificates are (--tls)")
        }
        Turned::Link(LinkError::Frame(FrameError::Tls)) => Some("this server does not speak TLS"),
        _ => None,
    }
}

/// A refusal, which should arrive before the end does.
async fn part(inner: &Inner, link: &Link, why: &str) {
    refuse(link, why, false);
    sent(inner, link).await;
}

/// Returns when everything was sent, or cannot be.
async fn sent(inner: &Inner, link: &Link) {
    tokio::select! {
        biased;
        () = link.room(0) => {}
        () = link.flush() => {}
        () = inner.world.clock.sleep(PARTING) => {}
    }
}

/// Waits, if that was asked for, until nothing that former connections asked can take effect any more. False if that takes
/// too long.
async fn drained(inner: &Inner, caller: &Caller) -> bool {
    if !caller.met().fenced {
        return true;
    }
    tokio::select! {
        biased;
        () = caller.load.below(1) => !caller.is_gone(),
        () = inner.world.clock.sleep(DRAIN) => false,
    }
}

/// Why a conversation is over.
enum End {
    Left(String),
    /// What came is no message, so where the next one begins is unknown.
    Misspoke(String),
}

/// From the welcome to the end.
async fn converse(inner: &Arc<Inner>, caller: &Arc<Caller>, reader: &mut Reader) {
    let (met, from) = (caller.met(), caller.from());
    let is_visitor = met.role == Role::Visitor;
    if !is_visitor {
        tracing::info!(role = met.role.name(), name = met.name, from, "connected");
    }
    welcome(&caller.link, met);
    inner.attend.arrived(caller);
    let why = tokio::select! {
        biased;
        why = read(inner, caller, reader) => why,
        () = caller.link.flush() => End::Left("the connection ended".to_string()),
        () = silence(inner, &caller.link) => End::Left("nothing is heard any more".to_string()),
    };
    caller.end();
    inner.attend.left(caller);
    let why = match why {
        End::Left(why) => why,
        End::Misspoke(why) => {
            inner.misspoke(from, &why);
            why
        }
    };
    if !is_visitor {
        tracing::info!(role = met.role.name(), name = met.name, from, why, "left");
    }
}

async fn silence(inner: &Inner, link: &Link) {
    loop {
        inner.world.clock.sleep(TICK * 4).await;
        if inner.world.clock.boot().since(link.heard()) >= SILENCE {
            return;
        }
    }
}

/// Takes what comes until nothing comes any more; why. It never waits for anything else: signs of life and answers must pass
/// whatever is under way.
async fn read(inner: &Arc<Inner>, caller: &Arc<Caller>, reader: &mut Reader) -> End {
    loop {
        let frame = match reader.next(Limits::AMONG_US).await {
            Ok(frame) => frame,
            Err(error @ LinkError::Frame(_)) => return End::Misspoke(error.to_string()),
            Err(error) => return End::Left(error.to_string()),
        };
        if caller.link.waiting() > 2 * ANSWERS_WAITING {
            return End::Left("it does not take its answers".into());
        }
        match (frame.head.kind, frame.head.is_answer()) {
            // A sign of life is answered by one, so that both sides hear something.
            (Kind::LINK, _) => crate::call::ping(&caller.link),
            (_, true) => {
                let outcome = Outcome::Answered {
                    body: frame.body,
                    payload: frame.payload,
                };
                caller.asked.complete(frame.head.id, outcome);
            }
            (_, false) => {
                if let Err(end) = question(inner, caller, frame) {
                    return end;
                }
            }
        }
    }
}

/// Works on a question as far as it goes without waiting; the rest is a task of its own.
fn question(inner: &Arc<Inner>, caller: &Arc<Caller>, frame: Frame) -> Result<(), End> {
    let (kind, id, version) = (frame.head.kind, frame.head.id, frame.head.version);
    if caller.met().version(kind) != Some(version) {
        return Err(End::Misspoke(format!(
            "a message of kind {} and version {version}, as nobody agreed",
            kind.0
        )));
    }
    let Some(host) = inner.hosts.get(kind).cloned() else {
        return Err(End::Misspoke(format!(
            "a message of kind {}, which nobody here answers",
            kind.0
        )));
    };
    let has_room = caller.link.waiting() <= ANSWERS_WAITING;
    let work = Load::take(&inner.load, &caller.load, frame.payload.len()).filter(|_| has_room);
    let Some(work) = work else {
        let _ = send(&caller.link, kind, Flags::ANSWER | Flags::BUSY, id, busy());
        return Ok(());
    };
    // Counted first, looked at then: whoever ends this connection and finds nothing counted knows that nothing will be.
    if caller.is_gone() {
        return Err(End::Left("the connection ended".into()));
    }
    let answering = host.answer(Some(caller.clone()), frame.body, frame.payload);
    let link = caller.link.clone();
    let mut whole = Box::pin(finish(answering, host, link, kind, id, work));
    let mut here = Context::from_waker(Waker::noop());
    if whole.as_mut().poll(&mut here).is_pending() {
        inner.world.tasks.spawn("question", whole);
    }
    Ok(())
}

async fn finish(
    answering: Answered,
    host: Arc<dyn Erased>,
    link: Arc<Link>,
    kind: Kind,
    id: u64,
    work: Work,
) {
    let answer = answering.await;
    if let Err(error) = send(&link, kind, Flags::ANSWER, id, answer) {
        // Asked again it would be as long again: who asks is told.
        tracing::error!(%error, ?kind, "an answer cannot be sent");
        let refusal = host.refuse(Refusal::StoreFailed(format!(
            "an answer cannot be sent: {error}"
        )));
        let _ = send(&link, kind, Flags::ANSWER, id, refusal);
    }
    drop(work);
}

fn send(
    link: &Link,
    kind: Kind,
    flags: Flags,
    id: u64,
    written: Written,
) -> Result<(), FrameError> {
    pack(kind, flags, id, written).map(|packed| link.send(packed))
}

fn busy() -> Written {
    Written {
        body: (BUSY_HINT.as_millis() as u32).to_le_bytes().to_vec(),
        payload: Bytes::new(),
    }
}
