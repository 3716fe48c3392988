//! How an administrator holds back the resync of mirrored files, and how far it is.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ResyncChange {
    /// Bytes that may be copied a second; 0: any number.
    Rate(u64),
    /// Nothing is copied until `Resume` or the next start of the metadata server.
    Pause,
    Resume,
    Ask,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ResyncState {
    pub rate: Option<u64>,
    pub is_paused: bool,
    /// There may be files with stale members.
    pub is_expected: bool,
    /// Since the start of the metadata server: files whose members are all full again, and bytes.
    pub files_done: u64,
    pub bytes_compared: u64,
    pub bytes_copied: u64,
    /// What the round under way, or the last one, has found and not made full; its bytes have to be compared, and copied where they differ.
    pub files_left: u64,
    pub bytes_left: u64,
    /// At the pace of the round so far; None: no round is under way, or it has just begun.
    pub seconds_left: Option<u64>,
    /// Why the last round had to leave a file.
    pub last_error: Option<String>,
}
