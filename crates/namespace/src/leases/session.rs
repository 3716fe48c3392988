//! The leases of one session in the order of their grants.

use super::key::PackedKey;
use gupfs_proto::lease::GrantNumber;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct SessionLeases {
    /// The last grant, also when its lease is gone.
    pub last: GrantNumber,
    pub by_number: BTreeMap<GrantNumber, PackedKey>,
    /// The server has asked it for its least recently granted leases, and it has not answered.
    pub excess_asked: bool,
}

impl SessionLeases {
    pub fn next_number(&mut self) -> GrantNumber {
        self.last.0 += 1;
        self.last
    }
}
