//! Gives a copy all records of the owner's index, because its log has no common position with the owner's any more.

use super::OwnerShared;
use super::join::JoinError;
use crate::limits::{LOAD_TIMEOUT, REOPEN_TIMEOUT};
use crate::peers::CopyPeer;
use gupfs_proto::copy::CopyOp;
use gupfs_store::kv::{KvError, KvSnapshot};

impl OwnerShared {
    /// Returns when the copy has an index with these records, and an empty log behind it. The owner's log keeps the records after it until the
    /// returned snapshot is dropped.
    pub(super) async fn send_snapshot(&self, copy: &CopyPeer) -> Result<KvSnapshot, JoinError> {
        let owner = self.epoch;
        let kv = self.kv.get().and_then(|kv| kv.upgrade());
        let kv = kv.ok_or(JoinError::Stopping)?;
        let mut snapshot = kv.snapshot().await?;
        drop(kv);
        let begin = CopyOp::BeginSnapshot {
            owner,
            at: snapshot.position(),
        };
        copy.call(begin, LOAD_TIMEOUT).await?;
        let mut number = 0;
        loop {
            // Reading waits for the disk.
            let reading = self.platform.tasks.blocking(move || {
                let part = snapshot.next_part();
                (snapshot, part)
            });
            let (read, part): (KvSnapshot, Result<_, KvError>) = reading.await;
            snapshot = read;
            let Some(records) = part? else {
                break;
            };
            let send = CopyOp::SnapshotPart {
                owner,
                number,
                records,
            };
            copy.call(send, REOPEN_TIMEOUT).await?;
            number += 1;
            self.note_snapshot(copy.id, Some(number));
        }
        let end = CopyOp::EndSnapshot {
            owner,
            parts: number,
        };
        copy.call(end, LOAD_TIMEOUT).await?;
        self.note_snapshot(copy.id, None);
        Ok(snapshot)
    }
}
