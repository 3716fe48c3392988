//! Reads a damaged log without changing it: which batches it has, and for which of them all earlier batches are there
//! too.
//!
//! A record verifies by itself: its checksum begins with the store's seed and covers its seq. So damage destroys only
//! the records that it hits; the survey finds those after it. A batch is *proven* if every batch before it is there.
//! The survey counts the other batches and does not return them, since their changes may depend on a lost batch.

use super::LogError;
use super::format::{
    ALIGN, DecodedHeader, HEADER_LEN, LogRecordKind, RECORD_HEADER_LEN, RecordHeader,
    SegmentHeader, StoreId, decode_record, segment_number,
};
use super::limits::HEADER_BYTES;
use super::replay::LoggedBatch;
use super::segment::Segment;
use bytes::Bytes;
use gupfs_platform::Disk;
use gupfs_proto::{OwnerEpoch, Seq};
use std::collections::VecDeque;

/// Read size where a segment cannot be read as a whole: an unreadable sector then costs this many bytes.
const READ_STEP: usize = 4_096;

/// Findings of a survey up to its current position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSurveyFindings {
    /// The first readable batch.
    pub first: Option<Seq>,
    /// The last proven batch, counted from the one after which the survey began.
    pub proven: Seq,
    /// The highest batch that any record holds or states to be durable.
    pub highest: Seq,
    /// The highest owner epoch that any record or header names.
    pub epoch: OwnerEpoch,
    /// Readable batches that are not proven, because an earlier batch is lost.
    pub unproven: u64,
    /// Positions at which no record verifies: segment and offset.
    pub damage: Vec<(String, u64)>,
}

impl LogSurveyFindings {
    /// The range of batches that existed and are not proven: the first and the last.
    pub fn lost(&self) -> Option<(Seq, Seq)> {
        (self.highest > self.proven).then(|| (Seq(self.proven.0 + 1), self.highest))
    }
}

/// Iterates over the proven batches in their order; holds one segment in memory at a time.
pub struct LogSurvey {
    seed: u32,
    /// Each with the owner that its header names.
    segments: VecDeque<(Segment, OwnerEpoch)>,
    reading: Option<SegmentReader>,
    /// Checksum of the previous record; None after damage.
    last_crc: Option<u32>,
    /// Begin with the first readable batch, although batches before it are missing.
    from_first: bool,
    gap_found: bool,
    findings: LogSurveyFindings,
}

/// The bytes of a segment, with `0xff` where the disk cannot read: zeros would look like the end of the log.
async fn read_readable(segment: &Segment) -> Bytes {
    if let Ok(bytes) = segment.read_all().await {
        return bytes;
    }
    let mut bytes = vec![u8::MAX; segment.bytes as usize];
    for at in (0..bytes.len()).step_by(READ_STEP) {
        let end = bytes.len().min(at + READ_STEP);
        let _ = segment.read_part(&mut bytes[at..end], at as u64).await;
    }
    bytes.into()
}

struct SegmentReader {
    name: String,
    bytes: Bytes,
    at: usize,
}

impl LogSurvey {
    /// Begins a survey of the log in `disk`. The caller already has the batches up to `after`.
    ///
    /// # Errors
    /// `UnknownVersion` for a segment that a newer program wrote, `OtherStore` for a segment of another store. Damage
    /// and unreadable sectors are no errors; the survey reports them.
    pub async fn begin(disk: &Disk, store: StoreId, after: Seq) -> Result<LogSurvey, LogError> {
        LogSurvey::open(disk, store, Some(after)).await
    }

    /// Begins a survey of a log whose beginning is lost, for a caller that has no better source. Each batch holds
    /// complete records, so each value in it was current at some time.
    ///
    /// # Errors
    /// As `begin`.
    pub async fn begin_at_first(disk: &Disk, store: StoreId) -> Result<LogSurvey, LogError> {
        LogSurvey::open(disk, store, None).await
    }

    async fn open(disk: &Disk, store: StoreId, after: Option<Seq>) -> Result<LogSurvey, LogError> {
        let mut numbers: Vec<u64> = (disk.list(".").await?.iter())
            .filter_map(|entry| segment_number(&entry.name))
            .collect();
        numbers.sort_unstable();
        let mut segments = VecDeque::new();
        for number in numbers {
            let segment = Segment::open_to_read(disk, number).await?;
            // Unreadable bytes of the segment are reported when `next` reads its records.
            let header = segment.read_header().await.unwrap_or([0; HEADER_LEN]);
            let owner = match SegmentHeader::decode(&header) {
                DecodedHeader::UnknownVersion(version) => {
                    return Err(LogError::UnknownVersion {
                        segment: segment.name,
                        version,
                    });
                }
                DecodedHeader::Valid(header) if header.store != store => {
                    return Err(LogError::OtherStore {
                        segment: segment.name,
                    });
                }
                DecodedHeader::Valid(header) => header.epoch,
                DecodedHeader::Blank | DecodedHeader::Invalid => OwnerEpoch(0),
            };
            segments.push_back((segment, owner));
        }
        Ok(LogSurvey {
            seed: store.seed(),
            segments,
            reading: None,
            last_crc: None,
            from_first: after.is_none(),
            gap_found: false,
            findings: LogSurveyFindings {
                proven: after.unwrap_or_default(),
                highest: after.unwrap_or_default(),
                ..LogSurveyFindings::default()
            },
        })
    }

    /// The next proven batch after those that the caller has. Once it has returned None, `findings` covers the whole
    /// log.
    ///
    /// # Errors
    /// `Disk` if the directory cannot be read. Damage and unreadable sectors are no errors.
    pub async fn next(&mut self) -> Result<Option<LoggedBatch>, LogError> {
        loop {
            let mut reading = match self.reading.take() {
                Some(reading) => reading,
                None => match self.segments.pop_front() {
                    None => return Ok(None),
                    Some((segment, owner)) => {
                        self.findings.epoch = self.findings.epoch.max(owner);
                        SegmentReader {
                            bytes: read_readable(&segment).await,
                            name: segment.name,
                            at: HEADER_BYTES as usize,
                        }
                    }
                },
            };
            if let Some(header) = self.next_record(&mut reading) {
                let at = reading.at;
                reading.at += header.len;
                let is_next = self.count_record(&header);
                let body = is_next.then(|| {
                    reading
                        .bytes
                        .slice(at + RECORD_HEADER_LEN..at + RECORD_HEADER_LEN + header.body_len)
                });
                self.reading = Some(reading);
                if let Some(body) = body {
                    return Ok(Some(LoggedBatch {
                        seq: header.seq,
                        shard: header.shard,
                        epoch: header.epoch,
                        body,
                    }));
                }
            }
        }
    }

    pub fn findings(&self) -> &LogSurveyFindings {
        &self.findings
    }

    /// The next record at or after `reading.at`; None at the end of the segment. Zeros are no damage: a log ends in
    /// them.
    fn next_record(&mut self, reading: &mut SegmentReader) -> Option<RecordHeader> {
        let mut damaged = false;
        loop {
            let rest = reading.bytes.get(reading.at..).unwrap_or_default();
            if let Some(header) = decode_record(rest, self.seed) {
                return Some(header);
            }
            let written = rest.iter().position(|byte| *byte != 0)?;
            if !damaged {
                damaged = true;
                self.last_crc = None;
                let position = (reading.name.clone(), reading.at as u64);
                self.findings.damage.push(position);
            }
            // Records begin at multiples of `ALIGN`, and no record begins with only zeros.
            reading.at += (written / ALIGN * ALIGN).max(ALIGN);
        }
    }

    /// Counts the record; returns whether it is the next proven batch.
    fn count_record(&mut self, record: &RecordHeader) -> bool {
        let linked = self
            .last_crc
            .is_none_or(|last_crc| last_crc == record.previous);
        self.last_crc = Some(record.crc);
        self.findings.highest = self.findings.highest.max(record.seq).max(record.durable);
        let is_older = record.epoch < self.findings.epoch;
        self.findings.epoch = self.findings.epoch.max(record.epoch);
        if record.kind == LogRecordKind::Watermark {
            return false;
        }
        if self.findings.first.is_none() && self.from_first {
            self.findings.proven = Seq(record.seq.0.saturating_sub(1));
        }
        self.findings.first.get_or_insert(record.seq);
        let next = Seq(self.findings.proven.0 + 1);
        if self.gap_found || record.seq > next || (record.seq == next && (!linked || is_older)) {
            self.gap_found = true;
            self.findings.unproven += 1;
            return false;
        }
        if record.seq < next {
            return false;
        }
        self.findings.proven = next;
        true
    }
}
