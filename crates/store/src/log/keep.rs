//! Records that the log keeps while the index is copied to another host, which needs them afterwards.

use super::error::LogError;
use super::format::{DecodedHeader, SegmentHeader};
use super::position::LogPosition;
use super::segment::LiveSegment;
use super::state::Shared;
use gupfs_proto::Seq;
use std::sync::Arc;

/// The log keeps the records after this position until this is dropped.
pub struct KeptRecords {
    shared: Arc<Shared>,
    first: Seq,
    position: LogPosition,
}

impl KeptRecords {
    pub fn position(&self) -> LogPosition {
        self.position
    }
}

impl Drop for KeptRecords {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if let Some(at) = state.kept.iter().position(|kept| *kept == self.first) {
            state.kept.swap_remove(at);
        }
    }
}

impl Shared {
    /// Keeps the segment that has the batch after `seq`, and all later ones. A segment's header names the position at which it begins.
    pub(super) async fn keep_from(shared: &Arc<Shared>, seq: Seq) -> Result<KeptRecords, LogError> {
        let missing = LogPosition { last: seq, crc: 0 };
        let live: LiveSegment = {
            let mut state = shared.state.lock();
            let begins_before = |live: &&LiveSegment| live.first.0 <= seq.0.saturating_add(1);
            let found = state.live.iter().rev().find(begins_before).cloned();
            let live = found.ok_or(LogError::NoSuchPosition(missing))?;
            state.kept.push(live.first);
            live
        };
        let mut kept = KeptRecords {
            shared: shared.clone(),
            first: live.first,
            position: missing,
        };
        let header = live.segment.read_header().await?;
        let DecodedHeader::Valid(header) = SegmentHeader::decode(&header) else {
            return Err(shared.damaged(&live, 0));
        };
        kept.position = LogPosition {
            last: Seq(live.first.0 - 1),
            crc: header.previous,
        };
        Ok(kept)
    }
}
