//! Reads the recovered batches in their order.

use super::error::LogError;
use super::format::{LogRecordKind, RECORD_HEADER_LEN, StoreId, decode_record};
use super::limits::HEADER_BYTES;
use super::segment::LiveSegment;
use bytes::Bytes;
use gupfs_proto::{OwnerEpoch, Seq};
use std::collections::VecDeque;

/// One batch as its owner staged it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedBatch {
    pub seq: Seq,
    pub shard: u16,
    pub epoch: OwnerEpoch,
    pub body: Bytes,
}

/// Iterates over the batches after `after`; holds one segment in memory at a time.
pub struct LogReplay {
    seed: u32,
    after: Seq,
    segments: VecDeque<LiveSegment>,
    /// Of the first segment in the list: its bytes, and the offset up to which they are read.
    reading: Option<(Bytes, usize)>,
}

impl LogReplay {
    pub(super) fn new(store: StoreId, live: &[LiveSegment], after: Seq) -> LogReplay {
        // The last segment that begins at or before the next batch, and those after it.
        let skip = live
            .iter()
            .rposition(|live| live.first.0 <= after.0 + 1)
            .unwrap_or(0);
        LogReplay {
            seed: store.seed(),
            after,
            segments: live[skip.min(live.len())..].iter().cloned().collect(),
            reading: None,
        }
    }

    /// # Errors
    /// `Damage` if a record does not verify that recovery had verified; `Disk` if the disk failed.
    pub async fn next(&mut self) -> Result<Option<LoggedBatch>, LogError> {
        while let Some(live) = self.segments.front() {
            let (bytes, at) = match self.reading.take() {
                Some(reading) => reading,
                None => {
                    let all = live.segment.read_all().await?;
                    (all.slice(..live.end as usize), HEADER_BYTES as usize)
                }
            };
            if at == bytes.len() {
                self.segments.pop_front();
                continue;
            }
            let Some(record) = decode_record(&bytes[at..], self.seed) else {
                // Recovery has verified this record, so its bytes have changed on disk since.
                return Err(LogError::Damage {
                    segment: live.segment.name.clone(),
                    offset: at as u64,
                    seq: self.after,
                    durable: self.after,
                });
            };
            let body =
                bytes.slice(at + RECORD_HEADER_LEN..at + RECORD_HEADER_LEN + record.body_len);
            self.reading = Some((bytes, at + record.len));
            if record.kind == LogRecordKind::Batch && record.seq > self.after {
                self.after = record.seq;
                return Ok(Some(LoggedBatch {
                    seq: record.seq,
                    shard: record.shard,
                    epoch: record.epoch,
                    body,
                }));
            }
        }
        Ok(None)
    }
}
