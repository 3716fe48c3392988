//! Replies to control requests, as the process sends and the commands read them.

use serde::{Deserialize, Serialize};

/// The space of one OST, as `gupfs df` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OstSpace {
    pub ost: u16,
    /// Why the OST does not serve; None if it serves.
    pub down: Option<String>,
    pub total: u64,
    pub free: u64,
    /// Space that writes may use; the rest of `free` is reserved so that removal always works.
    pub available: u64,
    pub objects: u64,
    /// Identifies the file system that the OST lies on; OSTs with the same value share its space.
    pub device: String,
}

/// The result of a sync.
#[derive(Serialize, Deserialize)]
pub struct Synced {
    /// All metadata changes up to this number are durable.
    pub change: u64,
}
