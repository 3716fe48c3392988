//! The identities of targets as the metadata store has recorded them.

use crate::error::StartError;
use bytes::Bytes;
use gupfs_namespace::{KeyRange, KnownTarget, ParsedKey, Record, RecordKey, RecordKind};
use gupfs_proto::{OstId, VirtualShard};
use gupfs_store::kv::Kv;
use std::collections::BTreeMap;

/// The recorded identity of each target.
///
/// # Errors
/// `Format` if a record cannot be decoded, `Store` if the store fails.
pub(crate) fn recorded_targets(kv: &Kv) -> Result<BTreeMap<OstId, KnownTarget>, StartError> {
    let range = KeyRange::of_kind(VirtualShard(0), RecordKind::KnownTarget);
    // There are at most as many targets as there are numbers for them.
    let limit = usize::from(u16::MAX) + 1;
    let [from, to] = [range.from, range.to].map(|key| Bytes::copy_from_slice(key.as_bytes()));
    let records = kv.scan(from, to, limit)?;
    let mut targets = BTreeMap::new();
    for (key, value) in records {
        let key = RecordKey::from_bytes(&key);
        let known = KnownTarget::decode(&value)
            .map_err(|error| StartError::Format(format!("record {key:?}: {error}")))?;
        if let Some(ParsedKey::KnownTarget(ost)) = key.parse() {
            targets.insert(ost, known);
        }
    }
    Ok(targets)
}
