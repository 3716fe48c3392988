//! One connection, from the first byte to its end.

use super::admit::{Announced, Work};
use super::{Caller, Inner, StrangerGuard};
use crate::call::Outcome;
use crate::frame::{Flags, Frame, FrameError, Head, Limits, pack};
use crate::handshake::{Guest, Role, Turned, refuse, refuse_manner, welcome};
use crate::host::{Answered, Asker, Erased};
use crate::limits::{ANSWERS_WAITING, BUSY_HINT, DRAIN, FIRST_WORD, HANDSHAKE, PARTING, TICK};
use crate::link::{Link, LinkError, Reader};
use crate::tls::{Pipe, Tls, TlsFault};
use bytes::Bytes;
use gupfs_platform::Stream;
use gupfs_proto::Refusal;
use gupfs_proto::wire::{Kind, Written};
use std::sync::Arc;
use std::task::{Context, Waker};

pub(super) async fn serve(inner: Arc<Inner>, stream: Stream, place: StrangerGuard) {
    let clock = inner.platform.clock.clone();
    let pipe = match inner.tls.as_ref().map(Tls::accept) {
        None => Pipe::Plain(stream),
        Some(Ok(connection)) => Pipe::tls(stream, connection),
        Some(Err(error)) => return inner.turn_away(stream.peer(), &error),
    };
    let link = Arc::new(Link::new(pipe, clock.clone()));
    let mut reader = link.reader();
    let from = link.stream().peer().to_string();
    let receiving = inner
        .porter
        .receive(&link, &mut reader, &inner.platform.dice);
    let guest = tokio::select! {
        biased;
        guest = receiving => guest,
        () = link.flush() => return,
        why = too_late(&inner, &link) => {
            inner.turn_away(&from, &why);
            link.close();
            return;
        }
    };
    let guest = match guest {
        Ok(guest) => guest,
        Err(turned) => {
            if place.is_lost() {
                inner.turn_away(
                    &from,
                    &"others that had proved nothing either needed its place",
                );
                return;
            }
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
    let origin = place.origin().clone();
    place.proved();
    let now = clock.boot();
    let entered = inner.doors.enter(&guest, &origin, |loads| {
        Arc::new(Caller::new(guest.clone(), now, link.clone(), loads))
    });
    match entered {
        Ok(caller) => {
            if drained(&inner, &caller).await {
                converse(&inner, &caller, &guest, &mut reader).await;
            } else {
                let why = "what the former connection asked is still under way";
                part(&inner, &link, why).await;
            }
            caller.end();
            // Until its work is over the next connection of this process finds it here.
            caller.loads.one.below(1).await;
            inner.doors.leave(&caller);
        }
        Err(why) => {
            inner.turn_away(&from, &why);
            part(&inner, &link, &why.to_string()).await;
            link.close();
        }
    }
}

/// Returns when a stranger was given enough time; why it is turned away.
async fn too_late(inner: &Inner, link: &Link) -> &'static str {
    inner.platform.clock.sleep(FIRST_WORD).await;
    if !link.has_come() {
        return "it said nothing";
    }
    inner.platform.clock.sleep(HANDSHAKE - FIRST_WORD).await;
    "its handshake did not come to an end"
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
        () = inner.platform.clock.sleep(PARTING) => {}
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
        () = caller.loads.one.below(1) => !caller.is_gone(),
        () = inner.platform.clock.sleep(DRAIN) => false,
    }
}

/// Why a conversation is over.
enum End {
    Left(String),
    /// What came is no message, so where the next one begins is unknown.
    Misspoke(String),
}

/// From the welcome to the end.
async fn converse(inner: &Arc<Inner>, caller: &Arc<Caller>, guest: &Guest, reader: &mut Reader) {
    let (met, from) = (caller.met(), caller.from());
    let is_visitor = met.role == Role::Visitor;
    if !is_visitor {
        tracing::info!(role = met.role.name(), name = met.name, from, "connected");
    }
    welcome(&caller.link, guest);
    inner.attend.arrived(caller);
    let why = tokio::select! {
        biased;
        why = read(inner, caller, reader) => why,
        () = caller.link.flush() => End::Left("the connection ended".to_string()),
        why = overdue(inner, &caller.link) => End::Left(why.to_string()),
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

/// Returns when the other side is given up; why.
async fn overdue(inner: &Inner, link: &Link) -> &'static str {
    loop {
        inner.platform.clock.sleep(TICK * 4).await;
        if let Some(why) = link.overdue() {
            return why;
        }
    }
}

/// Takes what comes until nothing comes any more; why. It never waits for anything else: signs of life and answers must pass
/// whatever is under way.
async fn read(inner: &Arc<Inner>, caller: &Arc<Caller>, reader: &mut Reader) -> End {
    loop {
        if let Err(end) = one(inner, caller, reader).await {
            return end;
        }
    }
}

/// Takes one frame, or reads past it if there is no room for it now.
async fn one(inner: &Arc<Inner>, caller: &Arc<Caller>, reader: &mut Reader) -> Result<(), End> {
    let head = reader.head(Limits::AMONG_US).await?;
    let is_question = head.kind != Kind::LINK && !head.is_answer();
    let host = match is_question {
        true => Some(host_of(inner, caller, &head)?),
        false => None,
    };
    let Some(announced) = caller
        .loads
        .announce(head.body as usize + head.payload as usize)
    else {
        if !is_question {
            return Err(End::Left(
                "its answers are more than there is room for".into(),
            ));
        }
        reader.skip(head).await?;
        be_busy(caller, &head);
        return Ok(());
    };
    let frame = reader.rest(head).await?;
    if caller.link.waiting() > 2 * ANSWERS_WAITING {
        return Err(End::Left("it does not take its answers".into()));
    }
    match host {
        Some(host) => question(inner, caller, frame, host, announced)?,
        // A sign of life is answered by one, so that both sides hear something.
        None if head.kind == Kind::LINK => crate::call::ping(&caller.link),
        None => {
            let outcome = Outcome::Answered {
                body: frame.body,
                payload: frame.payload,
            };
            caller.asked.complete(head.id, outcome);
        }
    }
    Ok(())
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        match error {
            LinkError::Frame(_) => End::Misspoke(error.to_string()),
            _ => End::Left(error.to_string()),
        }
    }
}

/// Who answers questions of this kind, if it is said as was agreed.
fn host_of(inner: &Inner, caller: &Caller, head: &Head) -> Result<Arc<dyn Erased>, End> {
    let (kind, version) = (head.kind, head.version);
    if !caller.link.takes(kind, version) {
        return Err(End::Misspoke(format!(
            "a message of kind {} and version {version}, as nobody agreed",
            kind.0
        )));
    }
    inner.hosts.get(kind).cloned().ok_or_else(|| {
        End::Misspoke(format!(
            "a message of kind {}, which nobody here answers",
            kind.0
        ))
    })
}

/// Works on a question as far as it goes without waiting; the rest is a task of its own.
fn question(
    inner: &Arc<Inner>,
    caller: &Arc<Caller>,
    frame: Frame,
    host: Arc<dyn Erased>,
    announced: Announced,
) -> Result<(), End> {
    let has_room = caller.link.waiting() <= ANSWERS_WAITING;
    let work = caller.loads.take(announced).filter(|_| has_room);
    let Some(work) = work else {
        be_busy(caller, &frame.head);
        return Ok(());
    };
    // Counted first, looked at then: whoever ends this connection and finds nothing counted knows that nothing will be.
    if caller.is_gone() {
        return Err(End::Left("the connection ended".into()));
    }
    let (kind, id) = (frame.head.kind, frame.head.id);
    let asker = Asker {
        role: caller.met().role,
        caller: Some(caller.clone()),
    };
    let answering = host.answer(asker, frame.body, frame.payload);
    let link = caller.link.clone();
    let mut whole = Box::pin(finish(answering, host, link, kind, id, work));
    let mut here = Context::from_waker(Waker::noop());
    if whole.as_mut().poll(&mut here).is_pending() {
        inner.platform.tasks.spawn("question", whole);
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

/// There is no room for this question now: when to ask it again.
fn be_busy(caller: &Caller, head: &Head) {
    caller.loads.was_refused();
    let hint = Written {
        since: head.version,
        body: (BUSY_HINT.as_millis() as u32).to_le_bytes().to_vec(),
        payload: Bytes::new(),
    };
    let flags = Flags::ANSWER | Flags::BUSY;
    let _ = send(&caller.link, head.kind, flags, head.id, hint);
}
