//! # reserved_space: space of targets for bytes that are sent later
//!
//! Owns   what each target keeps for this client, and how much of it the unsent bytes will take.
//! Never  sends a request, or reads a clock.
//! Enter  at `ReservedSpace::charge` before a client keeps bytes; `ReservedSpace::begin_write` before it sends them.

mod charges;
mod target;

pub use charges::SpaceCharges;

use crate::status::TargetReservationStatus;
use gupfs_platform::BootTime;
use gupfs_platform::hash::Map;
use gupfs_proto::data::SpaceReservation;
use gupfs_proto::{OstId, SessionId};
use parking_lot::Mutex;
use std::sync::Arc;
use target::TargetReservation;
use tokio::sync::Notify;

#[derive(Default)]
pub struct ReservedSpace {
    targets: Mutex<Map<OstId, TargetReservation>>,
    /// Notified when a target has answered how much it keeps.
    answered: Notify,
}

/// Bytes that a write takes of a target's space, in whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeededSpace {
    pub ost: OstId,
    pub bytes: u64,
}

/// A request to a target, as an answer needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentRequest {
    pub session: SessionId,
    /// At the earliest.
    pub at: BootTime,
}

/// What came of `ReservedSpace::charge`.
pub struct ChargedSpace {
    /// None: a target does not keep enough.
    pub charges: Option<SpaceCharges>,
    /// The requests that the caller must send without waiting for them.
    pub asks: Vec<NeededSpace>,
}

/// A request for space; if it is dropped without an answer, nothing is reserved for certain.
pub struct PendingReserve {
    space: Arc<ReservedSpace>,
    ost: OstId,
}

/// A write into reserved space; the same.
pub struct PendingReservedWrite {
    space: Arc<ReservedSpace>,
    ost: OstId,
    is_answered: bool,
}

impl ReservedSpace {
    /// Charges a write to all its targets, if each keeps enough for this session.
    pub fn charge(
        self: &Arc<Self>,
        session: SessionId,
        needed: Vec<NeededSpace>,
        now: BootTime,
    ) -> ChargedSpace {
        let mut targets = self.targets.lock();
        let (mut has_space, mut asks) = (true, Vec::new());
        for NeededSpace { ost, bytes } in &needed {
            let target = targets.entry(*ost).or_default();
            has_space &= target.has_space(session, *bytes, now);
            if let Some(bytes) = target.next_ask(session, *bytes, now) {
                asks.push(NeededSpace { ost: *ost, bytes });
            }
        }
        let charges = has_space.then(|| {
            for NeededSpace { ost, bytes } in &needed {
                targets.entry(*ost).or_default().charge(*bytes);
            }
            SpaceCharges::new(self.clone(), needed)
        });
        ChargedSpace { charges, asks }
    }

    fn release(&self, charged: &[NeededSpace]) {
        let mut targets = self.targets.lock();
        for NeededSpace { ost, bytes } in charged {
            if let Some(target) = targets.get_mut(ost) {
                target.release(*bytes);
            }
        }
    }

    /// Before a `Reserve` that `charge` wants.
    pub fn begin_reserve(self: &Arc<Self>, ost: OstId) -> PendingReserve {
        PendingReserve {
            space: self.clone(),
            ost,
        }
    }

    /// Before a write into reserved space.
    pub fn begin_write(self: &Arc<Self>, ost: OstId) -> PendingReservedWrite {
        PendingReservedWrite {
            space: self.clone(),
            ost,
            is_answered: false,
        }
    }

    /// Whether the target keeps space that no unsent byte needs.
    pub fn has_spare(&self, ost: OstId) -> bool {
        let targets = self.targets.lock();
        targets.get(&ost).is_some_and(TargetReservation::has_spare)
    }

    /// Begins to give back the space that no unsent byte needs; waits for a request under way. Returns the bytes that the client must still
    /// ask for. None if there is nothing to give back.
    pub async fn begin_return(self: &Arc<Self>, ost: OstId) -> Option<(u64, PendingReserve)> {
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            answered.as_mut().enable();
            {
                let mut targets = self.targets.lock();
                let target = targets.get_mut(&ost)?;
                if !target.is_asked() {
                    let bytes = target.begin_return()?;
                    return Some((bytes, self.begin_reserve(ost)));
                }
            }
            answered.await;
        }
    }

    fn change(&self, ost: OstId, change: impl FnOnce(&mut TargetReservation)) {
        change(self.targets.lock().entry(ost).or_default());
    }

    /// What each target keeps for this client, by number.
    pub fn status(&self) -> Vec<TargetReservationStatus> {
        let targets = self.targets.lock();
        let status = targets.iter().map(|(ost, target)| TargetReservationStatus {
            ost: ost.0,
            reserved_bytes: target.known_bytes(),
            charged_bytes: target.charged(),
        });
        let mut status: Vec<_> = status.collect();
        status.sort_by_key(|target| target.ost);
        status
    }
}

impl PendingReserve {
    /// The target has answered.
    pub fn answered(self, sent: SentRequest, reservation: SpaceReservation) {
        self.space
            .change(self.ost, |target| target.reserved(sent, reservation));
    }
}

impl Drop for PendingReserve {
    fn drop(&mut self) {
        self.space.change(self.ost, TargetReservation::end_ask);
        self.space.answered.notify_waiters();
    }
}

impl PendingReservedWrite {
    /// The target has executed the write.
    pub fn answered(mut self, sent: SentRequest, reservation: SpaceReservation) {
        self.is_answered = true;
        self.space
            .change(self.ost, |target| target.written(sent, reservation));
    }
}

impl Drop for PendingReservedWrite {
    fn drop(&mut self) {
        if !self.is_answered {
            // It may have taken its bytes from the reservation, or the target has no reservation any more.
            self.space.change(self.ost, TargetReservation::forget);
        }
    }
}
