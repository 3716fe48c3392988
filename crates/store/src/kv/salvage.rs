//! Fills a new index from a damaged store: with the readable records of its index, and with the batches of its log.

use super::{KvError, batch_codec, limits};
use crate::index::{Index, IndexError, IndexUpdates, KeyBounds, RangeEnd};
use crate::log::LogSurvey;
use bytes::Bytes;
use gupfs_proto::Seq;
use std::ops::Bound;

/// Records read in one step.
const STEP: usize = 1_024;

/// Copies every readable record of `from` to `to`, with `seq` as the last applied batch, and calls `each` for it.
/// Returns the first read failure, if any.
///
/// If `from` cannot be read from start to end, this reads it from both ends, and each of `ranges` in between. So damage
/// costs the records around it, and not all records behind it.
///
/// # Errors
/// The errors of `to`.
pub fn copy_records(
    from: &Index,
    to: &Index,
    seq: Seq,
    ranges: &[KeyBounds],
    mut each: impl FnMut(&Bytes, &Bytes),
) -> Result<Option<IndexError>, KvError> {
    let mut copy = |range: KeyBounds| -> Result<Option<(IndexError, KeyBounds)>, KvError> {
        let mut take = |records: &[(Bytes, Bytes)]| -> Result<(), IndexError> {
            let updates: IndexUpdates = records
                .iter()
                .inspect(|(key, value)| each(key, value))
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .collect();
            to.apply(seq, &updates)
        };
        let (failure, rest) = copy_from(RangeEnd::First, from, range, &mut take)?;
        let Some(failure) = failure else {
            return Ok(None);
        };
        let (_, rest) = copy_from(RangeEnd::Last, from, rest, &mut take)?;
        Ok(Some((failure, rest)))
    };
    let Some((failure, unread)) = copy((Bound::Unbounded, Bound::Unbounded))? else {
        return Ok(None);
    };
    for range in ranges {
        if let Some(part) = intersection(range, &unread) {
            copy(part)?;
        }
    }
    Ok(Some(failure))
}

/// Reads a range from one of its ends to the other, or to the first failure. Returns that failure, and the part of the
/// range that was not read.
fn copy_from(
    end: RangeEnd,
    from: &Index,
    mut range: KeyBounds,
    take: &mut impl FnMut(&[(Bytes, Bytes)]) -> Result<(), IndexError>,
) -> Result<(Option<IndexError>, KeyBounds), KvError> {
    loop {
        let (records, failure) = from.view().scan_readable(range.clone(), STEP, end);
        take(&records)?;
        if let Some((reached, _)) = records.last() {
            let bound = match end {
                RangeEnd::First => &mut range.0,
                RangeEnd::Last => &mut range.1,
            };
            *bound = Bound::Excluded(reached.clone());
        }
        if failure.is_some() || records.len() < STEP {
            return Ok((failure, range));
        }
    }
}

/// The intersection of two ranges; None if it is empty.
fn intersection((from, to): &KeyBounds, (other_from, other_to): &KeyBounds) -> Option<KeyBounds> {
    let key = |bound: &Bound<Bytes>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    let is_excluded = |bound: &Bound<Bytes>| matches!(bound, Bound::Excluded(_));
    let later = |bound: &&Bound<Bytes>| (key(bound), is_excluded(bound));
    // The earlier of two ends; of two ends at the same key the one that excludes it. An unbounded end is the last.
    let sooner = |bound: &&Bound<Bytes>| (key(bound).is_none(), key(bound), !is_excluded(bound));
    let from = [from, other_from].into_iter().max_by_key(later)?;
    let to = [to, other_to].into_iter().min_by_key(sooner)?;
    let is_empty = match (key(from), key(to)) {
        (Some(first), Some(end)) => {
            first > end || (first == end && (is_excluded(from) || is_excluded(to)))
        }
        _ => false,
    };
    (!is_empty).then(|| (from.clone(), to.clone()))
}

/// Applies the batches of a survey to an index. Returns their number.
///
/// # Errors
/// `Malformed` for a batch that verifies and cannot be decoded; an error of the log's disk or of the index.
pub async fn replay_survey(index: &Index, survey: &mut LogSurvey) -> Result<u64, KvError> {
    let (mut updates, mut last) = (IndexUpdates::new(), Seq(0));
    let (mut batches, mut bytes) = (0, 0);
    loop {
        let record = survey.next().await?;
        if let Some(record) = &record {
            let batch = batch_codec::decode(record.body.clone())
                .ok_or(KvError::Malformed { seq: record.seq })?;
            // Copied, because a slice would keep its whole segment in memory.
            updates.extend(super::apply::copy_to_own_buffers(
                batch.into_iter().collect(),
            ));
            bytes += record.body.len();
            batches += 1;
            last = record.seq;
        }
        if bytes >= limits::GROUP_BYTES || (record.is_none() && !updates.is_empty()) {
            index.apply(last, &updates)?;
            updates.clear();
            bytes = 0;
        }
        if record.is_none() {
            return Ok(batches);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::OPEN_TABLES_MIN;
    use std::path::Path;

    fn open(dir: &Path) -> Index {
        Index::open_fjall(dir, OPEN_TABLES_MIN).unwrap()
    }

    fn bound(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn damage_costs_only_the_records_around_it() {
        let dir = tempfile::tempdir().unwrap();
        let (damaged, made) = (dir.path().join("damaged"), dir.path().join("made"));
        let all: Vec<(Bytes, Bytes)> = (0..6_000)
            .map(|n| {
                (
                    bound(&format!("{n:04}")),
                    bound(&format!("{n} ").repeat(20)),
                )
            })
            .collect();
        let index = open(&damaged);
        let updates = all
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())));
        index.apply(Seq(1), &updates.collect()).unwrap();
        index.persist().unwrap();
        drop(index);
        let tables = std::fs::read_dir(damaged.join("keyspaces")).unwrap();
        let tables = tables.flat_map(|keyspace| {
            std::fs::read_dir(keyspace.unwrap().path().join("tables")).unwrap()
        });
        let path = tables
            .map(|table| table.unwrap().path())
            .max_by_key(|path| std::fs::metadata(path).unwrap().len())
            .unwrap();
        let mut table = std::fs::read(&path).unwrap();
        for part in [1, 2] {
            let at = table.len() * part / 3;
            table[at] ^= 1;
        }
        std::fs::write(&path, table).unwrap();

        let (from, to) = (open(&damaged), open(&made));
        let tens: Vec<KeyBounds> = (0..60)
            .map(|n| {
                let [first, end] = [n, n + 1].map(|n| bound(&format!("{n:02}")));
                (Bound::Included(first), Bound::Excluded(end))
            })
            .collect();
        let mut seen = 0;
        let failure = copy_records(&from, &to, Seq(1), &tens, |_, _| seen += 1).unwrap();
        assert!(
            matches!(failure, Some(IndexError::Engine(_))),
            "{failure:?}"
        );
        let copied = to
            .scan((Bound::Unbounded, Bound::Unbounded), 10_000)
            .unwrap();
        assert_eq!(copied.len(), seen, "no record was copied twice");
        assert!(copied.iter().all(|record| all.contains(record)));
        let lost = all.len() - copied.len();
        assert!((2..300).contains(&lost), "{lost} are lost");
        // The records between the two damaged blocks are there.
        assert!(copied.iter().any(|(key, _)| *key == all[3_000].0));
    }

    #[test]
    fn the_intersection_of_two_ranges() {
        use Bound::{Excluded, Included, Unbounded};
        let [a, b, c] = ["a", "b", "c"].map(bound);
        let all: KeyBounds = (Unbounded, Unbounded);
        let from_a: KeyBounds = (Included(a.clone()), Excluded(c.clone()));
        assert_eq!(intersection(&from_a, &all), Some(from_a.clone()));
        let behind_a: KeyBounds = (Excluded(a.clone()), Unbounded);
        let both = (Excluded(a.clone()), Excluded(c.clone()));
        assert_eq!(intersection(&from_a, &behind_a), Some(both.clone()));
        assert_eq!(intersection(&behind_a, &from_a), Some(both));
        let upto_a: KeyBounds = (Unbounded, Excluded(a));
        assert_eq!(intersection(&from_a, &upto_a), None);
        let from_c: KeyBounds = (Included(c), Unbounded);
        assert_eq!(intersection(&from_a, &from_c), None);
        let behind_b: KeyBounds = (Excluded(b.clone()), Unbounded);
        assert_eq!(intersection(&(Unbounded, Excluded(b)), &behind_b), None);
    }
}
