//! Whether this client has the write lease, and how current its state is.

use crate::lease_number::LeaseNumber;

#[derive(Default)]
pub struct LeaseState {
    /// Other clients may change the file while this client does not have its write lease.
    shared: bool,
    /// The server has recorded that this session has the write lease.
    held: bool,
    /// Of the write lease, since it was acquired.
    number: Option<LeaseNumber>,
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

    /// The number of the write lease, if this client has it.
    pub fn number(&self) -> Option<LeaseNumber> {
        self.number.filter(|_| self.held)
    }

    /// Whether no other client can change the file now.
    pub fn excludes_others(&self) -> bool {
        !self.shared || self.held
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
        if self.held {
            self.loaded_change = change;
        }
    }

    /// Whether the server has ended the lease is not known: nothing is answered from memory by it.
    pub fn doubt(&mut self) {
        self.number = None;
    }

    pub fn acquired(&mut self) {
        if !self.held {
            self.number = Some(LeaseNumber::next());
        }
        self.held = true;
    }

    /// The reply to the last report names this change. If it is late (repeated over a new connection, for example), it includes
    /// later changes of other clients: then nothing that is loaded here counts.
    pub fn released(&mut self, change: Option<u64>) {
        self.held = false;
        self.loaded_change = match change {
            Some(change) if change == self.loaded_change + 1 => change,
            _ => 0,
        };
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
