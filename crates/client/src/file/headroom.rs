//! Which targets have room for bytes that are sent later: only there a program need not learn at once that a disk is full.

use crate::limits::{HEADROOM_AGE_MAX, HEADROOM_MIN, HEADROOM_REFRESHED_AFTER};
use crate::osts::OstCalls;
use gupfs_platform::hash::Map;
use gupfs_platform::{BootTime, Clock, Tasks};
use gupfs_proto::OstId;
use parking_lot::Mutex;
use std::sync::Arc;

pub struct TargetHeadroom {
    osts: Arc<OstCalls>,
    clock: Clock,
    tasks: Tasks,
    targets: Mutex<Map<OstId, TargetRoom>>,
}

/// What a target has last said.
#[derive(Clone, Copy, Default)]
struct TargetRoom {
    is_enough: bool,
    /// When it was asked that.
    at: Option<BootTime>,
    /// A task is asking it.
    is_asked: bool,
}

impl TargetHeadroom {
    pub fn new(osts: Arc<OstCalls>, clock: Clock, tasks: Tasks) -> Arc<TargetHeadroom> {
        Arc::new(TargetHeadroom {
            osts,
            clock,
            tasks,
            targets: Mutex::default(),
        })
    }

    /// Whether the target had enough room a moment ago. Asks it from time to time while callers want to know.
    pub fn is_enough(self: &Arc<Self>, ost: OstId) -> bool {
        let now = self.clock.boot();
        let (is_enough, asks) = {
            let mut targets = self.targets.lock();
            let room = targets.entry(ost).or_default();
            let within = |age_max| room.at.is_some_and(|at| now.since(at) <= age_max);
            let is_enough = room.is_enough && within(HEADROOM_AGE_MAX);
            let asks = !room.is_asked && !within(HEADROOM_REFRESHED_AFTER);
            room.is_asked |= asks;
            (is_enough, asks)
        };
        if asks {
            self.ask(ost, now);
        }
        is_enough
    }

    fn ask(self: &Arc<Self>, ost: OstId, at: BootTime) {
        let this = self.clone();
        self.tasks.spawn("ask a target for its space", async move {
            let space = this.osts.space(ost).await;
            let room = TargetRoom {
                is_enough: space.is_ok_and(|space| space.available >= HEADROOM_MIN.get()),
                at: Some(at),
                is_asked: false,
            };
            this.targets.lock().insert(ost, room);
        });
    }
}
