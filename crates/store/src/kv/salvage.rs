//! Filling a new index from a damaged store: with the records of its index that can be read, with the batches of its log.

use super::{KvError, body, limits};
use crate::index::{Changes, Index, IndexError, Range};
use crate::log::Survey;
use bytes::Bytes;
use gupfs_proto::Seq;
use std::ops::Bound;

/// Records read in one step.
const STEP: usize = 1_024;

/// Gives `to` every record of `from` that can be read, as of `seq`; `each` sees them. Returns the first failure to read some.
///
/// `ranges` are tried one by one, forwards and backwards, where the whole cannot be read in one go: what is damaged costs the
/// records around it, not all behind it.
///
/// # Errors
/// What `to` says.
pub fn copy_records(
    from: &Index,
    to: &Index,
    seq: Seq,
    ranges: &[Range],
    mut each: impl FnMut(&Bytes, &Bytes),
) -> Result<Option<IndexError>, KvError> {
    let mut take = |records: &[(Bytes, Bytes)]| -> Result<(), IndexError> {
        let changes: Changes = records
            .iter()
            .inspect(|(key, value)| each(key, value))
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect();
        to.apply(seq, &changes)
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    let Some(failure) = forwards(from, all, &mut take)? else {
        return Ok(None);
    };
    for range in ranges {
        if forwards(from, range.clone(), &mut take)?.is_some() {
            backwards(from, range.clone(), &mut take)?;
        }
    }
    Ok(Some(failure))
}

/// Reads up to the end or to what cannot be read.
fn forwards(
    from: &Index,
    mut range: Range,
    take: &mut impl FnMut(&[(Bytes, Bytes)]) -> Result<(), IndexError>,
) -> Result<Option<IndexError>, KvError> {
    let mut step = STEP;
    loop {
        match from.scan(range.clone(), step) {
            Ok(records) => {
                take(&records)?;
                match records.last() {
                    Some((last, _)) if records.len() == step => {
                        range.0 = Bound::Excluded(last.clone());
                    }
                    _ => return Ok(None),
                }
            }
            // Closer to what cannot be read.
            Err(_) if step > 1 => step /= 2,
            Err(error) => return Ok(Some(error)),
        }
    }
}

fn backwards(
    from: &Index,
    mut range: Range,
    take: &mut impl FnMut(&[(Bytes, Bytes)]) -> Result<(), IndexError>,
) -> Result<(), KvError> {
    let mut step = STEP;
    loop {
        match from.view().scan_back(range.clone(), step) {
            Ok(records) => {
                take(&records)?;
                match records.last() {
                    Some((first, _)) if records.len() == step => {
                        range.1 = Bound::Excluded(first.clone());
                    }
                    _ => return Ok(()),
                }
            }
            Err(_) if step > 1 => step /= 2,
            Err(_) => return Ok(()),
        }
    }
}

/// Gives an index the batches that a survey gives out. Returns how many.
pub async fn replay_survey(index: &Index, survey: &mut Survey) -> Result<u64, KvError> {
    let (mut changes, mut last) = (Changes::new(), Seq(0));
    let (mut batches, mut bytes) = (0, 0);
    loop {
        let record = survey.next().await?;
        if let Some(record) = &record {
            let batch =
                body::decode(record.body.clone()).ok_or(KvError::Malformed { seq: record.seq })?;
            // Copied: a slice would keep its whole segment in memory.
            changes.extend(super::apply::own_memory(batch.into_iter().collect()));
            bytes += record.body.len();
            batches += 1;
            last = record.seq;
        }
        if bytes >= limits::GROUP_BYTES || (record.is_none() && !changes.is_empty()) {
            index.apply(last, &changes)?;
            changes.clear();
            bytes = 0;
        }
        if record.is_none() {
            return Ok(batches);
        }
    }
}
