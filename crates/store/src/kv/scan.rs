//! Reads a range of records: the overlay merged over the index.

use super::{KvError, Shared};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Staged updates read in one step.
const STEP: usize = 4096;

impl Shared {
    /// Takes the overlay and a view of the index under one hold of the lock, so that a batch is seen as a whole: a
    /// batch that is applied during the read would otherwise show some keys, while older overlay entries hide others. A
    /// range with more than `STEP` staged updates is read in several such steps, as by a cursor.
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
                let mut updates = memory.staged(&from, &to);
                staged.extend(
                    updates
                        .by_ref()
                        .take(STEP)
                        .map(|(key, it)| (key.clone(), it.value.clone())),
                );
                // This step ends where the staged updates that it took end.
                let step_to = updates.next().map_or(to.clone(), |(key, _)| key.clone());
                (view, step_to)
            };
            let wanted = limit - found.len();
            let removed = staged.values().filter(|value| value.is_none()).count();
            let range = (
                Bound::Included(from.clone()),
                Bound::Excluded(step_to.clone()),
            );
            // Each removed key may hide one record of the index.
            let requested = wanted.saturating_add(removed);
            let below = view.scan(range, requested)?;
            // The index was not read to the end of the step: after its last returned key it may have more.
            let known_to = (below.len() == requested)
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
                Some(last) => successor(&last),
                None => step_to,
            };
        }
        found.truncate(limit);
        Ok(found)
    }
}

/// The smallest key above this one.
fn successor(key: &Bytes) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}
