//! What `gupfs status` shows of a target.

use super::Objects;
use super::counters::OperationCounts;
use super::lost_found::LostFoundUsage;
use gupfs_proto::OstId;
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum OstState {
    Serving,
    /// The target serves nothing: the reason, and what to do.
    Down(String),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OstStatus {
    pub ost: OstId,
    pub state: OstState,
    /// Incarnation and stamp of the target; None if the target could not be opened.
    pub incarnation: Option<u64>,
    pub stamp: Option<u64>,
    pub total: u64,
    pub free: u64,
    /// Bytes that writers may still use.
    pub available: u64,
    pub objects: u64,
    /// Open data files.
    pub open_files: usize,
    /// Regions whose checksums are not recorded yet.
    pub dirty_regions: u64,
    /// Clean regions that became dirty because they were written, since the target was opened.
    #[serde(rename = "marks")]
    pub regions_dirtied: u64,
    /// Regions that became clean since the target was opened.
    #[serde(rename = "settled")]
    pub regions_cleaned: u64,
    /// Damaged objects and the damage of each; at most `limits::DAMAGE_LISTED`.
    pub damaged: Vec<(String, String)>,
    /// How often an operation met damage.
    pub damage_met: u64,
    pub served: OperationCounts,
    /// Slots whose last numbered write the target remembers, and repeated writes that it answered without executing them.
    pub write_slots: usize,
    pub repeated_writes: u64,
    /// Bytes that the target keeps for writes which sessions send later, and the number of these sessions.
    pub reserved_bytes: u64,
    pub reserving_sessions: usize,
    /// Quarantined objects: a restored, older metadata store did not know their files.
    pub lost_found: LostFoundUsage,
}

impl OstStatus {
    /// The status of a target that could not be opened.
    pub fn down(ost: OstId, why: impl Into<String>) -> OstStatus {
        OstStatus {
            ost,
            state: OstState::Down(why.into()),
            incarnation: None,
            stamp: None,
            total: 0,
            free: 0,
            available: 0,
            objects: 0,
            open_files: 0,
            dirty_regions: 0,
            regions_dirtied: 0,
            regions_cleaned: 0,
            damaged: Vec::new(),
            damage_met: 0,
            served: OperationCounts::default(),
            write_slots: 0,
            repeated_writes: 0,
            reserved_bytes: 0,
            reserving_sessions: 0,
            lost_found: LostFoundUsage::default(),
        }
    }
}

impl Objects {
    pub async fn status(&self) -> OstStatus {
        let target = self.target();
        let access = &target.reading;
        let space = access.free_space.space().await.unwrap_or_default();
        let state = match target.closing.reason() {
            None => OstState::Serving,
            Some(why) => OstState::Down(why.to_owned()),
        };
        let (reserved_bytes, reserving_sessions) = access.free_space.all_reserved();
        let damaged = access.damage.list().into_iter();
        OstStatus {
            ost: target.identity.ost,
            state,
            incarnation: Some(target.identity.incarnation.0),
            stamp: Some(target.identity.known().stamp),
            total: space.total,
            free: space.free,
            available: space.available,
            objects: access.object_count.get(),
            open_files: target.table.open_files(),
            dirty_regions: target.dirty_queue.regions() as u64,
            regions_dirtied: access.counters.regions_dirtied.get(),
            regions_cleaned: access.counters.regions_cleaned.get(),
            damaged: damaged
                .map(|(id, what)| (id.to_string(), what.to_string()))
                .collect(),
            damage_met: access.damage.times(),
            served: access.counters.served(),
            write_slots: target.writing.write_slots.len(),
            repeated_writes: target.writing.write_slots.repeated.get(),
            reserved_bytes,
            reserving_sessions,
            lost_found: access.lost_found.usage(),
        }
    }
}
