//! The leases of one session in the order of their grants.

use super::key::PackedKey;
use super::limits::LEASE_MIN;
use gupfs_proto::lease::GrantNumber;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

#[derive(Default)]
pub(super) struct SessionLeases {
    /// The last grant, also when its lease is gone.
    pub last: GrantNumber,
    pub by_number: BTreeMap<GrantNumber, PackedKey>,
    /// The server has asked it for its least recently granted leases, and it has not answered.
    pub excess_asked: bool,
    /// The grants of the last `LEASE_MIN`, and since when the session has each of these leases. All other leases are older.
    fresh: VecDeque<(GrantNumber, Duration)>,
}

impl SessionLeases {
    /// Numbers a grant. `former`: the number of the lease that the session has already; a further grant of it does not prolong it.
    pub fn next_number(&mut self, former: Option<GrantNumber>, now: Duration) -> GrantNumber {
        let since = match former {
            Some(former) => self.fresh_since(former),
            None => Some(now),
        };
        let is_over = |(_, since): &(GrantNumber, Duration)| *since + LEASE_MIN <= now;
        while self.fresh.front().is_some_and(is_over) {
            self.fresh.pop_front();
        }
        self.last.0 += 1;
        self.fresh.extend(since.map(|since| (self.last, since)));
        self.last
    }

    /// Since when the session has the lease of this grant; None: for `LEASE_MIN` or longer.
    pub fn fresh_since(&self, number: GrantNumber) -> Option<Duration> {
        let index = self.fresh.binary_search_by_key(&number, |(of, _)| *of);
        index.ok().map(|index| self.fresh[index].1)
    }
}
