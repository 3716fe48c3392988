//! A loss is accepted: this store goes on although targets have served a later state of it. Everything that names something
//! begins above what they have heard of and hold, durably, before anything uses it. And what this copy calls in doubt of a file's objects
//! counts as present: the later state may have removed them, and a read must not take that for a hole.

use crate::error::StartError;
use crate::limits::{
    EPOCHS_SKIPPED, EPOCHS_SKIPPED_UNHEARD, NUMBERS_SKIPPED, SCAN_STEP, SESSIONS_SKIPPED,
};
use crate::records::to_store;
use crate::survey::Loss;
use bytes::Bytes;
use gupfs_namespace::salvage::count_in_doubt_as_present;
use gupfs_namespace::{
    AcceptedLoss, Batch, Format, Inode, Key, KeyRange, Kind, Numbers, Parsed, Record,
};
use gupfs_proto::limits::{BATCH_BYTES, CHORE_BATCH};
use gupfs_proto::{OwnerEpoch, Timestamp, VirtualShard};
use gupfs_store::kv::{Kv, KvError};
use std::collections::BTreeSet;

/// `log_epoch`: the epoch that the log gave to this start. Returns what is recorded now.
pub async fn accept(
    kv: &Kv,
    format: &Format,
    before: &AcceptedLoss,
    loss: &Loss,
    (log_epoch, now): (OwnerEpoch, Timestamp),
) -> Result<AcceptedLoss, StartError> {
    let usual = log_epoch.0 + before.epochs_skipped;
    let skipped = match loss.unheard.is_empty() {
        true => EPOCHS_SKIPPED,
        false => EPOCHS_SKIPPED_UNHEARD,
    };
    let from = usual.max(loss.owner.0 + 1) + skipped;
    let accepted = AcceptedLoss {
        from: OwnerEpoch(from),
        epochs_skipped: from - log_epoch.0,
        sessions_skipped: before.sessions_skipped + SESSIONS_SKIPPED,
        when: now,
    };
    let format_record = Format {
        features: format.features | Format::LOSS_ACCEPTED,
        ..*format
    };
    let mut batch: Batch = vec![
        (Key::format(), Some(format_record.encode())),
        (Key::owner(), Some(accepted.encode())),
    ];
    for shard in (0..format.shards.0).map(VirtualShard) {
        let key = Key::numbers(shard);
        let recorded = match kv.get(key.as_bytes())? {
            Some(value) => {
                Numbers::decode(&value)
                    .map_err(|error| StartError::Format(format!("record {key:?}: {error}")))?
                    .next
            }
            None => 0,
        };
        let held = loss.numbers.get(&shard).copied().unwrap_or(0);
        let next = recorded.max(held) + NUMBERS_SKIPPED;
        batch.push((key, Some(Numbers { next }.encode())));
    }
    batch.sort();
    for shard in (0..format.shards.0).map(VirtualShard) {
        expect_objects_in_doubt(kv, shard).await?;
    }
    let seq = kv.stage(0, to_store(batch)).map_err(KvError::from)?;
    kv.durable(seq).await?;
    Ok(accepted)
}

/// Of files that were being written, and of those that were closed without a sync: no others have objects in doubt.
async fn expect_objects_in_doubt(kv: &Kv, shard: VirtualShard) -> Result<(), StartError> {
    let mut files = BTreeSet::new();
    for kind in [Kind::Writer, Kind::Unconfirmed] {
        let mut range = KeyRange::of_kind(shard, kind);
        loop {
            let [from, to] = [&range.from, &range.to].map(bytes);
            let records = kv.scan(from, to, SCAN_STEP)?;
            for (key, _) in &records {
                let key = Key::from_bytes(key);
                if let Some(Parsed::Writer { ino, .. } | Parsed::Unconfirmed(ino)) = key.parse() {
                    files.insert(Key::inode(ino));
                }
                range.from = key.successor();
            }
            if records.len() < SCAN_STEP {
                break;
            }
        }
    }
    let (mut batch, mut size) = (Batch::new(), 0);
    for key in files {
        let record = kv.get(key.as_bytes())?;
        // What cannot be read is told when somebody asks for it.
        let Some(Ok(mut inode)) = record.map(|record| Inode::decode(&record)) else {
            continue;
        };
        if !count_in_doubt_as_present(&mut inode) {
            continue;
        }
        inode.change += 1;
        let record = inode.encode();
        size += record.len() as u64;
        batch.push((key, Some(record)));
        if batch.len() >= CHORE_BATCH || size >= BATCH_BYTES.0 {
            commit(kv, std::mem::take(&mut batch)).await?;
            size = 0;
        }
    }
    commit(kv, batch).await
}

async fn commit(kv: &Kv, batch: Batch) -> Result<(), StartError> {
    if batch.is_empty() {
        return Ok(());
    }
    kv.room().await?;
    let seq = kv.stage(0, to_store(batch)).map_err(KvError::from)?;
    Ok(kv.committed(seq).await?)
}

fn bytes(key: &Key) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}
