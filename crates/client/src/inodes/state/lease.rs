//! Whether this client has a write lease, in which mode, and how current its state is.

use crate::lease_number::LeaseNumber;
use crate::limits::CONTENTION;
use gupfs_platform::BootTime;

#[derive(Default)]
pub struct LeaseState {
    /// Other clients may change the file while this client does not have its write lease.
    shared: bool,
    /// The server has recorded that this session has a write lease.
    held: bool,
    /// It is a concurrent one: other clients may have one, too.
    concurrent: bool,
    /// Of the write lease, since it was acquired in its mode.
    number: Option<LeaseNumber>,
    /// When the exclusive write lease was acquired.
    since: Option<BootTime>,
    /// When another client last wanted to write beside this one.
    contended_at: Option<BootTime>,
    /// The inode's `change` to which size, layout and inline data belong.
    loaded_change: u64,
    /// The request under way by which the server ends the lease, or changes what it covers.
    end: Option<LeaseEnd>,
}

/// A request by which the server ends the lease, or changes what it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseEnd {
    /// The newest change of the inode that this client knew when it sent the request.
    pub known_change: u64,
    /// The server already knew all that this client had changed.
    pub was_reported: bool,
}

/// What a reply with the inode's attributes means while such a request is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DuringLeaseEnd {
    /// No such request is under way, or the server had not executed it: this client's state overlays the attributes.
    Overlaid,
    /// The attributes are the inode's.
    Current,
    /// Whether the server had executed the request is unknown.
    Unknown,
}

impl LeaseState {
    pub fn new(shared: bool) -> LeaseState {
        LeaseState {
            shared,
            ..LeaseState::default()
        }
    }

    pub fn is_shared(&self) -> bool {
        self.shared
    }

    pub fn is_held(&self) -> bool {
        self.held
    }

    pub fn is_exclusive(&self) -> bool {
        self.held && !self.concurrent
    }

    pub fn is_concurrent(&self) -> bool {
        self.held && self.concurrent
    }

    /// The number of the exclusive write lease, if this client has it.
    pub fn number(&self) -> Option<LeaseNumber> {
        self.number.filter(|_| self.is_exclusive())
    }

    /// The number of the concurrent write lease, if this client has it.
    pub fn concurrent_number(&self) -> Option<LeaseNumber> {
        self.number.filter(|_| self.is_concurrent())
    }

    /// The number of the write lease, of whichever mode, if this client has one.
    pub fn any_number(&self) -> Option<LeaseNumber> {
        self.number.filter(|_| self.held)
    }

    /// Whether no other client can change the file now.
    pub fn excludes_others(&self) -> bool {
        !self.shared || self.is_exclusive()
    }

    /// The exclusive write lease has just been acquired.
    pub fn set_since(&mut self, now: BootTime) {
        self.since = Some(now);
    }

    /// Since when this client has the exclusive write lease.
    pub fn since(&self) -> Option<BootTime> {
        self.since.filter(|_| self.is_exclusive())
    }

    /// Another client wants to write the file.
    pub fn note_contention(&mut self, now: BootTime) {
        self.contended_at = Some(now);
    }

    /// Whether another client wanted to write the file a moment ago.
    pub fn is_contended(&self, now: BootTime) -> bool {
        self.contended_at
            .is_some_and(|at| now.since(at) < CONTENTION)
    }

    /// A request is about to be sent by which the server ends the lease, or changes what it covers.
    pub fn start_end(&mut self, end: LeaseEnd) {
        self.end = Some(end);
    }

    /// The reply to that request was applied, or there is none.
    pub fn finish_end(&mut self) {
        self.end = None;
    }

    pub fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    /// What a reply with attributes of this change means. Once the server has executed such a request, others may change the file.
    pub fn during_end(&self, change: u64) -> DuringLeaseEnd {
        match self.end {
            Some(end) if self.shared && self.held && change > end.known_change => {
                match end.was_reported {
                    true => DuringLeaseEnd::Current,
                    false => DuringLeaseEnd::Unknown,
                }
            }
            _ => DuringLeaseEnd::Overlaid,
        }
    }

    pub fn loaded_change(&self) -> u64 {
        self.loaded_change
    }

    /// When the server drops the layout it also drops the record of the write lease.
    pub fn load(&mut self, change: u64, has_layout: bool) {
        self.held &= has_layout;
        self.loaded_change = change;
    }

    /// Whether other clients have changed the inode, if a request of this client has made this change or none.
    pub fn others_made_changes_before(&self, change: u64) -> bool {
        change > self.loaded_change + 1
    }

    pub fn set_loaded_change(&mut self, change: u64) {
        self.loaded_change = change;
    }

    /// A request of this client has made this change. False if other clients have changed the inode too.
    pub fn advance(&mut self, change: u64) -> bool {
        let only_ours = !self.shared || change == self.loaded_change + 1;
        if only_ours {
            self.loaded_change = change;
        }
        only_ours
    }

    /// A request of this client under the write lease has made this change: no other client has changed the inode.
    pub fn note_own_change(&mut self, change: u64) {
        if self.is_exclusive() {
            self.loaded_change = change;
        }
    }

    /// Whether the server has ended the lease is not known: nothing is answered from memory by it.
    pub fn doubt(&mut self) {
        self.number = None;
    }

    pub fn acquired(&mut self) {
        if !self.is_exclusive() {
            self.number = Some(LeaseNumber::next());
        }
        (self.held, self.concurrent) = (true, false);
    }

    /// This client has a concurrent write lease now: acquired, or downgraded from the exclusive one.
    pub fn acquired_concurrent(&mut self) {
        if !self.is_concurrent() {
            self.number = Some(LeaseNumber::next());
        }
        (self.held, self.concurrent) = (true, true);
        self.since = None;
    }

    /// The reply to the last report names this change. If it is late (repeated over a new connection, for example), it includes
    /// later changes of other clients: then nothing that is loaded here counts.
    pub fn released(&mut self, change: Option<u64>) {
        self.loaded_change = match change {
            Some(change) if !self.is_concurrent() && change == self.loaded_change + 1 => change,
            _ => 0,
        };
        (self.held, self.concurrent) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_another_client_is_detected_only_where_clients_share_files() {
        let mut alone = LeaseState::new(false);
        assert!(alone.excludes_others() && alone.advance(9));
        let mut shared = LeaseState::new(true);
        shared.load(4, true);
        assert!(!shared.excludes_others());
        assert!(!shared.advance(6), "change 5 was made by another client");
        assert!(shared.advance(5));
        assert!(
            !shared.others_made_changes_before(5),
            "the request changed nothing"
        );
        assert!(shared.others_made_changes_before(7));
    }

    #[test]
    fn a_reply_from_after_the_end_of_a_lease_is_not_overlaid() {
        use DuringLeaseEnd::{Current, Overlaid, Unknown};
        let during = |shared, held, was_reported| {
            let mut lease = LeaseState::new(shared);
            lease.held = held;
            lease.start_end(LeaseEnd {
                known_change: 5,
                was_reported,
            });
            let meant = [5, 6].map(|change| lease.during_end(change));
            assert!(lease.is_ending());
            lease.finish_end();
            assert_eq!(lease.during_end(6), Overlaid);
            meant
        };
        assert_eq!(during(true, true, false), [Overlaid, Unknown]);
        assert_eq!(during(true, true, true), [Overlaid, Current]);
        // Without the lease the state overlays nothing. No other client changes the files of a client that is not shared.
        assert_eq!(during(true, false, false), [Overlaid, Overlaid]);
        assert_eq!(during(false, true, false), [Overlaid, Overlaid]);
    }

    #[test]
    fn a_concurrent_lease_excludes_nobody_and_a_release_leaves_nothing_known() {
        let mut lease = LeaseState::new(true);
        lease.load(3, true);
        lease.acquired();
        let exclusive = lease.number();
        assert!(exclusive.is_some() && lease.excludes_others());
        lease.acquired_concurrent();
        assert!(lease.is_held() && !lease.excludes_others());
        assert_eq!(lease.number(), None);
        let concurrent = lease.concurrent_number();
        assert!(concurrent.is_some() && concurrent != exclusive);
        lease.note_own_change(4);
        assert_eq!(lease.loaded_change(), 3, "it may be another client's");
        lease.acquired();
        assert!(lease.number().is_some() && lease.concurrent_number().is_none());
        lease.acquired_concurrent();
        lease.released(Some(4));
        assert_eq!((lease.loaded_change(), lease.is_held()), (0, false));
    }

    #[test]
    fn a_file_is_contended_for_a_moment() {
        let at = |seconds: u64| BootTime(seconds * 1_000_000_000);
        let mut lease = LeaseState::new(true);
        assert!(!lease.is_contended(at(5)));
        lease.note_contention(at(5));
        assert!(lease.is_contended(at(5)) && !lease.is_contended(at(6)));
    }

    #[test]
    fn a_load_without_a_layout_ends_the_lease() {
        let mut lease = LeaseState::new(true);
        lease.acquired();
        lease.load(5, true);
        assert!(lease.is_held());
        lease.load(6, false);
        assert!(!lease.is_held());
    }

    #[test]
    fn a_late_reply_to_the_last_report_invalidates_what_is_loaded() {
        let mut lease = LeaseState::new(true);
        lease.load(3, true);
        lease.released(Some(4));
        assert_eq!(lease.loaded_change(), 4);
        lease.released(Some(7));
        assert_eq!(lease.loaded_change(), 0);
    }
}
