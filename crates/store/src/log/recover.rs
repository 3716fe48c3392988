//! Opening what a crash left: where the log ends, and whether that is an end or damage.
//!
//! The sectors of unsynced records survive a power cut in any subset, so a record that does not verify may well be
//! followed by some that do: they were as little durable as it was. What tells a tear from damage is evidence that the
//! record had been durable: every record says what was durable when it was staged, the log writes a mark when it falls
//! idle, and the index holds nothing that was not durable. If any of them covers the missing record, it is damage.

use super::LogOptions;
use super::error::LogError;
use super::format::{
    ALIGN, HeaderFound, Kind, RecordHeader, SegmentHeader, StoreId, decode_record, segment_number,
};
use super::limits::HEADER_BYTES;
use super::segment::Segment;
use bytes::Bytes;
use gupfs_platform::Disk;
use gupfs_proto::{OwnerEpoch, Seq};
use std::sync::Arc;

/// A segment with records (or the place for the first ones).
#[derive(Clone)]
pub struct Live {
    pub segment: Arc<Segment>,
    /// The first batch in it, or the next one if it has none.
    pub first: Seq,
    /// Where its records end.
    pub end: u64,
}

/// What a power cut took: never durable, so nobody was promised it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    pub segment: String,
    pub offset: u64,
    /// The first batch that was lost.
    pub seq: Seq,
    /// Whole records behind the tear that went with it.
    pub dropped: u64,
}

pub struct Found {
    pub live: Vec<Live>,
    pub spares: Vec<Arc<Segment>>,
    pub last: Seq,
    /// Checksum of the last record.
    pub chain: u32,
    pub epoch: OwnerEpoch,
    pub torn: Option<Torn>,
    /// Its owner stopped in order.
    pub stopped: bool,
}

/// The state of the walk along the chain.
struct Walk {
    seed: u32,
    next: Seq,
    chain: u32,
    epoch: OwnerEpoch,
    /// The highest batch that some record says was durable.
    durable: Seq,
    /// The last record says that its owner stopped in order.
    stopped: bool,
}

/// None if there is no log yet. `applied` is the last batch the index knows.
pub async fn recover(
    disk: &Disk,
    options: &LogOptions,
    applied: Seq,
) -> Result<Option<Found>, LogError> {
    let store = options.store;
    // A name that is there may not survive a power cut yet: whoever made it died before it was durable.
    disk.sync_dir(".").await?;
    let mut files = headers(disk, store).await?;
    let Some(first) = files.iter().find_map(|(_, header)| *header) else {
        return no_log(disk, files, applied, options.begin_behind_index).await;
    };
    // The walk begins in the last segment that begins at or before the next batch. Those below it are not looked at:
    // they may be half emptied for their next use. They stay until the index, which may not be durable as far as it
    // got, is synced beyond them.
    let needed = |(_, header): &(Segment, Option<SegmentHeader>)| {
        header.is_some_and(|header| header.first.0 <= applied.0 + 1)
    };
    let Some(start) = files.iter().rposition(needed) else {
        return Err(LogError::Gap {
            first: first.first,
            applied,
        });
    };
    let mut live: Vec<Live> = Vec::new();
    for (segment, header) in files.drain(..start) {
        match header {
            Some(header) => live.push(Live {
                first: header.first,
                end: segment.bytes,
                segment: Arc::new(segment),
            }),
            None => segment.remove(disk).await?,
        }
    }
    let below = live.len();
    let first = files[0].1.expect("found by its header");
    let mut walk = Walk {
        seed: store.seed(),
        next: first.first,
        chain: first.previous,
        epoch: OwnerEpoch(0),
        durable: applied,
        stopped: false,
    };
    let mut rest = Bytes::new();
    let mut left = files.into_iter().peekable();
    while let Some((segment, header)) = left.next_if(|(segment, header)| {
        header.is_some_and(|header| walk.continues(&header, live[below..].last(), segment.number))
    }) {
        let bytes = segment.read_all().await?;
        let end = walk.along(&bytes);
        rest = bytes.slice(end..);
        live.push(Live {
            first: header.expect("looked at above").first,
            segment: Arc::new(segment),
            end: end as u64,
        });
    }
    let end = live.last().expect("the first continues itself").clone();
    let mut dropped = walk.search(&rest);
    let (mut touched, mut untouched) = (Vec::new(), Vec::new());
    for (segment, header) in left {
        if header.is_none()
            && segment.is_untouched().await?
            && segment.read_header().await? == [0; 512]
        {
            untouched.push(segment);
        } else {
            dropped += walk.search(&segment.read_all().await?);
            touched.push(segment);
        }
    }
    if walk.durable >= walk.next {
        return Err(LogError::Damage {
            segment: end.segment.name.clone(),
            offset: end.end,
            seq: walk.next,
            durable: walk.durable,
        });
    }
    let torn = !touched.is_empty() || rest.iter().any(|byte| *byte != 0);
    erase(disk, &end, &rest, &touched).await?;
    // Spares of an owner that was killed are made anew: one whose sync had failed looks the same as any other.
    let keep = (walk.stopped && !torn).then_some(options.segment_bytes);
    let spares = keep_spares(disk, end.segment.number, untouched, keep).await?;
    harden(&live[below..], walk.durable, walk.seed).await?;
    Ok(Some(Found {
        last: Seq(walk.next.0 - 1),
        chain: walk.chain,
        epoch: walk.epoch,
        torn: torn.then(|| Torn {
            segment: end.segment.name.clone(),
            offset: end.end,
            seq: walk.next,
            dropped,
        }),
        stopped: walk.stopped && !torn,
        live,
        spares,
    }))
}

/// All segments by number, with their headers where they have a valid one.
async fn headers(
    disk: &Disk,
    store: StoreId,
) -> Result<Vec<(Segment, Option<SegmentHeader>)>, LogError> {
    let mut numbers: Vec<u64> = (disk.list(".").await?.iter())
        .filter_map(|entry| segment_number(&entry.name))
        .collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for number in numbers {
        let segment = Segment::open(disk, number).await?;
        let header = match SegmentHeader::decode(&segment.read_header().await?) {
            HeaderFound::Valid(header) if header.store != store => {
                return Err(LogError::Foreign {
                    segment: segment.name,
                });
            }
            HeaderFound::Valid(header) => Some(header),
            HeaderFound::Version(version) => {
                return Err(LogError::Version {
                    segment: segment.name,
                    version,
                });
            }
            HeaderFound::Blank | HeaderFound::Bad => None,
        };
        found.push((segment, header));
    }
    Ok(found)
}

/// No segment has a header: there is no log yet, or it was destroyed.
async fn no_log(
    disk: &Disk,
    files: Vec<(Segment, Option<SegmentHeader>)>,
    applied: Seq,
    begin_behind: bool,
) -> Result<Option<Found>, LogError> {
    if begin_behind && files.is_empty() {
        return Ok(None);
    }
    for (segment, _) in &files {
        let untouched = segment.is_untouched().await?;
        if applied > Seq(0) || !untouched {
            return Err(LogError::Damage {
                segment: segment.name.clone(),
                offset: 0,
                seq: Seq(applied.0 + 1),
                durable: applied,
            });
        }
    }
    if applied > Seq(0) {
        return Err(LogError::Missing { applied });
    }
    for (segment, _) in &files {
        segment.remove(disk).await?;
    }
    Ok(None)
}

impl Walk {
    fn continues(&self, header: &SegmentHeader, before: Option<&Live>, number: u64) -> bool {
        header.number == number
            && before.is_none_or(|before| before.segment.number + 1 == number)
            && header.first == self.next
            && header.previous == self.chain
    }

    /// Walks along one segment's records; returns where they end.
    fn along(&mut self, bytes: &[u8]) -> usize {
        let mut at = HEADER_BYTES as usize;
        while let Some(record) = bytes
            .get(at..)
            .and_then(|rest| decode_record(rest, self.seed))
        {
            if !self.belongs(&record) {
                break;
            }
            if record.kind == Kind::Batch {
                self.next.0 += 1;
            }
            self.chain = record.crc;
            self.epoch = record.epoch;
            self.stopped = record.stopped;
            self.durable = self.durable.max(record.durable);
            at += record.len;
        }
        at.min(bytes.len())
    }

    /// A record of the right place that was written on an earlier, torn end of the log fails here: it is chained to
    /// another record, or of an older owner.
    fn belongs(&self, record: &RecordHeader) -> bool {
        let seq = match record.kind {
            Kind::Batch => self.next,
            Kind::Mark => Seq(self.next.0 - 1),
        };
        record.previous == self.chain && record.seq == seq && record.epoch >= self.epoch
    }

    /// Looks for whole records in what does not continue the chain; returns how many there are.
    fn search(&mut self, bytes: &[u8]) -> u64 {
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

/// Makes durable what was read and is not known to be: after a kill without a power cut it may lie in the page cache
/// alone, and if a sync had failed before, the cache calls it clean and no sync would ever write it. So everything
/// behind the last batch known to be durable is written again.
async fn harden(live: &[Live], durable: Seq, seed: u32) -> Result<(), LogError> {
    let from = (live.iter())
        .rposition(|live| live.first <= durable)
        .unwrap_or(0);
    for live in &live[from..] {
        let bytes = live.segment.read_all().await?.slice(..live.end as usize);
        // If it holds no such batch, not even its header is known to be durable.
        let mut known = 0;
        let mut at = HEADER_BYTES as usize;
        while let Some(record) = decode_record(&bytes[at..], seed) {
            at += record.len;
            if record.kind == Kind::Batch && record.seq <= durable {
                known = at;
            }
        }
        (live.segment.file)
            .write_at(&bytes[known..], known as u64)
            .await?;
        live.segment.file.sync_data().await?;
    }
    Ok(())
}

/// Zeros what lies behind the end, so that no later crash uncovers it. Dying in here is harmless: the next opening
/// comes to the same end.
async fn erase(disk: &Disk, end: &Live, rest: &[u8], touched: &[Segment]) -> Result<(), LogError> {
    if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
        end.segment.file.zero_fill(end.end, last as u64 + 1).await?;
        end.segment.file.sync_data().await?;
    }
    for segment in touched {
        segment.remove(disk).await?;
    }
    Ok(())
}

/// Untouched segments of the right size behind the last one stay as spares; the numbers have no gaps.
async fn keep_spares(
    disk: &Disk,
    last: u64,
    untouched: Vec<Segment>,
    size: Option<u64>,
) -> Result<Vec<Arc<Segment>>, LogError> {
    let mut spares = Vec::new();
    for segment in untouched {
        let in_row = segment.number == last + 1 + spares.len() as u64;
        if in_row
            && let Some(size) = size
            && segment.is_whole(size).await?
        {
            spares.push(Arc::new(segment));
        } else {
            segment.remove(disk).await?;
        }
    }
    Ok(spares)
}
