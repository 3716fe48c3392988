//! The owners of the metadata so far.

use crate::cluster::owner_clocks::OwnerClocks;
use crate::cluster::request_monitor::{RequestMonitor, millis};
use gupfs_platform::fake::FakeClock;
use gupfs_proto::OwnerEpoch;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// A process that owns the metadata, and has answered nothing yet.
#[derive(Clone, Copy, Debug)]
pub struct NewOwner {
    pub host: usize,
    pub epoch: OwnerEpoch,
    /// Its process counted: it has everything that was answered.
    pub kept_memory: bool,
    /// A host has lost power or its directory since all copies counted.
    pub after_power_loss: bool,
    /// The time at which the former owner's process ended, in milliseconds: nothing was answered after it. None if that process goes on.
    pub former_ended: Option<u64>,
}

/// Sees what the processes do.
pub trait CopiesObserver: Send + Sync + 'static {
    /// Called before the owner answers anything.
    fn new_owner(&self, owner: &NewOwner);

    /// A process has ended by itself, for this reason.
    fn process_ended(&self, host: &str, why: &str);
}

pub struct Owners {
    pub clocks: Arc<OwnerClocks>,
    monitor: Arc<RequestMonitor>,
    clock: FakeClock,
    observer: OnceLock<Box<dyn CopiesObserver>>,
    state: Mutex<OwnersState>,
}

#[derive(Default)]
struct OwnersState {
    newest: OwnerEpoch,
    newest_ended: Option<u64>,
    has_lost_power: bool,
}

impl Owners {
    pub fn new(monitor: &Arc<RequestMonitor>) -> Owners {
        let clock = FakeClock::of_runtime();
        Owners {
            clocks: Arc::new(OwnerClocks::new(&clock)),
            monitor: monitor.clone(),
            clock,
            observer: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    pub fn set_observer(&self, observer: Box<dyn CopiesObserver>) {
        let is_first = self.observer.set(observer).is_ok();
        assert!(is_first, "one observer sees the owners");
    }

    /// A process owns the metadata now, and has answered nothing yet.
    ///
    /// # Panics
    /// When a later owner was there before.
    pub fn begin(&self, host: usize, epoch: OwnerEpoch, kept_memory: bool, clock: &FakeClock) {
        self.clocks.note(epoch, clock);
        self.monitor.metadata_server_starts();
        let owner = {
            let mut state = self.state.lock();
            let former = state.newest;
            assert!(former < epoch, "owner {epoch} after owner {former}");
            state.newest = epoch;
            NewOwner {
                host,
                epoch,
                kept_memory,
                after_power_loss: state.has_lost_power,
                former_ended: state.newest_ended.take(),
            }
        };
        if let Some(observer) = self.observer.get() {
            self.monitor.count(match kept_memory {
                true => "take-over by a copy",
                false => "owner elected by what the logs have",
            });
            observer.new_owner(&owner);
        }
    }

    /// The process of this owner has ended.
    pub fn end(&self, epoch: OwnerEpoch) {
        let mut state = self.state.lock();
        if state.newest == epoch {
            state.newest_ended = Some(millis(&self.clock));
        }
    }

    /// A process has ended by itself.
    pub fn note_process_ended(&self, host: &str, why: &str) {
        if let Some(observer) = self.observer.get() {
            observer.process_ended(host, why);
        }
    }

    /// A host has lost power or its directory.
    pub fn lose_power(&self) {
        self.state.lock().has_lost_power = true;
    }

    /// All copies count, and no host is about to fail: nothing is lost.
    pub fn note_whole(&self) {
        self.state.lock().has_lost_power = false;
    }
}
