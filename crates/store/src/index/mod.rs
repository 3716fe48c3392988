//! # index: the result of a log's batches
//!
//! Owns   the newest value of every key, and the number of the last batch that these values include.
//! Never  decides the order of batches; is never ahead of its log; never knows the meaning of a value.
//! Enter  at `Index::open_fjall`; simulations at `Index::fake`.
//!
//! When its process ends, the index loses all or part of what was applied after the last `persist`. After a start
//! `applied` states the last batch that it has, and the log replays the rest. So the index need not sync each group; it
//! must only sync before the log removes segments.

mod error;
#[cfg(feature = "fake")]
mod fake;
mod fjall;
mod journal;
pub mod limits;
mod verify;

pub use error::IndexError;
#[cfg(feature = "fake")]
pub use fake::FakeIndex;
pub use limits::{OPEN_TABLES_MAX, OPEN_TABLES_MIN, OTHER_FILES_MAX};

use self::fjall::FjallIndex;
use crate::log::StoreId;
use bytes::Bytes;
use gupfs_proto::Seq;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// The merged updates of several batches: the last value of each key, None to remove it.
pub type IndexUpdates = BTreeMap<Bytes, Option<Bytes>>;

/// The end of a range at which a scan begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeEnd {
    First,
    Last,
}

/// Records, and the failure that ended the scan, if any.
pub type PartialScan = (Vec<(Bytes, Bytes)>, Option<IndexError>);

/// A range of keys; each bound says whether its key belongs to the range.
pub type KeyBounds = (Bound<Bytes>, Bound<Bytes>);

#[derive(Clone)]
pub struct Index(IndexKind);

#[derive(Clone)]
enum IndexKind {
    Fjall(Arc<FjallIndex>),
    #[cfg(feature = "fake")]
    Fake(FakeIndex),
}

/// A snapshot of the index.
pub struct IndexView(ViewKind);

enum ViewKind {
    Fjall(fjall::FjallView),
    #[cfg(feature = "fake")]
    Fake(Arc<BTreeMap<Bytes, Bytes>>),
}

impl IndexView {
    /// The first `limit` records of a range, ascending. May wait for the disk.
    ///
    /// # Errors
    /// `Engine` or `Damaged` if the engine cannot read its tables.
    pub fn scan(&self, range: KeyBounds, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        match &self.0 {
            ViewKind::Fjall(view) => view.scan(range, limit),
            #[cfg(feature = "fake")]
            ViewKind::Fake(records) => Ok(records
                .range(range)
                .take(limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()),
        }
    }
}

impl IndexView {
    /// The first `limit` records of a range ascending, or the last ones descending: those before the first failure, and
    /// that failure.
    pub fn scan_readable(&self, range: KeyBounds, limit: usize, from: RangeEnd) -> PartialScan {
        match &self.0 {
            ViewKind::Fjall(view) => view.scan_readable(range, limit, from),
            #[cfg(feature = "fake")]
            ViewKind::Fake(records) => {
                let records = records.range(range);
                let own = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
                let found = match from {
                    RangeEnd::First => records.take(limit).map(own).collect(),
                    RangeEnd::Last => records.rev().take(limit).map(own).collect(),
                };
                (found, None)
            }
        }
    }
}

macro_rules! dispatch {
    ($self:ident, $index:ident => $call:expr) => {
        match &$self.0 {
            IndexKind::Fjall($index) => $call,
            #[cfg(feature = "fake")]
            IndexKind::Fake($index) => $call,
        }
    };
}

/// All calls may wait for the disk, as fjall does: `get` and `scan` seldom, `apply` sometimes, `persist` always.
impl Index {
    /// # Errors
    /// `UnknownVersion` for an index of a newer program; `Damaged` for files that differ from what was written;
    /// `Engine` if fjall cannot open them.
    ///
    /// `files`: how many tables may stay open, between `OPEN_TABLES_MIN` and `OPEN_TABLES_MAX`.
    pub fn open_fjall(dir: &Path, files: usize) -> Result<Index, IndexError> {
        Ok(Index(IndexKind::Fjall(Arc::new(FjallIndex::open(
            dir, files,
        )?))))
    }

    /// Reads all tables of a closed index as a whole. It finds damage that neither `open_fjall` nor a scan meets.
    ///
    /// # Errors
    /// `Damaged` names the first file that differs from what was written.
    pub fn verify_tables(dir: &Path) -> Result<(), IndexError> {
        verify::verify_tables(dir)
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: FakeIndex) -> Index {
        Index(IndexKind::Fake(fake))
    }

    /// The last batch that the index has.
    pub fn applied(&self) -> Seq {
        dispatch!(self, index => index.applied())
    }

    /// # Errors
    /// `Engine` or `Damaged` if the engine cannot read its tables.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        dispatch!(self, index => index.get(key))
    }

    /// A snapshot of the index; cheap. It does not show batches that are applied later.
    pub fn view(&self) -> IndexView {
        dispatch!(self, index => index.view())
    }

    /// The first `limit` records of a range, ascending.
    ///
    /// # Errors
    /// `Engine` or `Damaged` if the engine cannot read its tables.
    pub fn scan(&self, range: KeyBounds, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        self.view().scan(range, limit)
    }

    /// Records `store` as the index's store, if it has none yet.
    ///
    /// # Errors
    /// `OtherStore` if the index belongs to another store, whose records would otherwise be taken for this store's.
    pub fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        dispatch!(self, index => index.claim(store))
    }

    /// Applies all batches after `applied()` up to `seq`, merged into `updates`.
    ///
    /// # Errors
    /// `Engine` if the engine failed: what was applied after the last `persist` may be wrong.
    pub fn apply(&self, seq: Seq, updates: &IndexUpdates) -> Result<(), IndexError> {
        dispatch!(self, index => index.apply(seq, updates))
    }

    /// Writes the memtables into tables, as the engine does by itself when they are full.
    #[cfg(test)]
    fn flush_to_tables(&self) {
        match &self.0 {
            IndexKind::Fjall(index) => index.flush_to_tables(),
            IndexKind::Fake(_) => {}
        }
    }

    /// When this returns, everything that was applied before survives a power loss.
    ///
    /// # Errors
    /// `Engine` if the sync failed: what was applied after the last `persist` may be lost.
    pub fn persist(&self) -> Result<(), IndexError> {
        dispatch!(self, index => index.persist())
    }
}

#[cfg(test)]
mod tests;
