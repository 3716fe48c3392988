//! An index in memory. A crash leaves a prefix of the groups that were applied to it, at least the persisted ones.

use super::error::IndexError;
use super::{IndexUpdates, IndexView, ViewKind};
use crate::log::StoreId;
use bytes::Bytes;
use gupfs_platform::Random;
use gupfs_proto::Seq;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones are the same index. It outlives the simulated process that uses it.
#[derive(Clone, Default)]
pub struct FakeIndex(Arc<Mutex<FakeState>>);

#[derive(Clone, Default)]
struct FakeState {
    store: Option<StoreId>,
    /// Shared with views: copied on a change while a view is open.
    records: Arc<BTreeMap<Bytes, Bytes>>,
    applied: Seq,
    /// The records at the last `persist`.
    persisted: Arc<BTreeMap<Bytes, Bytes>>,
    persisted_applied: Seq,
    /// Groups applied since the last `persist`.
    since: Vec<(Seq, IndexUpdates)>,
}

impl FakeIndex {
    pub fn new() -> FakeIndex {
        FakeIndex::default()
    }

    /// A copy of the current content, for another process.
    pub fn copy(&self) -> FakeIndex {
        FakeIndex(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// Simulates a power loss: a random prefix of the groups after the last `persist` is kept.
    pub fn crash(&self, random: &Random) {
        let mut state = self.0.lock();
        let kept = random.u64() as usize % (state.since.len() + 1);
        state.records = state.persisted.clone();
        state.applied = state.persisted_applied;
        let since = std::mem::take(&mut state.since);
        for (seq, updates) in since.into_iter().take(kept) {
            apply_updates(Arc::make_mut(&mut state.records), &updates);
            state.applied = seq;
        }
        state.persisted = state.records.clone();
        state.persisted_applied = state.applied;
    }

    pub fn applied(&self) -> Seq {
        self.0.lock().applied
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        Ok(self.0.lock().records.get(key).cloned())
    }

    pub fn view(&self) -> IndexView {
        IndexView(ViewKind::Fake(Arc::clone(&self.0.lock().records)))
    }

    pub(super) fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        let mut state = self.0.lock();
        if *state.store.get_or_insert(store) == store {
            Ok(())
        } else {
            Err(IndexError::OtherStore)
        }
    }

    pub(super) fn apply(&self, seq: Seq, updates: &IndexUpdates) -> Result<(), IndexError> {
        let mut state = self.0.lock();
        apply_updates(Arc::make_mut(&mut state.records), updates);
        state.applied = seq;
        state.since.push((seq, updates.clone()));
        Ok(())
    }

    pub(super) fn persist(&self) -> Result<(), IndexError> {
        let mut state = self.0.lock();
        state.persisted = state.records.clone();
        state.persisted_applied = state.applied;
        state.since.clear();
        Ok(())
    }
}

fn apply_updates(records: &mut BTreeMap<Bytes, Bytes>, updates: &IndexUpdates) {
    for (key, value) in updates {
        match value {
            Some(value) => records.insert(key.clone(), value.clone()),
            None => records.remove(key),
        };
    }
}
