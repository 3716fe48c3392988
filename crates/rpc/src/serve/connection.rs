//! One connection, from the first byte to its end.

use super::admit::{Load, Work};
use super::{Caller, Inner};
use crate::call::Outcome;
use crate::frame::{Flags, Frame, pack};
use crate::handshake::{Guest, Role, refuse, welcome};
use crate::limits::{
    ANSWERS_WAITING, BUSY_HINT, DRAIN, HANDSHAKE, PAYLOAD_OF_ONE, QUESTIONS_OF_ONE, SILENCE, TICK,
};
use crate::link::{Link, LinkError, Reader};
use bytes::Bytes;
use gupfs_proto::limits::BODY_MAX;
use gupfs_proto::wire::{Kind, Written};
use gupfs_world::Stream;
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::sync::OwnedSemaphorePermit;

pub(super) async fn serve(inner: Arc<Inner>, stream: Stream, place: OwnedSemaphorePermit) {
    let clock = inner.world.clock.clone();
    let link = Arc::new(Link::new(stream, clock.clone()));
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
            if !matches!(turned, crate::handshake::Turned::Link(LinkError::Ended)) {
                inner.turn_away(&from, &turned);
            }
            // The refusal should arrive before the end does.
            link.room(0).await;
            link.close();
            return;
        }
    };
    drop(place);
    if let Some(caller) = let_in(&inner, &link, guest).await {
        welcome(&link);
        inner.attend.arrived(&caller);
        let why = tokio::select! {
            biased;
            why = read(&inner, &caller, &mut reader) => why,
            () = link.flush() => "the connection ended".to_string(),
            () = silence(&inner, &link) => "nothing is heard any more".to_string(),
        };
        caller.end();
        inner.attend.left(&caller);
        let met = caller.met();
        match met.role {
            Role::Visitor => tracing::debug!(name = met.name, from, why, "a visitor left"),
            _ => tracing::info!(role = met.role.name(), name = met.name, from, why, "left"),
        }
        // Until its work is over the next connection of this process finds it here.
        caller.load.below(1, usize::MAX).await;
        inner.doors.leave(&caller);
    }
    link.close();
}

/// Past the former connection of the same process. None if the guest is turned away.
async fn let_in(inner: &Arc<Inner>, link: &Arc<Link>, guest: Guest) -> Option<Arc<Caller>> {
    let now = inner.world.clock.boot();
    let caller = Arc::new(Caller::new(guest.met, guest.number, now, link.clone()));
    let former = match inner.doors.enter(&caller) {
        Ok(former) => former,
        Err(number) => {
            let why = format!("connection {} comes after {number}", caller.number());
            inner.turn_away(caller.from(), &why);
            refuse(link, &why, false);
            return None;
        }
    };
    if let Some(former) = former
        && caller.met().fenced
    {
        // Nothing that the former connection asked may take effect after what this one asks.
        let drained = tokio::select! {
            biased;
            () = former.load.below(1, usize::MAX) => true,
            () = inner.world.clock.sleep(DRAIN) => false,
        };
        if !drained {
            // It stays in the books until its work is over: put back, so that the next attempt waits for it again.
            inner.doors.put_back(&caller, former);
            refuse(
                link,
                "what the former connection asked is still under way",
                false,
            );
            link.room(0).await;
            return None;
        }
    }
    let met = caller.met();
    if met.role != Role::Visitor {
        tracing::info!(
            role = met.role.name(),
            name = met.name,
            from = caller.from(),
            "connected"
        );
    }
    Some(caller)
}

async fn silence(inner: &Inner, link: &Link) {
    loop {
        inner.world.clock.sleep(TICK * 4).await;
        if inner.world.clock.boot().since(link.heard()) >= SILENCE {
            return;
        }
    }
}

/// Takes what comes until nothing comes any more; why.
async fn read(inner: &Arc<Inner>, caller: &Arc<Caller>, reader: &mut Reader) -> String {
    loop {
        caller.load.below(QUESTIONS_OF_ONE, PAYLOAD_OF_ONE).await;
        caller.link.room(ANSWERS_WAITING).await;
        let frame = match reader.next(BODY_MAX.0 as u32).await {
            Ok(frame) => frame,
            Err(error) => return error.to_string(),
        };
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
                if let Err(why) = question(inner, caller, frame) {
                    return why;
                }
            }
        }
    }
}

/// Works on a question as far as it goes without waiting; the rest is a task of its own.
fn question(inner: &Arc<Inner>, caller: &Arc<Caller>, frame: Frame) -> Result<(), String> {
    let (kind, id, version) = (frame.head.kind, frame.head.id, frame.head.version);
    if caller.met().version(kind) != Some(version) {
        return Err(format!(
            "a message of kind {} and version {version}, as nobody agreed",
            kind.0
        ));
    }
    let Some(host) = inner.hosts.get(kind) else {
        return Err(format!(
            "a message of kind {}, which nobody here answers",
            kind.0
        ));
    };
    let Some(work) = Load::take(&inner.load, &caller.load, frame.payload.len()) else {
        answer(&caller.link, kind, Flags::ANSWER | Flags::BUSY, id, busy());
        return Ok(());
    };
    let answering = host.answer(Some(caller.clone()), frame.body, frame.payload);
    let mut whole = Box::pin(finish(answering, caller.link.clone(), kind, id, work));
    let mut here = Context::from_waker(Waker::noop());
    if whole.as_mut().poll(&mut here).is_pending() {
        inner.world.tasks.spawn("question", whole);
    }
    Ok(())
}

async fn finish(
    answering: crate::host::Answered,
    link: Arc<Link>,
    kind: Kind,
    id: u64,
    work: Work,
) {
    match answering.await {
        Ok(written) => answer(&link, kind, Flags::ANSWER, id, written),
        Err(error) => {
            tracing::warn!(%error, from = link.stream().peer(), "what is asked is no question; the connection is closed");
            link.close();
        }
    }
    drop(work);
}

fn answer(link: &Link, kind: Kind, flags: Flags, id: u64, written: Written) {
    match pack(kind, 1, flags, id, written) {
        Ok(packed) => link.send(packed),
        Err(error) => {
            tracing::error!(%error, ?kind, "an answer cannot be sent; the connection is closed");
            link.close();
        }
    }
}

fn busy() -> Written {
    Written {
        body: (BUSY_HINT.as_millis() as u32).to_le_bytes().to_vec(),
        payload: Bytes::new(),
    }
}
