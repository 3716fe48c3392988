//! What one target keeps for this client. Pure: no lock, no await, no clock.
//!
//! Each write into reserved space takes its bytes from the reservation when the target admits it, and the client releases their charge when
//! it has the reply. So if the charges are within what the newest reply said, the bytes that the target does not have yet are within what
//! it keeps: the bytes of a write under way are still charged, and may or may not be taken.

use super::SentRequest;
use crate::limits::{
    RESERVATION_FIRST, RESERVATION_WANTED_MAX, RESERVE_AGAIN_AFTER, RESERVE_PAUSE,
};
use gupfs_platform::BootTime;
use gupfs_proto::SessionId;
use gupfs_proto::data::SpaceReservation;
use gupfs_proto::limits::RESERVATION_CLIENT_TERM;

#[derive(Default)]
pub struct TargetReservation {
    /// The newest reply. None: the target may keep nothing.
    known: Option<KnownReservation>,
    /// What the unsent bytes will take.
    charged: u64,
    /// What the client asked for last.
    wanted: u64,
    /// A `Reserve` is under way.
    is_asked: bool,
    /// It gives space back: what it leaves may be less than what is known.
    is_returned: bool,
    /// When the last `Reserve` began.
    asked_at: Option<BootTime>,
}

struct KnownReservation {
    session: SessionId,
    reservation: SpaceReservation,
    /// When the last request was sent that the target has answered.
    since: BootTime,
}

impl TargetReservation {
    /// Whether the target keeps so many bytes more than are charged, long enough to send them.
    pub fn has_space(&self, session: SessionId, bytes: u64, now: BootTime) -> bool {
        let known = self.current(session, now);
        known.is_some_and(|known| self.charged + bytes <= known.reservation.bytes)
    }

    fn current(&self, session: SessionId, now: BootTime) -> Option<&KnownReservation> {
        let known = self.known.as_ref().filter(|_| !self.is_returned)?;
        let is_current =
            known.session == session && now.since(known.since) < RESERVATION_CLIENT_TERM;
        is_current.then_some(known)
    }

    pub fn charge(&mut self, bytes: u64) {
        self.charged += bytes;
    }

    pub fn release(&mut self, bytes: u64) {
        self.charged -= bytes;
    }

    /// The bytes to ask the target for, if it is time to: then the caller sends a `Reserve`. `bytes`: what a write needs now.
    pub fn next_ask(&mut self, session: SessionId, bytes: u64, now: BootTime) -> Option<u64> {
        if self.is_asked {
            return None;
        }
        let is_paused = (self.asked_at).is_some_and(|at| now.since(at) < RESERVE_PAUSE);
        let asks = match self.current(session, now) {
            None => {
                self.wanted = RESERVATION_FIRST;
                !is_paused
            }
            Some(known) => {
                let is_short = 2 * (self.charged + bytes) > known.reservation.bytes;
                let has_all = known.reservation.bytes >= self.wanted;
                let grows = is_short && has_all && self.wanted < RESERVATION_WANTED_MAX;
                let is_old = now.since(known.since) >= RESERVE_AGAIN_AFTER;
                if grows {
                    self.wanted = (2 * self.wanted).min(RESERVATION_WANTED_MAX);
                }
                grows || (!is_paused && (is_old || is_short && !has_all))
            }
        };
        if !asks {
            return None;
        }
        self.is_asked = true;
        self.asked_at = Some(now);
        Some(self.wanted)
    }

    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    pub fn has_spare(&self) -> bool {
        let known = self.known.as_ref();
        self.is_asked || known.is_some_and(|known| known.reservation.bytes > self.charged)
    }

    /// The client needs only what is charged: returns the bytes to ask for. None if the target keeps no more, as far as is known.
    pub fn begin_return(&mut self) -> Option<u64> {
        if !self.has_spare() {
            return None;
        }
        self.is_asked = true;
        self.is_returned = true;
        self.wanted = self.charged;
        Some(self.charged)
    }

    /// The reply to a `Reserve`.
    pub fn reserved(&mut self, sent: SentRequest, reservation: SpaceReservation) {
        self.is_asked = false;
        self.is_returned = false;
        let is_newer = self.known.as_ref().is_none_or(|known| {
            known.session != sent.session
                || known.reservation.instance != reservation.instance
                || known.reservation.number < reservation.number
        });
        if is_newer {
            self.known = Some(KnownReservation {
                session: sent.session,
                reservation,
                since: sent.at,
            });
        } else if let Some(known) = &mut self.known {
            known.since = known.since.max(sent.at);
        }
    }

    /// A `Reserve` has ended. Without a reply the target may keep less than what is known.
    pub fn end_ask(&mut self) {
        if std::mem::take(&mut self.is_asked) {
            self.forget();
        }
    }

    /// The reply to a write into reserved space.
    pub fn written(&mut self, sent: SentRequest, reservation: SpaceReservation) {
        let known = self.known.as_mut();
        let Some(known) = known.filter(|known| known.session == sent.session) else {
            return;
        };
        if known.reservation.instance != reservation.instance {
            // The target has started again, and has forgotten all reservations.
            self.forget();
            return;
        }
        known.since = known.since.max(sent.at);
        if known.reservation.number < reservation.number {
            known.reservation = reservation;
        }
    }

    /// What the target keeps is not known any more.
    pub fn forget(&mut self) {
        self.known = None;
        self.is_returned = false;
    }

    pub fn known_bytes(&self) -> u64 {
        let known = self.known.as_ref();
        known.map_or(0, |known| known.reservation.bytes)
    }

    pub fn charged(&self) -> u64 {
        self.charged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: SessionId = SessionId(7);
    const MIB: u64 = 1 << 20;

    fn at(millis: u64) -> BootTime {
        BootTime(millis * 1_000_000)
    }

    fn sent(millis: u64) -> SentRequest {
        SentRequest {
            session: SESSION,
            at: at(millis),
        }
    }

    fn reply(number: u64, bytes: u64) -> SpaceReservation {
        SpaceReservation {
            instance: 1,
            number,
            bytes,
        }
    }

    /// The target keeps what was asked for, since 0 ms.
    fn reserved() -> TargetReservation {
        let mut target = TargetReservation::default();
        let bytes = target.next_ask(SESSION, 1, at(0)).unwrap();
        target.reserved(sent(0), reply(1, bytes));
        target
    }

    #[test]
    fn nothing_is_kept_without_space_for_it_and_no_more_than_that() {
        let none = TargetReservation::default();
        assert!(!none.has_space(SESSION, 1, at(0)));
        let mut target = reserved();
        assert!(target.has_space(SESSION, RESERVATION_FIRST, at(1)));
        target.charge(RESERVATION_FIRST - 4096);
        assert!(target.has_space(SESSION, 4096, at(1)));
        assert!(!target.has_space(SESSION, 4097, at(1)));
        target.release(4096);
        assert!(target.has_space(SESSION, 8192, at(1)));
        // Another session has nothing.
        assert!(!target.has_space(SessionId(8), 1, at(1)));
    }

    #[test]
    fn a_client_relies_on_a_reservation_for_half_of_its_term_after_the_last_answered_request() {
        let mut target = reserved();
        assert!(target.has_space(SESSION, 1, at(4_999)));
        assert!(!target.has_space(SESSION, 1, at(5_000)));
        target.written(sent(3_000), reply(2, MIB));
        assert!(target.has_space(SESSION, 1, at(7_999)));
        assert!(!target.has_space(SESSION, 1, at(8_000)));
    }

    #[test]
    fn it_is_asked_again_when_it_ages_and_for_more_when_half_is_charged() {
        let mut target = reserved();
        assert_eq!(target.next_ask(SESSION, 1, at(1_999)), None);
        assert_eq!(
            target.next_ask(SESSION, 1, at(2_000)),
            Some(RESERVATION_FIRST)
        );
        // One request at a time.
        target.charge(RESERVATION_FIRST);
        assert_eq!(target.next_ask(SESSION, 1, at(2_001)), None);
        target.reserved(sent(2_000), reply(2, RESERVATION_FIRST));
        let mut wanted = RESERVATION_FIRST;
        for number in 3..10 {
            let asked = target.next_ask(SESSION, 1, at(2_002));
            let more = (wanted < RESERVATION_WANTED_MAX).then_some(2 * wanted);
            assert_eq!(asked, more);
            if let Some(more) = more {
                wanted = more;
                target.charge(more);
                target.reserved(sent(2_002), reply(number, more));
            }
        }
        assert_eq!(wanted, RESERVATION_WANTED_MAX);
    }

    #[test]
    fn a_target_that_keeps_less_is_asked_twice_a_second_while_writes_need_more() {
        let mut target = TargetReservation::default();
        assert!(target.next_ask(SESSION, 1, at(0)).is_some());
        target.end_ask();
        assert_eq!(target.next_ask(SESSION, 1, at(499)), None);
        assert!(target.next_ask(SESSION, 1, at(500)).is_some());
        target.reserved(sent(500), reply(1, 8192));
        assert_eq!(target.next_ask(SESSION, 4096, at(1_000)), None);
        assert_eq!(
            target.next_ask(SESSION, 8192, at(1_000)),
            Some(RESERVATION_FIRST)
        );
    }

    #[test]
    fn a_target_that_has_started_again_keeps_nothing() {
        let mut target = reserved();
        let instance = 2;
        let other = SpaceReservation {
            instance,
            ..reply(9, MIB)
        };
        target.written(sent(10), other);
        assert!(!target.has_space(SESSION, 1, at(11)));
        assert!(target.next_ask(SESSION, 1, at(500)).is_some());
        target.reserved(sent(500), other);
        assert!(target.has_space(SESSION, 1, at(501)));
    }

    #[test]
    fn an_older_reply_that_arrives_later_changes_nothing() {
        let mut target = reserved();
        target.written(sent(1), reply(7, MIB));
        target.written(sent(2), reply(6, 2 * MIB));
        assert_eq!(target.known_bytes(), MIB);
        target.reserved(sent(2), reply(5, 8 * MIB));
        assert_eq!(target.known_bytes(), MIB);
    }

    #[test]
    fn while_space_is_given_back_no_bytes_are_kept() {
        let mut target = reserved();
        target.charge(MIB);
        assert_eq!(target.begin_return(), Some(MIB));
        assert!(!target.has_space(SESSION, 1, at(1)));
        target.written(sent(1), reply(2, RESERVATION_FIRST));
        assert!(!target.has_space(SESSION, 1, at(1)));
        target.reserved(sent(1), reply(3, MIB));
        assert!(!target.has_space(SESSION, 1, at(1)));
        target.release(MIB);
        assert!(target.has_space(SESSION, MIB, at(1)));
    }

    /// A target as the protocol describes it: it takes the bytes of writes from the reservation, and keeps any amount up to what was asked
    /// for.
    #[derive(Default)]
    struct ModelTarget {
        reserved: u64,
        wanted: u64,
        replies: u64,
    }

    impl ModelTarget {
        fn reply(&mut self, refill: u64) -> SpaceReservation {
            let missing = self.wanted.saturating_sub(self.reserved);
            self.reserved += missing.min(refill);
            self.replies += 1;
            reply(self.replies, self.reserved)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A program writes.
        Write(u64),
        /// The client gives back what it does not need.
        Return,
        /// The unsent bytes are sent.
        Send,
        /// The target executes one of the messages, and keeps up to so many bytes more.
        Execute(usize, u64),
        /// A reply arrives, in any order.
        Arrive(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let refill = || prop_oneof![Just(0), 0..MIB, Just(u64::MAX)];
        prop_oneof![
            8 => (1..3_000_000_u64).prop_map(Step::Write),
            1 => Just(Step::Return),
            4 => Just(Step::Send),
            6 => (any::<usize>(), refill()).prop_map(|(index, refill)| Step::Execute(index, refill)),
            6 => any::<usize>().prop_map(Step::Arrive),
        ]
    }

    enum Message {
        Reserve(u64),
        Write(u64),
    }

    proptest! {
        #[test]
        fn the_target_keeps_what_it_does_not_have_yet(steps in proptest::collection::vec(step(), 1..150)) {
            let (mut client, mut target) = (TargetReservation::default(), ModelTarget::default());
            let (mut unsent, mut millis) = (0, 0);
            let mut messages: Vec<Message> = Vec::new();
            let mut replies: Vec<(Option<u64>, SpaceReservation)> = Vec::new();
            for step in steps {
                millis += 100;
                match step {
                    Step::Write(bytes) => {
                        if client.has_space(SESSION, bytes, at(millis)) {
                            client.charge(bytes);
                            unsent += bytes;
                        }
                        if let Some(wanted) = client.next_ask(SESSION, bytes, at(millis)) {
                            messages.push(Message::Reserve(wanted));
                        }
                    }
                    Step::Return => if !client.is_asked() && let Some(bytes) = client.begin_return() {
                        messages.push(Message::Reserve(bytes));
                    },
                    Step::Send => if unsent > 0 {
                        messages.push(Message::Write(std::mem::take(&mut unsent)));
                    },
                    Step::Execute(index, refill) => if !messages.is_empty() {
                        let index = index % messages.len();
                        match messages.swap_remove(index) {
                            Message::Reserve(bytes) => {
                                target.wanted = bytes;
                                target.reserved = target.reserved.min(bytes);
                                replies.push((None, target.reply(refill)));
                            }
                            Message::Write(bytes) => {
                                target.reserved -= bytes;
                                replies.push((Some(bytes), target.reply(refill)));
                            }
                        }
                    },
                    Step::Arrive(index) => if !replies.is_empty() {
                        let index = index % replies.len();
                        match replies.swap_remove(index) {
                            (None, reservation) => client.reserved(sent(millis), reservation),
                            (Some(bytes), reservation) => {
                                client.written(sent(millis), reservation);
                                client.release(bytes);
                            }
                        }
                    },
                }
                let under_way = messages.iter().map(|message| match message {
                    Message::Reserve(_) => 0,
                    Message::Write(bytes) => *bytes,
                });
                let needed = unsent + under_way.sum::<u64>();
                prop_assert!(needed <= target.reserved, "{needed} bytes need {} reserved ones", target.reserved);
            }
        }
    }
}
