//! Reading the recovered batches again, in their order.

use super::error::LogError;
use super::format::{Kind, RECORD, StoreId, decode_record};
use super::limits::HEADER_BYTES;
use super::recover::Live;
use bytes::Bytes;
use gupfs_proto::{OwnerEpoch, Seq};
use std::collections::VecDeque;

/// One batch as it was staged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub seq: Seq,
    pub shard: u16,
    pub epoch: OwnerEpoch,
    pub body: Bytes,
}

/// Everything behind `after`, one segment in memory at a time.
pub struct Replay {
    seed: u32,
    after: Seq,
    segments: VecDeque<Live>,
    /// Of the first segment in the list: its bytes and how far they are read.
    reading: Option<(Bytes, usize)>,
}

impl Replay {
    pub(super) fn new(store: StoreId, live: &[Live], after: Seq) -> Replay {
        // The last segment that begins at or before the next batch, and those behind it.
        let skip = live
            .iter()
            .rposition(|live| live.first.0 <= after.0 + 1)
            .unwrap_or(0);
        Replay {
            seed: store.seed(),
            after,
            segments: live[skip.min(live.len())..].iter().cloned().collect(),
            reading: None,
        }
    }

    pub async fn next(&mut self) -> Result<Option<Record>, LogError> {
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
                // It verified a moment ago.
                return Err(LogError::Damage {
                    segment: live.segment.name.clone(),
                    offset: at as u64,
                    seq: self.after,
                    durable: self.after,
                });
            };
            let body = bytes.slice(at + RECORD..at + RECORD + record.body_len);
            self.reading = Some((bytes, at + record.len));
            if record.kind == Kind::Batch && record.seq > self.after {
                self.after = record.seq;
                return Ok(Some(Record {
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
