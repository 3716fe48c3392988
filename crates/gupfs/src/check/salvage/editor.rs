//! Reading and changing the records of the new store.

use crate::check::records::bytes;
use crate::exit::{CliResult, OrCliError};
use bytes::Bytes;
use gupfs_namespace::{KeyRange, Record, RecordKey, Unconfirmed};
use gupfs_proto::{InodeId, Timestamp};
use gupfs_store::kv::Kv;
use std::cell::RefCell;

/// Reads and changes the records of a store that no other process uses.
pub struct RecordEditor<'a> {
    kv: &'a Kv,
    pub now: Timestamp,
    /// The changes of the next `commit`.
    changes: RefCell<Vec<(Bytes, Option<Bytes>)>>,
}

impl RecordEditor<'_> {
    pub fn new(kv: &Kv, now: Timestamp) -> RecordEditor<'_> {
        RecordEditor {
            kv,
            now,
            changes: RefCell::default(),
        }
    }

    /// The committed record; None also if it cannot be decoded.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn get<R: Record>(&self, key: &RecordKey) -> CliResult<Option<R>> {
        let value = self.kv.get(key.as_bytes()).or_cli_error(cannot_read)?;
        Ok(value.and_then(|value| R::decode(&value).ok()))
    }

    pub fn put(&self, key: &RecordKey, record: &impl Record) {
        let change = (bytes(key), Some(record.encode()));
        self.changes.borrow_mut().push(change);
    }

    pub fn remove(&self, key: &RecordKey) {
        self.changes.borrow_mut().push((bytes(key), None));
    }

    /// Lets the metadata server find out which objects of the file are durable.
    pub fn add_unconfirmed(&self, ino: InodeId) {
        let since = self.now;
        self.put(&RecordKey::unconfirmed(ino), &Unconfirmed { since });
    }

    pub async fn commit(&self) -> CliResult<()> {
        let changes = self.changes.take();
        if changes.is_empty() {
            return Ok(());
        }
        let space = self.kv.wait_for_space().await;
        space.or_cli_error(|| "the new metadata store is full or has failed".into())?;
        let failed = || "cannot write the new metadata store".into();
        let seq = self.kv.stage(0, changes).or_cli_error(failed)?;
        self.kv.wait_committed(seq).await.or_cli_error(failed)
    }

    pub fn each(&self, range: &KeyRange, take: impl FnMut(&RecordKey, &Bytes)) -> CliResult<()> {
        crate::check::records::each(self.kv, range, take)
    }

    pub fn all(&self, range: &KeyRange) -> CliResult<Vec<(RecordKey, Bytes)>> {
        let mut found = Vec::new();
        self.each(range, |key, value| found.push((key.clone(), value.clone())))?;
        Ok(found)
    }
}

fn cannot_read() -> String {
    "cannot read the new metadata store".into()
}
