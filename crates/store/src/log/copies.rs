//! What the owner of a log needs of its copies on other hosts, and the records that it sends to them.

use super::error::{AppendError, LogError};
use super::format::{LogRecordKind, RECORD_HEADER_LEN, RecordHeader, StoreId, decode_record};
use super::position::{LogPosition, position_after};
use super::replay::LoggedBatch;
use bytes::Bytes;
use gupfs_proto::{OwnerEpoch, Seq};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Consecutive records, with the bytes that the owner's log has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordGroup {
    /// Who sends them; the records may be of former owners.
    pub owner: OwnerEpoch,
    /// Where they begin and end.
    pub after: LogPosition,
    pub upto: LogPosition,
    pub bytes: Bytes,
}

/// Completes when all copies that count have done what was asked; the error says why the owner can acknowledge nothing more.
pub type CopyFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The copies of the owner's log. An implementation strikes a copy that does not reply from those that count, so that no call waits for it for
/// ever: the log itself has no deadline.
pub trait LogCopies: Send + Sync + 'static {
    /// Returns when every copy that counts has the records in its memory. A group may begin with records of an earlier one whose call was
    /// given up; only one call is under way.
    fn append(&self, group: RecordGroup) -> CopyFuture;

    /// Returns when every copy that counts has synced its log up to this batch, which it has.
    fn sync(&self, last: Seq) -> CopyFuture;

    /// The log has failed here and acknowledges nothing more. Called before any waiting task learns of it: a copy goes on, so this host must not
    /// answer with its own failure.
    fn failed(&self, why: &LogError);
}

/// The copies of a log; none by default.
#[derive(Clone, Default)]
pub struct CopySet(Option<Arc<dyn LogCopies>>);

impl fmt::Debug for CopySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "copies" } else { "none" })
    }
}

impl CopySet {
    pub fn new(copies: Arc<dyn LogCopies>) -> CopySet {
        CopySet(Some(copies))
    }

    pub(super) fn get(&self) -> Option<&dyn LogCopies> {
        self.0.as_deref()
    }
}

/// A record of a group, verified, and its bytes with the header.
pub struct GroupRecord<'a> {
    pub header: RecordHeader,
    pub bytes: &'a [u8],
    /// The position after it.
    pub end: LogPosition,
}

impl GroupRecord<'_> {
    /// The batch, if it is one. `end` is where the record ends in the group's bytes.
    pub fn batch(&self, group: &Bytes, end: usize) -> Option<LoggedBatch> {
        let from = end - self.bytes.len() + RECORD_HEADER_LEN;
        (self.header.kind == LogRecordKind::Batch).then(|| LoggedBatch {
            seq: self.header.seq,
            shard: self.header.shard,
            epoch: self.header.epoch,
            body: group.slice(from..from + self.header.body_len),
        })
    }
}

impl RecordGroup {
    /// The same records in parts of at most `most` bytes, as far as single records are not larger.
    ///
    /// # Errors
    /// `Malformed` if a record does not verify.
    pub fn into_parts(self, store: StoreId, most: usize) -> Result<Vec<RecordGroup>, AppendError> {
        if self.bytes.len() <= most {
            return Ok(vec![self]);
        }
        let mut ends = vec![(0, self.after)];
        let mut offset = 0;
        let (mut last, mut part) = (self.after, 0);
        for record in self.records(store.seed()) {
            if offset > part && offset + record.bytes.len() - part > most {
                ends.push((offset, last));
                part = offset;
            }
            offset += record.bytes.len();
            last = record.end;
        }
        if last != self.upto || offset != self.bytes.len() {
            return Err(AppendError::Malformed { after: last });
        }
        ends.push((offset, last));
        let parts = ends.windows(2).map(|pair| RecordGroup {
            owner: self.owner,
            after: pair[0].1,
            upto: pair[1].1,
            bytes: self.bytes.slice(pair[0].0..pair[1].0),
        });
        Ok(parts.collect())
    }

    /// The records, as far as each verifies and continues the chain. The group is sound if the last one ends at `upto`.
    pub(super) fn records(&self, seed: u32) -> impl Iterator<Item = GroupRecord<'_>> {
        let (mut at, mut rest) = (self.after, &self.bytes[..]);
        std::iter::from_fn(move || {
            let header = decode_record(rest, seed)?;
            let seq = match header.kind {
                LogRecordKind::Batch => Seq(at.last.0.checked_add(1)?),
                LogRecordKind::Watermark => at.last,
            };
            if header.previous != at.crc || header.seq != seq {
                return None;
            }
            let (bytes, after) = rest.split_at(header.len);
            (at, rest) = (position_after(&header), after);
            let end = at;
            Some(GroupRecord { header, bytes, end })
        })
    }
}
