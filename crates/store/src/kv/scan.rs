//! A range of records: the overlay laid over the index.

use super::{KvError, Shared};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Staged changes looked at in one step.
const STEP: usize = 4096;

impl Shared {
    /// Overlay and index are looked at in one moment, so that a batch is seen whole: one that moves into the index during
    /// the read would otherwise show with some keys and be hidden behind older overlay entries with others. A range with
    /// more staged changes than `STEP` is read in several such moments, as by a cursor.
    pub fn scan(
        &self,
        from: Bytes,
        to: Bytes,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, KvError> {
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        let mut from = from;
        while found.len() < limit && from < to {
            let mut staged: BTreeMap<Bytes, Option<Bytes>> = BTreeMap::new();
            let (view, step_to) = {
                let memory = self.memory.lock();
                let view = self.index.view();
                let mut changes = memory.staged(&from, &to);
                staged.extend(
                    changes
                        .by_ref()
                        .take(STEP)
                        .map(|(key, it)| (key.clone(), it.value.clone())),
                );
                // This step ends where the changes it knows end.
                let step_to = changes.next().map_or(to.clone(), |(key, _)| key.clone());
                (view, step_to)
            };
            let wanted = limit - found.len();
            let removed = staged.values().filter(|value| value.is_none()).count();
            let range = (
                Bound::Included(from.clone()),
                Bound::Excluded(step_to.clone()),
            );
            // Every removed key may hide one record of the index.
            let asked = wanted.saturating_add(removed);
            let below = view.scan(range, asked)?;
            // The index was not read to the end of the step: behind its last key it may have more.
            let known_to = (below.len() == asked)
                .then(|| below.last().map(|(key, _)| key.clone()))
                .flatten();
            let mut merged: BTreeMap<Bytes, Option<Bytes>> = below
                .into_iter()
                .map(|(key, value)| (key, Some(value)))
                .collect();
            merged.extend(staged);
            let upto = known_to.clone();
            let whole = merged
                .into_iter()
                .take_while(|(key, _)| upto.as_ref().is_none_or(|upto| key <= upto));
            found.extend(whole.filter_map(|(key, value)| value.map(|value| (key, value))));
            from = match known_to {
                Some(last) => behind(&last),
                None => step_to,
            };
        }
        found.truncate(limit);
        Ok(found)
    }
}

/// The smallest key above this one.
fn behind(key: &Bytes) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}
