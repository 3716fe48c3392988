//! The keys that one operation has closed to grants, until it ends or waits for something else.

use crate::shard::{MetadataLeases, Shard};
use gupfs_namespace::leases::ClosedKeysId;
use gupfs_proto::lease::LeaseKey;
use parking_lot::Mutex;

/// Reopens the keys when it is dropped, however the operation ends. It must not be dropped under the shard's lock.
pub struct ClosedLeaseKeys<'a> {
    shard: &'a Mutex<Shard>,
    closed: Option<ClosedKeysId>,
}

impl<'a> ClosedLeaseKeys<'a> {
    pub fn new(shard: &'a Mutex<Shard>) -> ClosedLeaseKeys<'a> {
        ClosedLeaseKeys {
            shard,
            closed: None,
        }
    }

    /// Closes these keys instead of those before.
    pub(super) fn close(&mut self, leases: &mut MetadataLeases, keys: &[LeaseKey]) {
        let before = self.closed.replace(leases.close(keys));
        before.into_iter().for_each(|before| leases.reopen(before));
    }

    /// Reopens the keys under the lock under which the operation's batch is staged.
    pub(super) fn reopen_in(&mut self, leases: &mut MetadataLeases) {
        self.closed
            .take()
            .into_iter()
            .for_each(|closed| leases.reopen(closed));
    }

    /// Reopens the keys before the operation waits for something else than records: for a session's report, a truncate, its turn.
    pub fn reopen(&mut self) {
        if let Some(closed) = self.closed.take() {
            self.shard.lock().leases.reopen(closed);
        }
    }
}

impl Drop for ClosedLeaseKeys<'_> {
    fn drop(&mut self) {
        self.reopen();
    }
}
