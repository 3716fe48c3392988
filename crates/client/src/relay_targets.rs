//! # relay_targets: which targets accept relayed writes of this client
//!
//! Owns   the ticket that each target has accepted; whether a relayed write may still reach a target; pauses after a failure.
//! Never  sends a request.
//! Enter  at `RelayTargets::ticket` before a write is relayed, at `RelayTargets::sent` when it is.

use crate::limits::RELAY_PAUSE;
use gupfs_platform::BootTime;
use gupfs_proto::data::RelayTicket;
use gupfs_proto::{OstId, SessionId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct RelayTargets {
    targets: Mutex<BTreeMap<OstId, RelayTarget>>,
}

#[derive(Default)]
struct RelayTarget {
    /// The last ticket that was sent.
    last: RelayTicket,
    /// The last ticket whose acceptance the target has confirmed: relayed writes with former ones are refused.
    confirmed: RelayTicket,
    /// The session for which the target accepts `confirmed`, as far as this client knows.
    accepts_for: Option<SessionId>,
    is_requested: bool,
    /// A relayed write without a known outcome may reach the target.
    may_be_late: bool,
    paused_until: Option<BootTime>,
    /// One `AcceptRelays` at a time.
    accepting: Arc<tokio::sync::Mutex<()>>,
}

/// Whether a write can be relayed to a target now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TicketState {
    Accepted(RelayTicket),
    /// The target must accept one first, which this caller is to request.
    ToRequest,
    NotNow,
}

/// A write that is being relayed. The targets whose outcome is not noted before this is dropped may execute it later.
pub struct SentRelays {
    targets: Arc<RelayTargets>,
    unknown: Vec<(OstId, RelayTicket)>,
}

impl RelayTargets {
    /// Whether a write of this session can be relayed to a target.
    pub fn ticket(&self, ost: OstId, session: SessionId, now: BootTime) -> TicketState {
        let mut targets = self.targets.lock();
        let target = targets.entry(ost).or_default();
        if target.may_be_late || target.is_paused(now) {
            return TicketState::NotNow;
        }
        if target.accepts_for == Some(session) {
            return TicketState::Accepted(target.confirmed);
        }
        match std::mem::replace(&mut target.is_requested, true) {
            true => TicketState::NotNow,
            false => TicketState::ToRequest,
        }
    }

    /// Whether nothing is relayed by this target's server, or to this target, for a while.
    pub fn is_paused(&self, ost: OstId, now: BootTime) -> bool {
        let targets = self.targets.lock();
        targets
            .get(&ost)
            .is_some_and(|target| target.is_paused(now))
    }

    /// A relay by this target's server, or to this target, has failed.
    pub fn pause(&self, ost: OstId, now: BootTime) {
        let mut targets = self.targets.lock();
        targets.entry(ost).or_default().paused_until = Some(now + RELAY_PAUSE);
    }

    /// The lock under which a ticket is sent.
    pub fn accepting(&self, ost: OstId) -> Arc<tokio::sync::Mutex<()>> {
        let mut targets = self.targets.lock();
        targets.entry(ost).or_default().accepting.clone()
    }

    /// A ticket that is about to be sent: higher than all former ones.
    pub fn next_ticket(&self, ost: OstId) -> RelayTicket {
        let mut targets = self.targets.lock();
        let target = targets.entry(ost).or_default();
        target.last.0 += 1;
        target.accepts_for = None;
        target.last
    }

    /// The target accepts this ticket of this session, and refuses relayed writes with all former ones.
    pub fn accepted(&self, ost: OstId, session: SessionId, ticket: RelayTicket) {
        let mut targets = self.targets.lock();
        let target = targets.entry(ost).or_default();
        target.confirmed = target.confirmed.max(ticket);
        (target.accepts_for, target.may_be_late) = (Some(session), false);
    }

    /// The request for a ticket has ended.
    pub fn requested(&self, ost: OstId) {
        let mut targets = self.targets.lock();
        targets.entry(ost).or_default().is_requested = false;
    }

    /// The target executes no relayed writes: it is of a former version.
    pub fn none_accepted(&self, ost: OstId) {
        let mut targets = self.targets.lock();
        let target = targets.entry(ost).or_default();
        (target.accepts_for, target.may_be_late) = (None, false);
    }

    /// The target has refused the ticket of a relayed write: it may have been started again.
    pub fn refused(&self, ost: OstId) {
        let mut targets = self.targets.lock();
        targets.entry(ost).or_default().accepts_for = None;
    }

    /// Whether a relayed write may still reach the target: before a change the target must accept another ticket.
    pub fn may_be_late(&self, ost: OstId) -> bool {
        let targets = self.targets.lock();
        targets.get(&ost).is_some_and(|target| target.may_be_late)
    }

    /// A relayed write with this ticket is not waited for any more, and may still reach the target.
    pub fn gave_up(&self, ost: OstId, ticket: RelayTicket) {
        let mut targets = self.targets.lock();
        let target = targets.entry(ost).or_default();
        target.may_be_late |= target.confirmed <= ticket;
    }

    /// A write is being relayed to these targets.
    pub fn sent(
        self: &Arc<Self>,
        to: impl IntoIterator<Item = (OstId, RelayTicket)>,
    ) -> SentRelays {
        SentRelays {
            targets: self.clone(),
            unknown: to.into_iter().collect(),
        }
    }
}

impl RelayTarget {
    fn is_paused(&self, now: BootTime) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }
}

impl SentRelays {
    /// The write is not being executed at this target any more, and will not be.
    pub fn ended(&mut self, ost: OstId) {
        self.unknown.retain(|(at, _)| *at != ost);
    }

    pub fn all_ended(mut self) {
        self.unknown.clear();
    }
}

impl Drop for SentRelays {
    fn drop(&mut self) {
        for (ost, ticket) in &self.unknown {
            self.targets.gave_up(*ost, *ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OST: OstId = OstId(3);
    const SESSION: SessionId = SessionId(9);
    const NOW: BootTime = BootTime(5_000_000_000);

    fn with_ticket() -> (Arc<RelayTargets>, RelayTicket) {
        let targets = Arc::new(RelayTargets::default());
        let state = || targets.ticket(OST, SESSION, NOW);
        assert_eq!(
            [state(), state()],
            [TicketState::ToRequest, TicketState::NotNow]
        );
        let ticket = targets.next_ticket(OST);
        targets.accepted(OST, SESSION, ticket);
        targets.requested(OST);
        assert_eq!(state(), TicketState::Accepted(ticket));
        (targets, ticket)
    }

    #[test]
    fn a_write_without_an_outcome_may_be_late_until_another_ticket_is_accepted() {
        let (targets, ticket) = with_ticket();
        targets.sent([(OST, ticket)]).all_ended();
        assert!(!targets.may_be_late(OST));
        let (first, second) = (targets.sent([(OST, ticket)]), targets.sent([(OST, ticket)]));
        drop(first);
        assert!(targets.may_be_late(OST));
        assert_eq!(targets.ticket(OST, SESSION, NOW), TicketState::NotNow);
        let next = targets.next_ticket(OST);
        targets.accepted(OST, SESSION, next);
        assert_eq!(
            targets.ticket(OST, SESSION, NOW),
            TicketState::Accepted(next)
        );
        drop(second);
        assert!(!targets.may_be_late(OST), "its ticket is refused by now");
    }

    #[test]
    fn a_ticket_that_is_sent_and_not_confirmed_refuses_nothing_yet() {
        let (targets, ticket) = with_ticket();
        let sent = targets.sent([(OST, ticket)]);
        targets.refused(OST);
        assert_eq!(targets.ticket(OST, SESSION, NOW), TicketState::ToRequest);
        let _unconfirmed = targets.next_ticket(OST);
        drop(sent);
        assert!(targets.may_be_late(OST));
    }

    #[test]
    fn another_session_needs_a_ticket_of_its_own() {
        let (targets, _) = with_ticket();
        let state = targets.ticket(OST, SessionId(10), NOW);
        assert_eq!(state, TicketState::ToRequest);
    }

    #[test]
    fn a_pause_ends() {
        let (targets, ticket) = with_ticket();
        targets.pause(OST, NOW);
        assert_eq!(targets.ticket(OST, SESSION, NOW), TicketState::NotNow);
        let later = NOW + RELAY_PAUSE;
        assert!(!targets.is_paused(OST, later));
        let state = targets.ticket(OST, SESSION, later);
        assert_eq!(state, TicketState::Accepted(ticket));
    }
}
