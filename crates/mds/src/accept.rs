//! A loss is accepted: this store goes on although targets have served a later state of it. Everything that names something
//! begins above what they have heard of and hold, durably, before anything uses it.

use crate::error::StartError;
use crate::limits::{EPOCHS_SKIPPED, EPOCHS_SKIPPED_UNHEARD, NUMBERS_SKIPPED, SESSIONS_SKIPPED};
use crate::records::to_store;
use crate::survey::Loss;
use gupfs_names::{AcceptedLoss, Batch, Format, Key, Numbers, Record};
use gupfs_proto::{OwnerEpoch, Timestamp, VirtualShard};
use gupfs_store::kv::{Kv, KvError};

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
    let seq = kv.stage(0, to_store(batch)).map_err(KvError::from)?;
    kv.durable(seq).await?;
    Ok(accepted)
}
