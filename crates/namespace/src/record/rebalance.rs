//! `J`: the rebalance that is going on, or how the last one ended. Only the metadata server uses it, no operation.

use super::impl_record_v1;
use gupfs_proto::Timestamp;
use gupfs_proto::rebalance::RebalanceOutcome;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rebalance {
    pub since: Timestamp,
    /// Bytes that may be copied a second; None: as fast as it can.
    pub rate: Option<u64>,
    /// In percent points.
    pub within: u8,
    pub is_paused: bool,
    /// None: it is going on.
    pub outcome: Option<RebalanceOutcome>,
}

impl_record_v1!(Rebalance);
