//! The scan along the chain of records: which segments continue it, and where it ends.

use super::error::LogError;
use super::format::{ALIGN, LogRecordKind, RecordHeader, SegmentHeader, StoreId, decode_record};
use super::limits::HEADER_BYTES;
use super::position::{LogPosition, position_after};
use super::segment::{FoundSegment, LiveSegment, Segment};
use bytes::Bytes;
use gupfs_proto::{OwnerEpoch, Seq};
use std::iter::Peekable;
use std::sync::Arc;

/// The segments after the end of the chain.
pub struct AfterEnd {
    pub used: Vec<Segment>,
    pub unused: Vec<Segment>,
    /// Complete records in them.
    pub dropped: u64,
}

/// State of the scan along the chain of records.
pub struct ChainScan {
    pub seed: u32,
    pub next: Seq,
    pub last_crc: u32,
    pub epoch: OwnerEpoch,
    /// The highest batch that any record states to be durable.
    pub durable: Seq,
    /// The last record is the watermark of a clean stop.
    pub clean_stop: bool,
    /// Where the chain ends although records may continue it.
    end_at: Option<LogPosition>,
    /// The positions after the records scanned.
    tail: Vec<LogPosition>,
}

impl ChainScan {
    /// A scan that begins in the segment with the header `first`; the index has the batches up to `applied`.
    pub fn new(
        store: StoreId,
        first: &SegmentHeader,
        applied: Seq,
        end_at: Option<LogPosition>,
    ) -> ChainScan {
        ChainScan {
            seed: store.seed(),
            next: first.first,
            last_crc: first.previous,
            epoch: first.epoch,
            durable: applied,
            clean_stop: false,
            end_at,
            tail: vec![LogPosition {
                last: Seq(first.first.0 - 1),
                crc: first.previous,
            }],
        }
    }

    /// The end of the chain as far as it was scanned.
    fn end(&self) -> LogPosition {
        LogPosition {
            last: Seq(self.next.0 - 1),
            crc: self.last_crc,
        }
    }

    /// Whether the scan has come to where the chain is to end.
    pub fn has_ended(&self) -> bool {
        self.end_at == Some(self.end())
    }

    /// The positions scanned from the last batch on that is known to be durable.
    pub fn take_tail(&mut self) -> Vec<LogPosition> {
        let durable = self.durable;
        self.tail.retain(|position| position.last >= durable);
        std::mem::take(&mut self.tail)
    }

    /// Scans the segments that continue the chain. Returns them, and the bytes of the last one after the chain's end.
    pub async fn scan_segments(
        &mut self,
        left: &mut Peekable<impl Iterator<Item = FoundSegment>>,
    ) -> Result<(Vec<LiveSegment>, Bytes), LogError> {
        let mut scanned: Vec<LiveSegment> = Vec::new();
        let mut rest = Bytes::new();
        while let Some((segment, header)) = left.next_if(|(segment, header)| {
            header.is_some_and(|header| {
                self.segment_continues(&header, scanned.last(), segment.number)
            })
        }) {
            let bytes = segment.read_all().await?;
            let end = self.scan_segment(&bytes);
            rest = bytes.slice(end..);
            scanned.push(LiveSegment {
                first: header.expect("looked at above").first,
                segment: Arc::new(segment),
                end: end as u64,
            });
        }
        Ok((scanned, rest))
    }

    /// Sorts the segments after the chain's end: spares that were never used, and others.
    pub async fn sort_after_end(
        &mut self,
        left: impl Iterator<Item = FoundSegment>,
    ) -> Result<AfterEnd, LogError> {
        let mut after = AfterEnd {
            used: Vec::new(),
            unused: Vec::new(),
            dropped: 0,
        };
        for (segment, header) in left {
            if header.is_none()
                && segment.is_unused().await?
                && segment.read_header().await? == [0; 512]
            {
                after.unused.push(segment);
            } else {
                after.dropped += self.count_records(&segment.read_all().await?);
                after.used.push(segment);
            }
        }
        Ok(after)
    }

    /// Reads the owner from the records of the segment below the scan's first one.
    pub fn read_owner_below(&mut self, bytes: &[u8]) {
        let mut at = HEADER_BYTES as usize;
        while at < bytes.len() {
            match decode_record(&bytes[at..], self.seed) {
                Some(record) => {
                    self.epoch = self.epoch.max(record.epoch);
                    at += record.len;
                }
                None => at += ALIGN,
            }
        }
    }

    fn segment_continues(
        &self,
        header: &SegmentHeader,
        before: Option<&LiveSegment>,
        number: u64,
    ) -> bool {
        (before.is_none() || !self.has_ended())
            && header.number == number
            && before.is_none_or(|before| before.segment.number + 1 == number)
            && header.first == self.next
            && header.previous == self.last_crc
    }

    /// Follows the chain through one segment's records; returns the offset at which they end.
    fn scan_segment(&mut self, bytes: &[u8]) -> usize {
        let mut at = HEADER_BYTES as usize;
        while let Some(record) = bytes
            .get(at..)
            .and_then(|rest| decode_record(rest, self.seed))
        {
            if self.has_ended() || !self.continues_chain(&record) {
                break;
            }
            if record.kind == LogRecordKind::Batch {
                self.next.0 += 1;
            }
            self.last_crc = record.crc;
            self.epoch = record.epoch;
            self.clean_stop = record.clean_stop;
            self.durable = self.durable.max(record.durable);
            self.tail.push(position_after(&record));
            at += record.len;
        }
        at.min(bytes.len())
    }

    /// Whether the record continues the chain. A record that was written at this position on an earlier, torn end of
    /// the log does not: it is chained to another record, or has an older owner.
    fn continues_chain(&self, record: &RecordHeader) -> bool {
        let seq = match record.kind {
            LogRecordKind::Batch => self.next,
            LogRecordKind::Watermark => Seq(self.next.0 - 1),
        };
        record.previous == self.last_crc && record.seq == seq && record.epoch >= self.epoch
    }

    /// Searches bytes that do not continue the chain for complete records; returns their number.
    pub fn count_records(&mut self, bytes: &[u8]) -> u64 {
        let mut found = 0;
        let mut at = 0;
        while at < bytes.len() {
            match decode_record(&bytes[at..], self.seed) {
                Some(record) => {
                    found += 1;
                    self.durable = self.durable.max(record.durable);
                    at += record.len;
                }
                None => at += ALIGN,
            }
        }
        found
    }
}
