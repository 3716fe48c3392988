//! Decides at a start which of the writes that had begun when the process ended took effect.

use super::WriteSlots;
use super::entry::{WriteProgress, WriteSlotEntry};
use crate::object::access::ReadAccess;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, WriteVerifier};

/// Completes or erases the entry of each write that had begun. Until then no later write of the same bytes was executed, so the bytes
/// in the object show whether the write took effect: exactly if they have its checksum. A write that is erased did not happen, or
/// only in part; the client repeats it. After a power loss, which another verifier shows, no such entry is valid.
///
/// `record_recovered` writes the result to disk.
pub(in crate::object) async fn recover(
    slots: &WriteSlots,
    reading: &ReadAccess,
    verifier: WriteVerifier,
) {
    let cells = slots.table.lock().cells();
    for cell in cells {
        let mut content = cell.content.lock().await;
        let Some(entry) = content.as_mut().filter(|entry| entry.is_valid(verifier)) else {
            continue;
        };
        match entry.progress {
            WriteProgress::Synced(_) => continue,
            WriteProgress::Done(_) => {
                slots.unsynced.insert(entry.unsynced(cell.number));
                continue;
            }
            WriteProgress::Begun => {}
        }
        let written = written_object(reading, entry).await;
        let found = match &written {
            Ok(Some(_)) => "it took effect",
            Ok(None) => "it did not take effect",
            Err(_) => "the object cannot be read, so it counts as not executed",
        };
        tracing::info!(
            object = %entry.object, at = entry.range.start, session = %entry.key.session, found,
            "a numbered write was under way when the process ended"
        );
        match written.ok().flatten() {
            Some(stat) => {
                entry.progress = WriteProgress::Done(stat);
                slots.unsynced.insert(entry.unsynced(cell.number));
            }
            None => *content = None,
        }
        drop(content);
        slots.recovered.lock().push(cell);
    }
}

/// The state of the object, if it has the bytes of this write.
async fn written_object(
    reading: &ReadAccess,
    entry: &WriteSlotEntry,
) -> Result<Option<ObjectStat>, FsError> {
    let object = reading.objects.load_object(entry.object).await?;
    let stat = object.state().stat();
    if stat.size < entry.range.end {
        return Ok(None);
    }
    let range = entry.range.clone();
    let bytes = reading.reader.read_bytes(&object, range).await?;
    Ok((crc32c::crc32c(&bytes) == entry.data_sum).then_some(stat))
}
