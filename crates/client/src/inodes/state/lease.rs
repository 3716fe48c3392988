//! Whether this client has the write lease, and how current its state is.

#[derive(Default)]
pub struct LeaseState {
    /// Other clients may change the file while this client does not have its write lease.
    shared: bool,
    /// The server has recorded that this session has the write lease.
    held: bool,
    /// The inode's `change` to which size, layout and inline data belong.
    loaded_change: u64,
    /// Requests under way by which the server ends the lease, or changes what it covers.
    ending: u32,
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

    /// Whether no other client can change the file now.
    pub fn excludes_others(&self) -> bool {
        !self.shared || self.held
    }

    /// A request is about to be sent by which the server ends the lease, or changes what it covers.
    pub fn start_end(&mut self) {
        self.ending += 1;
    }

    /// The reply to that request was applied, or there is none.
    pub fn finish_end(&mut self) {
        self.ending = self.ending.saturating_sub(1);
    }

    /// Whether the server may have executed such a request: others may have changed the file since, and this client does not know.
    pub fn is_ending(&self) -> bool {
        self.shared && self.ending > 0
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

    pub fn acquired(&mut self) {
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
    fn a_lease_is_in_doubt_until_all_requests_that_end_it_are_answered() {
        let mut lease = LeaseState::new(true);
        lease.acquired();
        lease.start_end();
        lease.start_end();
        lease.finish_end();
        assert!(lease.is_ending());
        lease.finish_end();
        assert!(!lease.is_ending());
        let mut alone = LeaseState::new(false);
        alone.start_end();
        assert!(!alone.is_ending(), "nobody else changes the file");
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
