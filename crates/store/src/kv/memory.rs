//! What of the store is in memory: the overlay of staged batches over the cache. Pure.

use super::Batch;
use super::cache::{Cache, cost};
use bytes::Bytes;
use gupfs_proto::Seq;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What memory knows of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peek {
    Known {
        value: Option<Bytes>,
        /// The batch that said so, if it is not committed yet: whoever answers by it waits for that.
        uncommitted: Option<Seq>,
    },
    Unknown,
}

pub struct Memory {
    overlay: BTreeMap<Bytes, Staged>,
    overlay_bytes: usize,
    cache: Cache,
    /// Staged and not applied, in order. Shared with the applier, so that it is merged and freed without the lock.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    applied: Seq,
    /// How often keys left the overlay: what was read from the index before may be old then.
    moment: Moment,
    pub groups: u64,
    pub grouped: u64,
}

pub struct Staged {
    pub seq: Seq,
    pub value: Option<Bytes>,
}

#[derive(Clone)]
pub struct Waiting {
    pub seq: Seq,
    pub batch: Arc<Batch>,
    pub bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment(u64);

impl Memory {
    pub fn new(cache_bytes: usize, applied: Seq) -> Memory {
        Memory {
            overlay: BTreeMap::new(),
            overlay_bytes: 0,
            cache: Cache::new(cache_bytes),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            applied,
            moment: Moment(0),
            groups: 0,
            grouped: 0,
        }
    }

    pub fn peek(&mut self, key: &[u8], committed: Seq) -> Peek {
        if let Some(staged) = self.overlay.get(key) {
            let uncommitted = (staged.seq > committed).then_some(staged.seq);
            return Peek::Known {
                value: staged.value.clone(),
                uncommitted,
            };
        }
        match self.cache.get(key) {
            Some(value) => Peek::Known {
                value,
                uncommitted: None,
            },
            None => Peek::Unknown,
        }
    }

    /// The value, or the moment at which it was unknown.
    pub fn look(&mut self, key: &[u8]) -> Result<Option<Bytes>, Moment> {
        if let Some(staged) = self.overlay.get(key) {
            return Ok(staged.value.clone());
        }
        self.cache.get(key).ok_or(self.moment)
    }

    /// Remembers what the index said, if nothing left the overlay since `asked` (None: the lock was held meanwhile).
    pub fn learn(&mut self, key: &[u8], value: Option<Bytes>, asked: Option<Moment>) -> bool {
        if asked.is_some_and(|asked| asked != self.moment) || self.overlay.contains_key(key) {
            return false;
        }
        self.cache.put(Bytes::copy_from_slice(key), value);
        true
    }

    /// Returns how many batches wait now.
    pub fn stage(&mut self, seq: Seq, batch: Batch) -> usize {
        let mut bytes = 0;
        for (key, value) in &batch {
            bytes += cost(key, value);
            self.overlay_bytes += cost(key, value);
            let staged = Staged {
                seq,
                value: value.clone(),
            };
            if let Some(former) = self.overlay.insert(key.clone(), staged) {
                self.overlay_bytes -= cost(key, &former.value);
            }
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting {
            seq,
            batch: Arc::new(batch),
            bytes,
        });
        self.waiting.len()
    }

    /// The next batches for the index: none behind `upto`, at most `most` and, but for the first, `most_bytes`.
    pub fn group(&self, upto: Seq, most: usize, most_bytes: usize) -> Vec<Waiting> {
        let mut bytes = 0;
        let fits = |waiting: &&Waiting| {
            bytes += waiting.bytes;
            waiting.seq <= upto && (bytes <= most_bytes || bytes == waiting.bytes)
        };
        let group = self.waiting.iter().take(most).take_while(fits);
        group.cloned().collect()
    }

    /// The index has the batches up to `seq`: some of the keys they changed leave the overlay for the cache, unless they
    /// were changed again. In parts, so that the lock is never held for long; each key is in the index before it leaves.
    pub fn leave(&mut self, seq: Seq, part: &[(Bytes, Option<Bytes>)]) {
        self.moment.0 += 1;
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

    /// All keys of a group have left. Returns the batches, to be freed without the lock.
    pub fn applied_group(&mut self, seq: Seq, count: usize) -> Vec<Waiting> {
        self.applied = seq;
        self.groups += 1;
        self.grouped += count as u64;
        let gone: Vec<Waiting> = self.waiting.drain(..count).collect();
        self.waiting_bytes -= gone.iter().map(|waiting| waiting.bytes).sum::<usize>();
        gone
    }

    /// Staged changes with `from <= key < to`, ascending.
    pub fn staged(&self, from: &Bytes, to: &Bytes) -> impl Iterator<Item = (&Bytes, &Staged)> {
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

    /// Of the batches that wait: a key that is changed again and again lies in the overlay once, in them often.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }
}
