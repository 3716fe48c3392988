//! An index in memory that keeps a prefix of what it was given when it crashes: at least what was persisted.

use super::error::IndexError;
use super::{Changes, IndexView, ViewKind};
use crate::log::StoreId;
use bytes::Bytes;
use gupfs_platform::Dice;
use gupfs_proto::Seq;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones are the same index; it outlives the process that uses it.
#[derive(Clone, Default)]
pub struct FakeIndex(Arc<Mutex<State>>);

#[derive(Clone, Default)]
struct State {
    store: Option<StoreId>,
    /// Shared with views: copied when it changes while one is open.
    records: Arc<BTreeMap<Bytes, Bytes>>,
    applied: Seq,
    /// As it was when `persist` was last called.
    persisted: Arc<BTreeMap<Bytes, Bytes>>,
    persisted_applied: Seq,
    /// Groups applied since.
    since: Vec<(Seq, Changes)>,
}

impl FakeIndex {
    pub fn new() -> FakeIndex {
        FakeIndex::default()
    }

    /// What it holds now, for another process.
    pub fn copy(&self) -> FakeIndex {
        FakeIndex(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// Power is cut: any prefix of the groups behind the last `persist` may be kept.
    pub fn crash(&self, dice: &Dice) {
        let mut state = self.0.lock();
        let kept = dice.u64() as usize % (state.since.len() + 1);
        state.records = state.persisted.clone();
        state.applied = state.persisted_applied;
        let since = std::mem::take(&mut state.since);
        for (seq, changes) in since.into_iter().take(kept) {
            put(Arc::make_mut(&mut state.records), &changes);
            state.applied = seq;
        }
        state.persisted = state.records.clone();
        state.persisted_applied = state.applied;
    }

    pub fn applied(&self) -> Seq {
        self.0.lock().applied
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, IndexError> {
        Ok(self.0.lock().records.get(key).cloned())
    }

    pub fn view(&self) -> IndexView {
        IndexView(ViewKind::Fake(Arc::clone(&self.0.lock().records)))
    }

    pub fn claim(&self, store: StoreId) -> Result<(), IndexError> {
        let mut state = self.0.lock();
        if *state.store.get_or_insert(store) == store {
            Ok(())
        } else {
            Err(IndexError::Foreign)
        }
    }

    pub fn apply(&self, seq: Seq, changes: &Changes) -> Result<(), IndexError> {
        let mut state = self.0.lock();
        put(Arc::make_mut(&mut state.records), changes);
        state.applied = seq;
        state.since.push((seq, changes.clone()));
        Ok(())
    }

    pub fn persist(&self) -> Result<(), IndexError> {
        let mut state = self.0.lock();
        state.persisted = state.records.clone();
        state.persisted_applied = state.applied;
        state.since.clear();
        Ok(())
    }
}

fn put(records: &mut BTreeMap<Bytes, Bytes>, changes: &Changes) {
    for (key, value) in changes {
        match value {
            Some(value) => records.insert(key.clone(), value.clone()),
            None => records.remove(key),
        };
    }
}
