//! The part of a store that is in memory: the overlay of staged batches over the cache. No I/O, no clock.

use super::KvBatch;
use super::cache::{RecordCache, cost};
use bytes::Bytes;
use gupfs_proto::Seq;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Result of a lookup in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeekResult {
    Known {
        value: Option<Bytes>,
        /// The batch that set this value, if it is not committed yet. A caller that replies with this value must wait
        /// until it is.
        uncommitted: Option<Seq>,
    },
    Unknown,
}

pub struct MemoryLayers {
    overlay: BTreeMap<Bytes, StagedValue>,
    overlay_bytes: usize,
    cache: RecordCache,
    /// Batches that are staged and not applied, in order. Shared with the applier, so that it merges and frees them
    /// without the lock.
    waiting: VecDeque<StagedBatch>,
    waiting_bytes: usize,
    applied: Seq,
    /// Counts how often keys left the overlay. A value that was read from the index before may be outdated after that.
    overlay_version: OverlayVersion,
    pub groups: u64,
    pub grouped: u64,
}

pub struct StagedValue {
    pub seq: Seq,
    pub value: Option<Bytes>,
}

#[derive(Clone)]
pub struct StagedBatch {
    pub seq: Seq,
    pub batch: Arc<KvBatch>,
    pub bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayVersion(u64);

impl MemoryLayers {
    pub fn new(cache_bytes: usize, applied: Seq) -> MemoryLayers {
        MemoryLayers {
            overlay: BTreeMap::new(),
            overlay_bytes: 0,
            cache: RecordCache::new(cache_bytes),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            applied,
            overlay_version: OverlayVersion(0),
            groups: 0,
            grouped: 0,
        }
    }

    pub fn peek(&mut self, key: &[u8], committed: Seq) -> PeekResult {
        if let Some(staged) = self.overlay.get(key) {
            let uncommitted = (staged.seq > committed).then_some(staged.seq);
            return PeekResult::Known {
                value: staged.value.clone(),
                uncommitted,
            };
        }
        match self.cache.get(key) {
            Some(value) => PeekResult::Known {
                value,
                uncommitted: None,
            },
            None => PeekResult::Unknown,
        }
    }

    /// The value, or, if it is not in memory, the current version of the overlay.
    pub fn lookup(&mut self, key: &[u8]) -> Result<Option<Bytes>, OverlayVersion> {
        if let Some(staged) = self.overlay.get(key) {
            return Ok(staged.value.clone());
        }
        self.cache.get(key).ok_or(self.overlay_version)
    }

    /// Caches a value that the index returned, if no key left the overlay since `version` (None: the caller held the
    /// lock meanwhile). Returns whether it did.
    pub fn cache_value(
        &mut self,
        key: &[u8],
        value: Option<Bytes>,
        version: Option<OverlayVersion>,
    ) -> bool {
        if version.is_some_and(|version| version != self.overlay_version)
            || self.overlay.contains_key(key)
        {
            return false;
        }
        self.cache.put(Bytes::copy_from_slice(key), value);
        true
    }

    /// Adds a staged batch. Returns how many batches wait for the index.
    pub fn stage(&mut self, seq: Seq, batch: KvBatch) -> usize {
        let mut bytes = 0;
        for (key, value) in &batch {
            bytes += cost(key, value);
            self.overlay_bytes += cost(key, value);
            let staged = StagedValue {
                seq,
                value: value.clone(),
            };
            if let Some(former) = self.overlay.insert(key.clone(), staged) {
                self.overlay_bytes -= cost(key, &former.value);
            }
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(StagedBatch {
            seq,
            batch: Arc::new(batch),
            bytes,
        });
        self.waiting.len()
    }

    /// The next batches for the index: none after `upto`, at most `most`, and, except for the first, at most
    /// `most_bytes`.
    pub fn group(&self, upto: Seq, most: usize, most_bytes: usize) -> Vec<StagedBatch> {
        let mut bytes = 0;
        let fits = |waiting: &&StagedBatch| {
            bytes += waiting.bytes;
            waiting.seq <= upto && (bytes <= most_bytes || bytes == waiting.bytes)
        };
        let group = self.waiting.iter().take(most).take_while(fits);
        group.cloned().collect()
    }

    /// Moves keys of batches up to `seq`, which the index has, from the overlay to the cache, unless a later batch
    /// updated them. The caller passes a group's keys in parts, so that it never holds the lock for long. Each key is
    /// in the index before it leaves the overlay.
    pub fn move_to_cache(&mut self, seq: Seq, part: &[(Bytes, Option<Bytes>)]) {
        self.overlay_version.0 += 1;
        for (key, value) in part {
            if self
                .overlay
                .get(key)
                .is_some_and(|staged| staged.seq <= seq)
            {
                self.overlay.remove(key);
                self.overlay_bytes -= cost(key, value);
                self.cache.put(key.clone(), value.clone());
            }
        }
    }

    /// All keys of the group have left the overlay. Returns the batches, for the caller to free without the lock.
    pub fn finish_group(&mut self, seq: Seq, count: usize) -> Vec<StagedBatch> {
        self.applied = seq;
        self.groups += 1;
        self.grouped += count as u64;
        let gone: Vec<StagedBatch> = self.waiting.drain(..count).collect();
        self.waiting_bytes -= gone.iter().map(|waiting| waiting.bytes).sum::<usize>();
        gone
    }

    /// Staged updates with `from <= key < to`, ascending.
    pub fn staged(&self, from: &Bytes, to: &Bytes) -> impl Iterator<Item = (&Bytes, &StagedValue)> {
        self.overlay.range(from.clone()..to.clone())
    }

    pub fn applied(&self) -> Seq {
        self.applied
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn overlay_keys(&self) -> usize {
        self.overlay.len()
    }

    pub fn overlay_bytes(&self) -> usize {
        self.overlay_bytes
    }

    /// Memory of the waiting batches. A key that many of them update is in the overlay once, but in each of these
    /// batches.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }
}
