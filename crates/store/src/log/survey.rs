//! Reading a damaged log without changing it: which batches are there, and which of them nothing is missing before.
//!
//! A record verifies by itself: its checksum begins with the store's seed and covers its seq. So damage costs the records it hits, and
//! those behind it are found again. A batch is *proven* if every batch before it is: batches whose predecessor is lost are
//! counted and not given out, since what they change may rest on it.

use super::LogError;
use super::format::{
    ALIGN, HEADER, HeaderFound, Kind, RECORD, RecordHeader, SegmentHeader, StoreId, decode_record,
    segment_number,
};
use super::limits::HEADER_BYTES;
use super::replay::Record;
use super::segment::Segment;
use bytes::Bytes;
use gupfs_platform::Disk;
use gupfs_proto::{OwnerEpoch, Seq};
use std::collections::VecDeque;

/// Read in one step where a segment cannot be read in one go: what a disk fails to read is lost by so much.
const PIECE: usize = 4_096;

/// What was found up to where the survey is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surveyed {
    /// The first batch that can be read.
    pub first: Option<Seq>,
    /// The last batch that nothing is missing before, from the one that the survey began behind.
    pub proven: Seq,
    /// The highest batch that any record is, or says was durable.
    pub highest: Seq,
    /// The highest owner that any record names.
    pub epoch: OwnerEpoch,
    /// Batches that can be read although some before them are lost.
    pub unproven: u64,
    /// Where bytes are no records: segment and offset.
    pub damage: Vec<(String, u64)>,
}

impl Surveyed {
    /// Batches that existed and cannot be had: the first and the last.
    pub fn lost(&self) -> Option<(Seq, Seq)> {
        (self.highest > self.proven).then(|| (Seq(self.proven.0 + 1), self.highest))
    }
}

/// Gives out proven batches in their order; one segment in memory at a time.
pub struct Survey {
    seed: u32,
    segments: VecDeque<Segment>,
    reading: Option<Reading>,
    /// Checksum of the record before, unless there is damage between.
    chain: Option<u32>,
    /// Begin with whatever is there first, although batches before it are missing.
    from_first: bool,
    ended: bool,
    found: Surveyed,
}

/// A segment, with ones where the disk cannot read: zeros might pass for its end.
async fn read_what_can_be(segment: &Segment) -> Bytes {
    if let Ok(bytes) = segment.read_all().await {
        return bytes;
    }
    let mut bytes = vec![u8::MAX; segment.bytes as usize];
    for at in (0..bytes.len()).step_by(PIECE) {
        let end = bytes.len().min(at + PIECE);
        let _ = segment.read_piece(&mut bytes[at..end], at as u64).await;
    }
    bytes.into()
}

struct Reading {
    name: String,
    bytes: Bytes,
    at: usize,
}

impl Survey {
    /// Of the log in `disk`, of which the caller has the batches up to `after`.
    ///
    /// # Errors
    /// `Version` for a segment that a newer program wrote, `Foreign` for another store's. Damage is none, nor is what the disk
    /// cannot read.
    pub async fn begin(disk: &Disk, store: StoreId, after: Seq) -> Result<Survey, LogError> {
        Survey::open(disk, store, Some(after)).await
    }

    /// Of a log whose beginning is gone, for whoever has nothing better: each batch has its records whole, so what they
    /// say was so once.
    pub async fn begin_with_first(disk: &Disk, store: StoreId) -> Result<Survey, LogError> {
        Survey::open(disk, store, None).await
    }

    async fn open(disk: &Disk, store: StoreId, after: Option<Seq>) -> Result<Survey, LogError> {
        let mut numbers: Vec<u64> = (disk.list(".").await?.iter())
            .filter_map(|entry| segment_number(&entry.name))
            .collect();
        numbers.sort_unstable();
        let mut segments = VecDeque::new();
        for number in numbers {
            let segment = Segment::open_to_read(disk, number).await?;
            // What cannot be read is found out when the records are.
            let header = segment.read_header().await.unwrap_or([0; HEADER]);
            match SegmentHeader::decode(&header) {
                HeaderFound::Version(version) => {
                    return Err(LogError::Version {
                        segment: segment.name,
                        version,
                    });
                }
                HeaderFound::Valid(header) if header.store != store => {
                    return Err(LogError::Foreign {
                        segment: segment.name,
                    });
                }
                HeaderFound::Valid(_) | HeaderFound::Blank | HeaderFound::Bad => {}
            }
            segments.push_back(segment);
        }
        Ok(Survey {
            seed: store.seed(),
            segments,
            reading: None,
            chain: None,
            from_first: after.is_none(),
            ended: false,
            found: Surveyed {
                proven: after.unwrap_or_default(),
                highest: after.unwrap_or_default(),
                ..Surveyed::default()
            },
        })
    }

    /// The next proven batch behind those the caller has. After None, `found` is of the whole log.
    pub async fn next(&mut self) -> Result<Option<Record>, LogError> {
        loop {
            let mut reading = match self.reading.take() {
                Some(reading) => reading,
                None => match self.segments.pop_front() {
                    None => return Ok(None),
                    Some(segment) => Reading {
                        bytes: read_what_can_be(&segment).await,
                        name: segment.name,
                        at: HEADER_BYTES as usize,
                    },
                },
            };
            if let Some(header) = self.next_record(&mut reading) {
                let at = reading.at;
                reading.at += header.len;
                let is_next = self.note(&header);
                let body = is_next.then(|| {
                    reading
                        .bytes
                        .slice(at + RECORD..at + RECORD + header.body_len)
                });
                self.reading = Some(reading);
                if let Some(body) = body {
                    return Ok(Some(Record {
                        seq: header.seq,
                        shard: header.shard,
                        epoch: header.epoch,
                        body,
                    }));
                }
            }
        }
    }

    pub fn found(&self) -> &Surveyed {
        &self.found
    }

    /// The record that begins at `reading.at` or behind it; None at the segment's end. Zeros are no damage: a log ends in them.
    fn next_record(&mut self, reading: &mut Reading) -> Option<RecordHeader> {
        let mut damaged = false;
        loop {
            let rest = reading.bytes.get(reading.at..).unwrap_or_default();
            if let Some(header) = decode_record(rest, self.seed) {
                return Some(header);
            }
            let written = rest.iter().position(|byte| *byte != 0)?;
            if !damaged {
                damaged = true;
                self.chain = None;
                let place = (reading.name.clone(), reading.at as u64);
                self.found.damage.push(place);
            }
            // Records begin at multiples of `ALIGN`, and none begins with zeros alone.
            reading.at += (written / ALIGN * ALIGN).max(ALIGN);
        }
    }

    /// Whether it is the next proven batch.
    fn note(&mut self, record: &RecordHeader) -> bool {
        let linked = self.chain.is_none_or(|chain| chain == record.previous);
        self.chain = Some(record.crc);
        self.found.highest = self.found.highest.max(record.seq).max(record.durable);
        let is_older = record.epoch < self.found.epoch;
        self.found.epoch = self.found.epoch.max(record.epoch);
        if record.kind == Kind::Mark {
            return false;
        }
        if self.found.first.is_none() && self.from_first {
            self.found.proven = Seq(record.seq.0.saturating_sub(1));
        }
        self.found.first.get_or_insert(record.seq);
        let next = Seq(self.found.proven.0 + 1);
        if self.ended || record.seq > next || (record.seq == next && (!linked || is_older)) {
            self.ended = true;
            self.found.unproven += 1;
            return false;
        }
        if record.seq < next {
            return false;
        }
        self.found.proven = next;
        true
    }
}
