//! Encoding of a batch as the body of a log record.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | number of updates |
//! | then for each update: 4 | length of the key |
//! | 4 | length of the value; `u32::MAX`: the key is removed |
//! | … | key, value |
//!
//! Numbers are little-endian. The log record around the batch has the checksum and the format version.

use super::KvBatch;
use bytes::{Buf, Bytes};

const REMOVED: u32 = u32::MAX;

/// The number of bytes that `encode` writes.
pub fn encoded_len(batch: &KvBatch) -> usize {
    let updates = batch.iter().map(|(key, value)| {
        let value = value.as_ref().map_or(0, |value| value.len());
        8 + key.len() + value
    });
    4 + updates.sum::<usize>()
}

pub fn encode(batch: &KvBatch, body: &mut Vec<u8>) {
    let mut put = |number: usize| body.extend_from_slice(&(number as u32).to_le_bytes());
    put(batch.len());
    for (key, value) in batch {
        body.extend_from_slice(&(key.len() as u32).to_le_bytes());
        body.extend_from_slice(
            &value
                .as_ref()
                .map_or(REMOVED, |value| value.len() as u32)
                .to_le_bytes(),
        );
        body.extend_from_slice(key);
        if let Some(value) = value {
            body.extend_from_slice(value);
        }
    }
}

/// None if the bytes are not an encoded batch.
pub fn decode(mut body: Bytes) -> Option<KvBatch> {
    let count = number(&mut body)?;
    let mut batch = KvBatch::new();
    for _ in 0..count {
        let key_len = number(&mut body)? as usize;
        let value_len = number(&mut body)?;
        let key = take(&mut body, key_len)?;
        let value = match value_len {
            REMOVED => None,
            len => Some(take(&mut body, len as usize)?),
        };
        batch.push((key, value));
    }
    body.is_empty().then_some(batch)
}

fn number(body: &mut Bytes) -> Option<u32> {
    (body.len() >= 4).then(|| body.get_u32_le())
}

fn take(body: &mut Bytes, len: usize) -> Option<Bytes> {
    (body.len() >= len).then(|| body.split_to(len))
}
