//! Recovery: where the log ends after a crash, and whether that end is a torn tail or damage.
//!
//! After a power loss any subset of the sectors of unsynced records is on disk. So a record that does not verify may be
//! followed by records that do, and those were no more durable than it was. A record is damaged, and not torn, if there
//! is evidence that it was durable: each record states the last batch that was durable when it was staged, the log
//! writes a watermark when it is idle, and the index has only durable batches. If one of them covers the missing
//! record, the log is damaged.

use super::LogOptions;
use super::chain_scan::{AfterEnd, ChainScan};
use super::error::LogError;
use super::format::{
    DecodedHeader, LogRecordKind, SegmentHeader, StoreId, decode_record, segment_number,
};
use super::limits::HEADER_BYTES;
use super::position::LogPosition;
use super::segment::{FoundSegment, LiveSegment, Segment};
use gupfs_platform::Disk;
use gupfs_proto::{OwnerEpoch, Seq};
use std::sync::Arc;

/// The end of the log that a power loss destroyed. It was never durable, so no caller was told that it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    pub segment: String,
    pub offset: u64,
    /// The first lost batch.
    pub seq: Seq,
    /// Complete records after the lost one, which are dropped with it.
    pub dropped: u64,
}

pub struct RecoveredLog {
    pub live: Vec<LiveSegment>,
    pub spares: Vec<Arc<Segment>>,
    pub last: Seq,
    /// Checksum of the last record.
    pub last_crc: u32,
    pub epoch: OwnerEpoch,
    pub torn_tail: Option<TornTail>,
    /// The previous owner stopped cleanly.
    pub clean_stop: bool,
    /// The highest batch that any record states to be durable, or the index has.
    pub durable: Seq,
    /// The positions after the records that were scanned, from that batch on.
    pub tail: Vec<LogPosition>,
}

/// Whose log it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LogKeeper {
    /// The records say what was durable here.
    Owner,
    /// They say what was durable at the copies that counted, and this one may not have been one of them.
    Copy,
}

/// Returns None if there is no log yet. `applied` is the last batch that the index has.
pub async fn recover(
    disk: &Disk,
    options: &LogOptions,
    applied: Seq,
    keeper: LogKeeper,
) -> Result<Option<RecoveredLog>, LogError> {
    let store = options.store;
    // A file name that is visible may still be lost by a power loss, if the process that created it died before it
    // synced the directory.
    disk.sync_dir(".").await?;
    let mut files = read_headers(disk, store).await?;
    let Some(first) = files.iter().find_map(|(_, header)| *header) else {
        return verify_absent(disk, files, applied, options.start_after_index).await;
    };
    // The scan begins in the last segment that begins at or before the next batch. It does not read the segments below,
    // which may be half zeroed for their next use. They stay until the index is synced beyond them: the index may have
    // applied more than it has made durable.
    // (The place where the log is to end may be before the end of such a segment.)
    let end_at = options.end_at.map_or(u64::MAX, |end| end.last.0.max(1));
    let from = end_at.min(applied.0 + 1);
    let needed = |(_, header): &FoundSegment| header.is_some_and(|header| header.first.0 <= from);
    let Some(start) = files.iter().rposition(needed) else {
        return Err(LogError::Gap {
            first: first.first,
            applied,
        });
    };
    let mut live = keep_below(disk, files.drain(..start)).await?;
    let first = files[0].1.expect("found by its header");
    let mut scan = ChainScan::new(store, &first, applied, options.end_at);
    if let Some(below) = live.last().filter(|_| first.epoch == OwnerEpoch(0)) {
        scan.read_owner_below(&below.segment.read_all().await?);
    }
    let mut left = files.into_iter().peekable();
    let (scanned, rest) = scan.scan_segments(&mut left).await?;
    let end = scanned.last().expect("the first continues itself").clone();
    if let Some(position) = options.end_at
        && !scan.has_ended()
    {
        return Err(LogError::NoSuchPosition(position));
    }
    let AfterEnd {
        used,
        unused,
        dropped,
    } = scan.sort_after_end(left).await?;
    let dropped = scan.count_records(&rest) + dropped;
    if scan.durable >= scan.next {
        return Err(LogError::Damage {
            segment: end.segment.name.clone(),
            offset: end.end,
            seq: scan.next,
            durable: scan.durable,
        });
    }
    let torn = !used.is_empty() || rest.iter().any(|byte| *byte != 0);
    erase_tail(disk, &end, &rest, &used).await?;
    // Spares of an owner that was killed are created anew, because a spare whose sync had failed looks the same as any
    // other.
    let keep = (scan.clean_stop && !torn).then_some(options.segment_bytes);
    let spares = keep_spares(disk, end.segment.number, unused, keep).await?;
    let synced = match keeper {
        LogKeeper::Owner => scan.durable,
        LogKeeper::Copy => applied,
    };
    rewrite_unsynced(&scanned, synced, scan.seed).await?;
    live.extend(scanned);
    Ok(Some(RecoveredLog {
        last: Seq(scan.next.0 - 1),
        last_crc: scan.last_crc,
        epoch: scan.epoch,
        torn_tail: torn.then(|| TornTail {
            segment: end.segment.name.clone(),
            offset: end.end,
            seq: scan.next,
            dropped,
        }),
        clean_stop: scan.clean_stop && !torn,
        durable: scan.durable,
        tail: scan.take_tail(),
        live,
        spares,
    }))
}

/// The segments below the start of the scan: those with a header stay, the others are removed.
async fn keep_below(
    disk: &Disk,
    found: impl Iterator<Item = FoundSegment>,
) -> Result<Vec<LiveSegment>, LogError> {
    let mut live = Vec::new();
    for (segment, header) in found {
        match header {
            Some(header) => live.push(LiveSegment {
                first: header.first,
                end: segment.bytes,
                segment: Arc::new(segment),
            }),
            None => segment.remove(disk).await?,
        }
    }
    Ok(live)
}

/// All segments in the order of their numbers.
async fn read_headers(disk: &Disk, store: StoreId) -> Result<Vec<FoundSegment>, LogError> {
    let mut numbers: Vec<u64> = (disk.list(".").await?.iter())
        .filter_map(|entry| segment_number(&entry.name))
        .collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for number in numbers {
        let segment = Segment::open(disk, number).await?;
        let header = match SegmentHeader::decode(&segment.read_header().await?) {
            DecodedHeader::Valid(header) if header.store != store => {
                return Err(LogError::OtherStore {
                    segment: segment.name,
                });
            }
            DecodedHeader::Valid(header) => Some(header),
            DecodedHeader::UnknownVersion(version) => {
                return Err(LogError::UnknownVersion {
                    segment: segment.name,
                    version,
                });
            }
            DecodedHeader::Blank | DecodedHeader::Invalid => None,
        };
        found.push((segment, header));
    }
    Ok(found)
}

/// No segment has a valid header: either there is no log yet, or it was destroyed.
async fn verify_absent(
    disk: &Disk,
    files: Vec<FoundSegment>,
    applied: Seq,
    begin_behind: bool,
) -> Result<Option<RecoveredLog>, LogError> {
    if begin_behind && files.is_empty() {
        return Ok(None);
    }
    for (segment, _) in &files {
        let unused = segment.is_unused().await?;
        if applied > Seq(0) || !unused {
            return Err(LogError::Damage {
                segment: segment.name.clone(),
                offset: 0,
                seq: Seq(applied.0 + 1),
                durable: applied,
            });
        }
    }
    if applied > Seq(0) {
        return Err(LogError::NoLog { applied });
    }
    for (segment, _) in &files {
        segment.remove(disk).await?;
    }
    Ok(None)
}

/// Makes durable the records that were read and are not known to be durable. After a kill without a power loss they may
/// be in the page cache only, and after a failed sync the page cache treats them as clean, so that no later sync writes
/// them. So this function writes everything after the last batch known to be durable again.
async fn rewrite_unsynced(live: &[LiveSegment], durable: Seq, seed: u32) -> Result<(), LogError> {
    let from = (live.iter())
        .rposition(|live| live.first <= durable)
        .unwrap_or(0);
    for live in &live[from..] {
        let bytes = live.segment.read_all().await?.slice(..live.end as usize);
        // If the segment holds no such batch, its header is not known to be durable either.
        let mut known = 0;
        let mut at = HEADER_BYTES as usize;
        while let Some(record) = decode_record(&bytes[at..], seed) {
            at += record.len;
            if record.kind == LogRecordKind::Batch && record.seq <= durable {
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

/// Zeroes the bytes after the end of the log, so that no later crash exposes them. A crash in this function is
/// harmless: the next recovery finds the same end.
async fn erase_tail(
    disk: &Disk,
    end: &LiveSegment,
    rest: &[u8],
    used: &[Segment],
) -> Result<(), LogError> {
    if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
        end.segment.file.zero_fill(end.end, last as u64 + 1).await?;
        end.segment.file.sync_data().await?;
    }
    for segment in used {
        segment.remove(disk).await?;
    }
    Ok(())
}

/// Keeps unused segments of the right size behind the last one as spares, as far as their numbers have no gap; removes
/// the others.
async fn keep_spares(
    disk: &Disk,
    last: u64,
    unused: Vec<Segment>,
    size: Option<u64>,
) -> Result<Vec<Arc<Segment>>, LogError> {
    let mut spares = Vec::new();
    for segment in unused {
        let in_row = segment.number == last + 1 + spares.len() as u64;
        if in_row
            && let Some(size) = size
            && segment.is_fully_allocated(size).await?
        {
            spares.push(Arc::new(segment));
        } else {
            segment.remove(disk).await?;
        }
    }
    Ok(spares)
}
