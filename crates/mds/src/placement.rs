//! The targets among which new layouts choose.

use crate::osts::Targets;
use crate::shard::Shard;
use parking_lot::Mutex;
use std::sync::Arc;

/// Shows the state machine the targets as they are known now.
pub struct Placement {
    shard: Arc<Mutex<Shard>>,
    targets: Arc<Targets>,
}

impl Placement {
    pub fn new(shard: Arc<Mutex<Shard>>, targets: Arc<Targets>) -> Placement {
        Placement { shard, targets }
    }

    /// New layouts choose among the targets as they are known now.
    pub fn update(&self) {
        let mut shard = self.shard.lock();
        // Read under the lock: the state before a report never replaces the state after it.
        shard.targets = self.targets.placement();
    }
}
