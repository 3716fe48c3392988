//! The records of an index on their way to another host, which makes an index of them.

use super::{Kv, KvBatch, KvError, batch_codec, limits};
use crate::index::{Index, IndexUpdates, IndexView};
use crate::log::{KeptRecords, LogPosition};
use bytes::Bytes;
use gupfs_proto::Seq;
use std::ops::Bound;

/// All records of an index as they were at a moment. The log keeps the records after `position` until this is dropped: they lead from there to a
/// newer state, and those that the snapshot has already do so again.
pub struct KvSnapshot {
    view: IndexView,
    kept: KeptRecords,
    /// The records up to this key, it included, are in former parts.
    after: Bound<Bytes>,
    /// Records that were read and do not fit into the former part.
    read: std::vec::IntoIter<(Bytes, Bytes)>,
}

impl Kv {
    /// The records of the index now.
    ///
    /// # Errors
    /// `Log` if its records after the index's last batch cannot be read.
    pub async fn snapshot(&self) -> Result<KvSnapshot, KvError> {
        let kept = self
            .shared
            .log
            .keep_from(self.shared.index.applied())
            .await?;
        Ok(KvSnapshot {
            // Batches that were applied meanwhile are in it, too.
            view: self.shared.index.view(),
            kept,
            after: Bound::Unbounded,
            read: Vec::new().into_iter(),
        })
    }
}

impl KvSnapshot {
    /// Where the log of a host begins whose index has these records.
    pub fn position(&self) -> LogPosition {
        self.kept.position()
    }

    /// The next records, encoded, about `SNAPSHOT_PART` bytes; None after the last ones. Waits for the disk.
    ///
    /// # Errors
    /// `Index` if the index cannot be read.
    pub fn next_part(&mut self) -> Result<Option<Bytes>, KvError> {
        let mut part = KvBatch::new();
        let mut bytes = 0;
        while bytes < limits::SNAPSHOT_PART {
            if self.read.len() == 0 {
                let range = (self.after.clone(), Bound::Unbounded);
                let read = self.view.scan(range, limits::SNAPSHOT_STEP)?;
                let Some((last, _)) = read.last() else {
                    break;
                };
                self.after = Bound::Excluded(last.clone());
                self.read = read.into_iter();
            }
            let Some((key, value)) = self.read.next() else {
                break;
            };
            bytes += key.len() + value.len();
            part.push((key, Some(value)));
        }
        if part.is_empty() {
            return Ok(None);
        }
        let mut body = Vec::with_capacity(batch_codec::encoded_len(&part));
        batch_codec::encode(&part, &mut body);
        Ok(Some(body.into()))
    }
}

/// Adds a part of a snapshot to a new index. Waits for the disk.
///
/// # Errors
/// `Malformed` if these are not the bytes of a part; `Index` if the index fails.
pub fn add_snapshot_part(index: &Index, part: Bytes) -> Result<(), KvError> {
    let records = batch_codec::decode(part).ok_or(KvError::Malformed { seq: Seq(0) })?;
    let updates: IndexUpdates = records.into_iter().collect();
    Ok(index.apply(Seq(0), &updates)?)
}

/// Ends the loading of a new index: it has all that the log has up to `position`. Waits for the disk.
///
/// # Errors
/// `Index` if the index fails.
pub fn finish_snapshot(index: &Index, position: LogPosition) -> Result<(), KvError> {
    index.apply(position.last, &IndexUpdates::new())?;
    Ok(index.persist()?)
}
