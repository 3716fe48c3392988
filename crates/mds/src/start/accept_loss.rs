//! Accepts a loss: this store goes on although targets have served a later state of it. All numbers (owner epochs, inodes,
//! sessions) continue above the ones that targets have seen and store, durably, before anything uses them. And objects whose
//! presence this copy does not know count as present: the later state may have removed them, and a read must not take that for a
//! hole.

use crate::error::StartError;
use crate::limits::{
    EPOCHS_SKIPPED, EPOCHS_SKIPPED_UNHEARD, NUMBERS_SKIPPED, SCAN_STEP, SESSIONS_SKIPPED,
};
use crate::store::to_store;
use crate::survey::MetadataLoss;
use bytes::Bytes;
use gupfs_namespace::salvage::mark_maybe_as_present;
use gupfs_namespace::{
    AcceptedLoss, Inode, InodeCounter, KeyRange, ParsedKey, Record, RecordBatch, RecordKey,
    RecordKind, StoreFormat,
};
use gupfs_proto::limits::{BACKGROUND_BATCH, BATCH_BYTES};
use gupfs_proto::{OwnerEpoch, Timestamp, VirtualShard};
use gupfs_store::kv::{Kv, KvError};
use std::collections::BTreeSet;

/// `log_epoch`: the epoch that the log gave to this start. Returns the record of accepted losses as it is now.
///
/// # Errors
/// `Format` if a record cannot be decoded, `Store` if the store fails.
pub async fn accept(
    kv: &Kv,
    format: &StoreFormat,
    before: &AcceptedLoss,
    loss: &MetadataLoss,
    (log_epoch, now): (OwnerEpoch, Timestamp),
) -> Result<AcceptedLoss, StartError> {
    let usual = log_epoch.counter() + before.epochs_skipped;
    let skipped = match loss.unheard.is_empty() {
        true => EPOCHS_SKIPPED,
        false => EPOCHS_SKIPPED_UNHEARD,
    };
    let from = usual.max(loss.owner.counter() + 1) + skipped;
    let accepted = AcceptedLoss {
        from: OwnerEpoch::new(log_epoch.group(), from),
        epochs_skipped: from - log_epoch.counter(),
        sessions_skipped: before.sessions_skipped + SESSIONS_SKIPPED,
        when: now,
    };
    let format_record = StoreFormat {
        features: format.features | StoreFormat::LOSS_ACCEPTED,
        ..*format
    };
    let mut batch: RecordBatch = vec![
        (RecordKey::format(), Some(format_record.encode())),
        (RecordKey::accepted_loss(), Some(accepted.encode())),
    ];
    for shard in (0..format.shards.0).map(VirtualShard) {
        let key = RecordKey::inode_counter(shard);
        let recorded = match kv.get(key.as_bytes())? {
            Some(value) => {
                InodeCounter::decode(&value)
                    .map_err(|error| StartError::Format(format!("record {key:?}: {error}")))?
                    .next
            }
            None => 0,
        };
        let held = loss.numbers.get(&shard).copied().unwrap_or(0);
        let next = recorded.max(held) + NUMBERS_SKIPPED;
        batch.push((key, Some(InodeCounter { next }.encode())));
    }
    batch.sort();
    for shard in (0..format.shards.0).map(VirtualShard) {
        expect_objects_in_doubt(kv, shard).await?;
    }
    let seq = kv.stage(0, to_store(batch)).map_err(KvError::from)?;
    kv.wait_durable(seq).await?;
    Ok(accepted)
}

/// The losses that were accepted; all fields zero: none.
///
/// # Errors
/// `Format` if the record cannot be decoded, `Store` if the store fails.
pub fn read_accepted_loss(kv: &Kv) -> Result<AcceptedLoss, StartError> {
    match kv.get(RecordKey::accepted_loss().as_bytes())? {
        None => Ok(AcceptedLoss {
            from: OwnerEpoch(0),
            epochs_skipped: 0,
            sessions_skipped: 0,
            when: Timestamp::default(),
        }),
        Some(record) => AcceptedLoss::decode(&record).map_err(|error| {
            StartError::Format(format!(
                "the record of accepted losses cannot be read: {error}"
            ))
        }),
    }
}

/// Handles files with a write lease, and files closed without a sync: no others have objects of unknown presence.
async fn expect_objects_in_doubt(kv: &Kv, shard: VirtualShard) -> Result<(), StartError> {
    let mut files = BTreeSet::new();
    for kind in [RecordKind::WriteLease, RecordKind::Unconfirmed] {
        let mut range = KeyRange::of_kind(shard, kind);
        loop {
            let [from, to] = [&range.from, &range.to].map(bytes);
            let records = kv.scan(from, to, SCAN_STEP)?;
            for (key, _) in &records {
                let key = RecordKey::from_bytes(key);
                if let Some(ParsedKey::WriteLease { ino, .. } | ParsedKey::Unconfirmed(ino)) =
                    key.parse()
                {
                    files.insert(RecordKey::inode(ino));
                }
                range.from = key.successor();
            }
            if records.len() < SCAN_STEP {
                break;
            }
        }
    }
    let (mut batch, mut size) = (RecordBatch::new(), 0);
    for key in files {
        let record = kv.get(key.as_bytes())?;
        // A record that cannot be read fails when a request needs it.
        let Some(Ok(mut inode)) = record.map(|record| Inode::decode(&record)) else {
            continue;
        };
        if !mark_maybe_as_present(&mut inode) {
            continue;
        }
        inode.change += 1;
        let record = inode.encode();
        size += record.len() as u64;
        batch.push((key, Some(record)));
        if batch.len() >= BACKGROUND_BATCH || size >= BATCH_BYTES.0 {
            commit(kv, std::mem::take(&mut batch)).await?;
            size = 0;
        }
    }
    commit(kv, batch).await
}

async fn commit(kv: &Kv, batch: RecordBatch) -> Result<(), StartError> {
    if batch.is_empty() {
        return Ok(());
    }
    kv.wait_for_space().await?;
    let seq = kv.stage(0, to_store(batch)).map_err(KvError::from)?;
    Ok(kv.wait_committed(seq).await?)
}

fn bytes(key: &RecordKey) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}
