//! The promise of a copy to its owner: it does not take over for a term. While all copies that count have promised so, the owner may answer even
//! if the arbiter is away.

use super::CopyHost;
use crate::limits::TERM;
use gupfs_platform::BootTime;
use gupfs_proto::OwnerEpoch;

#[derive(Default)]
pub struct Promise {
    until: BootTime,
    to: OwnerEpoch,
    /// This host takes over: it promises nothing.
    is_taking_over: bool,
}

/// This host takes over; it promises nothing until this is dropped.
pub struct TakeOverAttempt<'a>(&'a CopyHost);

impl Drop for TakeOverAttempt<'_> {
    fn drop(&mut self) {
        self.0.promise.lock().is_taking_over = false;
    }
}

impl CopyHost {
    /// Promises the owner not to take over for a term; false if this host is about to.
    pub(super) fn promise(&self, owner: OwnerEpoch) -> bool {
        let mut promise = self.promise.lock();
        if promise.is_taking_over {
            return false;
        }
        promise.until = self.platform.clock.boot() + TERM;
        promise.to = owner;
        true
    }

    /// The owner has stopped in order.
    pub(super) fn release_promise(&self, owner: OwnerEpoch) {
        let mut promise = self.promise.lock();
        if promise.to <= owner {
            promise.until = BootTime(0);
        }
    }

    /// Begins a take-over.
    ///
    /// # Errors
    /// The time until which the host has promised the owner not to.
    pub fn begin_take_over(&self) -> Result<TakeOverAttempt<'_>, BootTime> {
        let mut promise = self.promise.lock();
        if self.platform.clock.boot() < promise.until {
            return Err(promise.until);
        }
        promise.is_taking_over = true;
        Ok(TakeOverAttempt(self))
    }
}
