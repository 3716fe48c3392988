//! The format record of the store, which says whose store it is.

use crate::error::StartError;
use crate::store::to_store;
use gupfs_namespace::{Record, RecordKey, StoreFormat};
use gupfs_platform::Platform;
use gupfs_proto::{ClusterId, Incarnation, Seq, VirtualShards};
use gupfs_store::kv::{Kv, KvError};

/// The format record; None if the store is empty.
///
/// # Errors
/// `Format` if the store is no metadata store or cannot be decoded, `Store` if the store fails.
pub fn read_format(kv: &Kv) -> Result<Option<StoreFormat>, StartError> {
    match kv.get(RecordKey::format().as_bytes())? {
        Some(record) => match StoreFormat::decode(&record) {
            Ok(format) => Ok(Some(format)),
            Err(error) => Err(StartError::Format(error.to_string())),
        },
        None if kv.last_seq() == Seq(0) => Ok(None),
        None => Err(StartError::Format(
            "it has records, but no format record".into(),
        )),
    }
}

/// Writes the first batch; it is durable before any other batch depends on it.
///
/// # Errors
/// `Store` if the store fails.
pub async fn write_format(
    kv: &Kv,
    platform: &Platform,
    cluster: ClusterId,
    incarnation: Incarnation,
    shards: VirtualShards,
) -> Result<StoreFormat, StartError> {
    let now = platform.clock.now();
    let batch =
        gupfs_namespace::initial_batch(cluster, incarnation, shards, now, platform.random.u64());
    let staged = kv.stage(0, to_store(batch));
    let seq = staged.map_err(KvError::from)?;
    kv.wait_durable(seq).await?;
    match read_format(kv)? {
        Some(format) => Ok(format),
        None => unreachable!("it was written just now"),
    }
}
