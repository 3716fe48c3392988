//! The clocks of the metadata's owners. A session capability names an owner, and that owner's clock says when it expires.

use gupfs_platform::fake::FakeClock;
use gupfs_proto::OwnerEpoch;
use gupfs_proto::capability::DataCredentials;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Milliseconds since the clock's beginning.
pub fn millis(clock: &FakeClock) -> u64 {
    clock.boot().0 / 1_000_000
}

pub struct OwnerClocks {
    /// Of every owner that has no other.
    usual: FakeClock,
    others: Mutex<BTreeMap<OwnerEpoch, FakeClock>>,
}

impl OwnerClocks {
    pub fn new(usual: &FakeClock) -> OwnerClocks {
        OwnerClocks {
            usual: usual.clone(),
            others: Mutex::default(),
        }
    }

    pub fn note(&self, owner: OwnerEpoch, clock: &FakeClock) {
        self.others.lock().insert(owner, clock.clone());
    }

    /// Milliseconds of the clock that says when these credentials expire.
    pub fn millis_for(&self, credentials: &DataCredentials) -> u64 {
        let owner = match credentials {
            DataCredentials::Client {
                session_capability, ..
            } => Some(session_capability.epoch),
            _ => None,
        };
        let others = self.others.lock();
        let clock = owner.and_then(|owner| others.get(&owner));
        millis(clock.unwrap_or(&self.usual))
    }
}
