//! Filling a new index from a damaged store: with the records of its index that can be read, with the batches of its log.

use super::{KvError, body, limits};
use crate::index::{Changes, End, Index, IndexError, Range};
use crate::log::Survey;
use bytes::Bytes;
use gupfs_proto::Seq;
use std::ops::Bound;

/// Records read in one step.
const STEP: usize = 1_024;

/// Gives `to` every record of `from` that can be read, as of `seq`; `each` sees them. Returns the first failure to read some.
///
/// Where the whole cannot be read in one go it is read from both ends, and `ranges` one by one between: what is damaged costs the records
/// around it, not all behind it.
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
    let mut copy = |range: Range| -> Result<Option<(IndexError, Range)>, KvError> {
        let mut take = |records: &[(Bytes, Bytes)]| -> Result<(), IndexError> {
            let changes: Changes = records
                .iter()
                .inspect(|(key, value)| each(key, value))
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .collect();
            to.apply(seq, &changes)
        };
        let (failure, rest) = copy_from(End::First, from, range, &mut take)?;
        let Some(failure) = failure else {
            return Ok(None);
        };
        let (_, rest) = copy_from(End::Last, from, rest, &mut take)?;
        Ok(Some((failure, rest)))
    };
    let Some((failure, unread)) = copy((Bound::Unbounded, Bound::Unbounded))? else {
        return Ok(None);
    };
    for range in ranges {
        if let Some(part) = common(range, &unread) {
            copy(part)?;
        }
    }
    Ok(Some(failure))
}

/// Reads a range from one of its ends to the other, or to what cannot be read; returns that failure, and what was not read.
fn copy_from(
    end: End,
    from: &Index,
    mut range: Range,
    take: &mut impl FnMut(&[(Bytes, Bytes)]) -> Result<(), IndexError>,
) -> Result<(Option<IndexError>, Range), KvError> {
    loop {
        let (records, failure) = from.view().scan_readable(range.clone(), STEP, end);
        take(&records)?;
        if let Some((reached, _)) = records.last() {
            let bound = match end {
                End::First => &mut range.0,
                End::Last => &mut range.1,
            };
            *bound = Bound::Excluded(reached.clone());
        }
        if failure.is_some() || records.len() < STEP {
            return Ok((failure, range));
        }
    }
}

/// What two ranges have in common; None if they have nothing.
fn common((from, to): &Range, (other_from, other_to): &Range) -> Option<Range> {
    let key = |bound: &Bound<Bytes>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    let is_excluded = |bound: &Bound<Bytes>| matches!(bound, Bound::Excluded(_));
    let later = |bound: &&Bound<Bytes>| (key(bound), is_excluded(bound));
    // Of ends the earlier, and where both are the same key the one that excludes it; no end at all is the latest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::FILES_LEAST;
    use std::path::Path;

    fn open(dir: &Path) -> Index {
        Index::open_fjall(dir, FILES_LEAST).unwrap()
    }

    fn bound(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn what_is_damaged_costs_the_records_around_it() {
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
        let changes = all
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())));
        index.apply(Seq(1), &changes.collect()).unwrap();
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
        let tens: Vec<Range> = (0..60)
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
        assert_eq!(copied.len(), seen, "none was read twice");
        assert!(copied.iter().all(|record| all.contains(record)));
        let lost = all.len() - copied.len();
        assert!((2..300).contains(&lost), "{lost} are lost");
        // What lies between both is there.
        assert!(copied.iter().any(|(key, _)| *key == all[3_000].0));
    }

    #[test]
    fn two_ranges_have_in_common_what_lies_in_both() {
        use Bound::{Excluded, Included, Unbounded};
        let [a, b, c] = ["a", "b", "c"].map(bound);
        let all: Range = (Unbounded, Unbounded);
        let from_a: Range = (Included(a.clone()), Excluded(c.clone()));
        assert_eq!(common(&from_a, &all), Some(from_a.clone()));
        let behind_a: Range = (Excluded(a.clone()), Unbounded);
        let both = (Excluded(a.clone()), Excluded(c.clone()));
        assert_eq!(common(&from_a, &behind_a), Some(both.clone()));
        assert_eq!(common(&behind_a, &from_a), Some(both));
        let upto_a: Range = (Unbounded, Excluded(a));
        assert_eq!(common(&from_a, &upto_a), None);
        let from_c: Range = (Included(c), Unbounded);
        assert_eq!(common(&from_a, &from_c), None);
        let behind_b: Range = (Excluded(b.clone()), Unbounded);
        assert_eq!(common(&(Unbounded, Excluded(b)), &behind_b), None);
    }
}
