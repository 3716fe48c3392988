//! # index: what a log's batches add up to
//!
//! Owns   the newest value of every key, and up to which batch it is the sum of them.
//! Never  decides an order; is ahead of its log, or knows what a value means.
//! Enter  at `Index::open_fjall`; simulations at `Index::fake`.
//!
//! The index loses what it was given after the last `persist`, or some of it, whenever its process ends: `applied` says after
//! a start how far it got, and the log gives the rest again. So it need not sync with each group, only before the log drops
//! what the index has.

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
pub use limits::{FILES_BESIDE, FILES_LEAST, FILES_MOST};

use self::fjall::FjallIndex;
use crate::log::StoreId;
use bytes::Bytes;
use gupfs_proto::Seq;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Changes of several batches as one: the last word on each key, None to remove.
pub type Changes = BTreeMap<Bytes, Option<Bytes>>;

/// Where a scan of a range begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    First,
    Last,
}

/// Records, and why there are not more of them.
pub type ReadableRecords = (Vec<(Bytes, Bytes)>, Option<IndexError>);

/// From where to where; the start says whether it is itself part of it.
pub type Range = (Bound<Bytes>, Bound<Bytes>);

#[derive(Clone)]
pub struct Index(Kind);

#[derive(Clone)]
enum Kind {
    Fjall(Arc<FjallIndex>),
    #[cfg(feature = "fake")]
    Fake(FakeIndex),
}

/// The index at one moment.
pub struct IndexView(ViewKind);

enum ViewKind {
    Fjall(fjall::FjallView),
    #[cfg(feature = "fake")]
    Fake(Arc<BTreeMap<Bytes, Bytes>>),
}

impl IndexView {
    /// The first `limit` records of a range, ascending. May wait for the disk.
    pub fn scan(&self, range: Range, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
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
    /// The first `limit` records of a range, or the last ones, descending: those that can be read before the first failure, and it.
    pub fn scan_readable(&self, range: Range, limit: usize, from: End) -> ReadableRecords {
        match &self.0 {
            ViewKind::Fjall(view) => view.scan_readable(range, limit, from),
            #[cfg(feature = "fake")]
            ViewKind::Fake(records) => {
                let records = records.range(range);
                let own = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
                let found = match from {
                    End::First => records.take(limit).map(own).collect(),
                    End::Last => records.rev().take(limit).map(own).collect(),
                };
                (found, None)
            }
        }
    }
}

macro_rules! on {
    ($self:ident, $it:ident => $call:expr) => {
        match &$self.0 {
            Kind::Fjall($it) => $call,
            #[cfg(feature = "fake")]
            Kind::Fake($it) => $call,
        }
    };
}

/// All calls may wait for the disk, as fjall does: `get` and `scan` seldom, `apply` sometimes, `persist` always.
impl Index {
    /// # Errors
    /// `Version` for an index that a newer program made; `Damaged` for files that are not what was written; `Engine` for what fjall
    /// cannot open.
    ///
    /// `files`: how many tables may stay open, between `FILES_LEAST` and `FILES_MOST`.
    pub fn open_fjall(dir: &Path, files: usize) -> Result<Index, IndexError> {
        Ok(Index(Kind::Fjall(Arc::new(FjallIndex::open(dir, files)?))))
    }

    /// Reads the tables of an index that nobody has open, whole: some damage in them is met by neither `open_fjall` nor a scan.
    ///
    /// # Errors
    /// `Damaged` names the first file that is not what was written.
    pub fn verify_tables(dir: &Path) -> Result<(), IndexError> {
        verify::verify_tables(dir)
    }

    #[cfg(feature = "fake")]
    pub fn fake(fake: FakeIndex) -> Index {
        Index(Kind::Fake(fake))
    }

    /// The last batch that is part of the index.
    pub fn applied(&self) -> Seq {
        on!(self, it => it.applied())
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        on!(self, it => it.get(key))
    }

    /// The index as it is now; cheap. What is applied later does not show in it.
    pub fn view(&self) -> IndexView {
        on!(self, it => it.view())
    }

    /// The first `limit` records of a range, ascending.
    pub fn scan(&self, range: Range, limit: usize) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        self.view().scan(range, limit)
    }

    /// Makes the index that store's if it is nobody's yet.
    ///
    /// # Errors
    /// `Foreign` if it is another store's: its records would be taken for this one's.
    pub fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        on!(self, it => it.claim(store))
    }

    /// All batches behind `applied()` up to `seq`, as one.
    pub fn apply(&self, seq: Seq, changes: &Changes) -> Result<(), IndexError> {
        on!(self, it => it.apply(seq, changes))
    }

    /// Writes what is in memory alone into tables, as it happens by itself when there is enough.
    #[cfg(test)]
    fn flush_to_tables(&self) {
        match &self.0 {
            Kind::Fjall(it) => it.flush_to_tables(),
            Kind::Fake(_) => {}
        }
    }

    /// What was applied before survives a power cut when this returns.
    pub fn persist(&self) -> Result<(), IndexError> {
        on!(self, it => it.persist())
    }
}

#[cfg(test)]
mod tests;
