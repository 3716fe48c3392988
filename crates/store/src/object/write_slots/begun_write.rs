//! Writes that had begun when the process ended.

use super::WriteSlots;
use super::entry::WriteProgress;
use super::slot_table::EntryCell;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{ObjectId, WriteVerifier};
use std::ops::Range;
use std::sync::Arc;

/// A write that may have taken effect, wholly, in part or not.
pub(in crate::object) struct BegunWrite {
    pub object: ObjectId,
    pub range: Range<u64>,
    /// crc32c of its bytes.
    pub data_sum: u32,
    cell: Arc<EntryCell>,
}

impl WriteSlots {
    /// The writes that had begun and are not done, as a start with this verifier finds them.
    pub async fn begun_writes(&self, verifier: WriteVerifier) -> Vec<BegunWrite> {
        let cells = self.table.lock().cells();
        let mut begun = Vec::new();
        for cell in cells {
            let content = cell.content.lock().await;
            let Some(entry) = content.as_ref().filter(|entry| entry.is_valid(verifier)) else {
                continue;
            };
            match entry.progress {
                WriteProgress::Synced(_) => {}
                WriteProgress::Done(_) => self.unsynced.insert(entry.unsynced(cell.number)),
                WriteProgress::Begun => begun.push(BegunWrite {
                    object: entry.object,
                    range: entry.range.clone(),
                    data_sum: entry.data_sum,
                    cell: cell.clone(),
                }),
            }
        }
        begun
    }

    /// The write is done, with this state of the object after it; None: it did not take effect, so its entry is erased.
    pub async fn decide(&self, begun: BegunWrite, stat: Option<ObjectStat>) {
        let cell = begun.cell;
        let mut content = cell.content.lock().await;
        match (stat, content.as_mut()) {
            (Some(stat), Some(entry)) => {
                entry.progress = WriteProgress::Done(stat);
                self.unsynced.insert(entry.unsynced(cell.number));
            }
            _ => *content = None,
        }
        drop(content);
        self.recovered.lock().push(cell);
    }
}
