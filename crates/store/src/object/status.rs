//! What `gupfs status` shows of a target.

use super::Objects;
use super::counters::Served;
use super::lost_found::LostFound;
use gupfs_proto::OstId;
use serde::Serialize;
use std::sync::atomic::Ordering;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum TargetState {
    Serving,
    /// Serves nothing; why, and what to do.
    Down(String),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TargetStatus {
    pub ost: OstId,
    pub state: TargetState,
    /// Of its making and its opening; None where they are not told.
    pub incarnation: Option<u64>,
    pub stamp: Option<u64>,
    pub total: u64,
    pub free: u64,
    /// What writers may still take.
    pub available: u64,
    pub objects: u64,
    /// Data files that are open.
    pub open_files: usize,
    /// Regions whose sums are not recorded yet.
    pub dirty_regions: u64,
    /// Records of clean regions deleted because somebody was to write there, since the target was opened.
    pub marks: u64,
    /// Regions that became clean since then.
    pub settled: u64,
    /// Object, and what is wrong with it; at most `limits::DAMAGE_LISTED`.
    pub damaged: Vec<(String, String)>,
    /// How often damage was met.
    pub damage_met: u64,
    pub served: Served,
    /// Objects whose files an older metadata store did not know, kept for a while.
    pub lost_found: LostFound,
}

impl TargetStatus {
    /// Of a target that could not be opened.
    pub fn down(ost: OstId, why: impl Into<String>) -> TargetStatus {
        TargetStatus {
            ost,
            state: TargetState::Down(why.into()),
            incarnation: None,
            stamp: None,
            total: 0,
            free: 0,
            available: 0,
            objects: 0,
            open_files: 0,
            dirty_regions: 0,
            marks: 0,
            settled: 0,
            damaged: Vec::new(),
            damage_met: 0,
            served: Served::default(),
            lost_found: LostFound::default(),
        }
    }
}

impl Objects {
    pub async fn status(&self) -> TargetStatus {
        let target = self.target();
        let space = target.room.space().await.unwrap_or_default();
        let state = match target.down() {
            None => TargetState::Serving,
            Some(why) => TargetState::Down(why.to_owned()),
        };
        let damaged = target.damage.list().into_iter();
        TargetStatus {
            ost: target.ost,
            state,
            incarnation: Some(target.incarnation.0),
            stamp: Some(target.identity().stamp),
            total: space.total,
            free: space.free,
            available: space.available,
            objects: target.objects.load(Ordering::Relaxed),
            open_files: target.table.open_files(),
            dirty_regions: target.dirty.load(Ordering::Relaxed) as u64,
            marks: target.counters.marks.get(),
            settled: target.counters.settled.get(),
            damaged: damaged
                .map(|(id, what)| (id.to_string(), what.to_string()))
                .collect(),
            damage_met: target.damage.times(),
            served: target.counters.served(),
            lost_found: *target.lost_found.lock(),
        }
    }
}
