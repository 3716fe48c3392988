//! Reading written records again, for a copy of the log that lacks them.

use super::copies::RecordGroup;
use super::error::LogError;
use super::format::{DecodedHeader, SegmentHeader, decode_record};
use super::limits::{CATCH_UP_BYTES, HEADER_BYTES};
use super::position::{LogPosition, position_after};
use super::segment::LiveSegment;
use super::state::Shared;
use bytes::Bytes;
use gupfs_proto::Seq;

impl Shared {
    /// The first written records after a position; None if it is the end of what is written.
    ///
    /// # Errors
    /// `NoSuchPosition` if no segment has the place, because the log has removed it or has other records there.
    pub async fn records_after(
        &self,
        position: LogPosition,
    ) -> Result<Option<RecordGroup>, LogError> {
        let live = {
            let state = self.state.lock();
            if state.written == position {
                return Ok(None);
            }
            // The segments that may have the place. A segment begins with the batch after the place, too, if the place is not its
            // predecessor's last record.
            let is_needed = |live: &&LiveSegment| live.first.0 <= position.last.0.saturating_add(1);
            let found: Vec<LiveSegment> = state.live.iter().filter(is_needed).cloned().collect();
            found
        };
        for live in live.into_iter().rev() {
            let is_last = live.first <= position.last;
            let found = self.group_in(&live, position).await;
            let number = live.segment.number;
            let is_kept = |kept: &LiveSegment| kept.segment.number == number;
            // The log may have removed the segment, or begun to use it anew, while it was read.
            if !self.state.lock().live.iter().any(is_kept) {
                break;
            }
            if let Some(group) = found? {
                return Ok(Some(group));
            }
            if is_last {
                break;
            }
        }
        Err(LogError::NoSuchPosition(position))
    }

    /// The records after the position in this segment, if it has the place and records after it.
    async fn group_in(
        &self,
        live: &LiveSegment,
        position: LogPosition,
    ) -> Result<Option<RecordGroup>, LogError> {
        let bytes = live.segment.read_all().await?;
        let bytes = bytes.slice(..live.end as usize);
        let DecodedHeader::Valid(header) = SegmentHeader::decode(&bytes) else {
            return Err(self.damaged(live, 0));
        };
        let mut at = LogPosition {
            last: Seq(header.first.0 - 1),
            crc: header.previous,
        };
        let mut offset = HEADER_BYTES as usize;
        let mut from = (at == position).then_some(offset);
        while offset < bytes.len() {
            let Some(record) = decode_record(&bytes[offset..], self.seed) else {
                // Recovery has not read a segment below the index's last batch: it may end anywhere.
                if live.end == live.segment.bytes {
                    break;
                }
                return Err(self.damaged(live, offset));
            };
            if let Some(from) = from
                && offset > from
                && offset + record.len - from > CATCH_UP_BYTES
            {
                break;
            }
            offset += record.len;
            at = position_after(&record);
            if at == position {
                from = Some(offset);
            }
        }
        let records = from.map(|from| bytes.slice(from..offset));
        let records = records.filter(|records| !records.is_empty());
        let owner = self.state.lock().epoch;
        Ok(records.map(|records| RecordGroup {
            owner,
            after: position,
            upto: at,
            bytes: Bytes::copy_from_slice(&records),
        }))
    }

    pub(super) fn damaged(&self, live: &LiveSegment, offset: usize) -> LogError {
        LogError::Damage {
            segment: live.segment.name.clone(),
            offset: offset as u64,
            seq: live.first,
            durable: self.durable(),
        }
    }
}
