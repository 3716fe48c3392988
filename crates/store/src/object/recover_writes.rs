//! Decides at a start which of the numbered writes that had begun when the process ended took effect.
//!
//! Until now no later write of the same bytes was executed, so the bytes in the object show whether the write took effect: exactly if
//! they have its checksum. A write that did not happen, or only in part, is repeated by its client. Call this before the target
//! executes any write, and `WriteSlots::record_recovered` before it serves.

use super::access::ReadAccess;
use super::write_slots::{BegunWrite, WriteSlots};
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{FsError, WriteVerifier};

/// `verifier`: the one of this start. After a power loss no write that had begun is valid.
pub(super) async fn recover_writes(
    slots: &WriteSlots,
    reading: &ReadAccess,
    verifier: WriteVerifier,
) {
    for begun in slots.begun_writes(verifier).await {
        let written = written_object(reading, &begun).await;
        let found = match &written {
            Ok(Some(_)) => "it took effect",
            Ok(None) => "it did not take effect",
            Err(_) => "the object cannot be read, so it counts as not executed",
        };
        tracing::info!(
            object = %begun.object, at = begun.range.start, found,
            "a numbered write was under way when the process ended"
        );
        slots.decide(begun, written.ok().flatten()).await;
    }
}

/// The state of the object, if it has the bytes of this write.
async fn written_object(
    reading: &ReadAccess,
    begun: &BegunWrite,
) -> Result<Option<ObjectStat>, FsError> {
    let object = reading.objects.load_object(begun.object).await?;
    let stat = object.state().stat();
    if stat.size < begun.range.end {
        return Ok(None);
    }
    let range = begun.range.clone();
    let bytes = reading.reader.read_bytes(&object, range).await?;
    Ok((crc32c::crc32c(&bytes) == begun.data_sum).then_some(stat))
}
