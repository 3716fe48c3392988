//! How far each copy is, for `gupfs status`.

use super::OwnerShared;
use gupfs_proto::copy::LogPosition;
use gupfs_proto::{CopyId, Seq};
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CopyLag {
    pub copy: CopyId,
    /// The last batch that it has, and the last one that it has synced, as far as this owner knows.
    pub has: Seq,
    pub synced: Seq,
    /// Parts of a snapshot that it has got, while it begins anew.
    pub snapshot_parts: Option<u64>,
    /// Why it was struck last, and how often by this owner.
    pub struck: Option<String>,
    pub strikes: u32,
}

impl OwnerShared {
    fn with_lag(&self, copy: CopyId, change: impl FnOnce(&mut CopyLag)) {
        let mut lag = self.lag.lock();
        let known = lag.entry(copy).or_insert_with(|| CopyLag {
            copy,
            ..CopyLag::default()
        });
        change(known);
    }

    pub(super) fn note_end(&self, copy: CopyId, end: LogPosition) {
        self.with_lag(copy, |lag| lag.has = lag.has.max(end.last));
    }

    pub(super) fn note_synced(&self, copy: CopyId, end: LogPosition) {
        self.with_lag(copy, |lag| {
            lag.has = lag.has.max(end.last);
            lag.synced = lag.synced.max(end.last);
        });
    }

    pub(super) fn note_snapshot(&self, copy: CopyId, parts: Option<u64>) {
        self.with_lag(copy, |lag| lag.snapshot_parts = parts);
    }

    pub(super) fn note_struck(&self, copy: CopyId, why: &str) {
        self.with_lag(copy, |lag| {
            lag.struck = Some(why.to_string());
            lag.strikes += 1;
        });
    }

    pub(super) fn lag(&self) -> Vec<CopyLag> {
        self.lag.lock().values().cloned().collect()
    }
}
