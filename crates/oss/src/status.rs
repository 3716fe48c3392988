//! What `gupfs status` shows of an object server.

use crate::GateStatus;
use gupfs_store::object::TargetStatus;
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OssStatus {
    pub targets: Vec<TargetStatus>,
    pub gate: GateStatus,
}
