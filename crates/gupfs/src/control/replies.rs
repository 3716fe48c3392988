//! The replies to control requests that both the commands and the process know.

use serde::{Deserialize, Serialize};

/// What `gupfs df` shows of one OST.
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
    /// OSTs with the same number lie on the same file system, and have the same space.
    pub device: String,
}

/// What was synced.
#[derive(Serialize, Deserialize)]
pub struct Synced {
    /// Every change of metadata up to this one is durable.
    pub change: u64,
}
