//! The bytes of one file: the current contents, the durable contents, and the versions in between.

use crate::random::fake::FakeRandom;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SECTOR: u64 = 512;

/// Unit of space allocation.
pub const BLOCK: u64 = 4096;

/// Logical time of a change: the number of calls to the disk so far.
pub type Stamp = u64;

#[derive(Clone)]
enum Sector {
    /// Allocated space without data: reads as zeros, and is a hole for `seek_data`.
    Reserved,
    Data(Arc<[u8; SECTOR as usize]>),
}

#[derive(Clone, Default)]
struct Image {
    len: u64,
    sectors: BTreeMap<u64, Sector>,
}

/// Versions of one value (a sector, the length) since it was last durable, oldest first.
#[derive(Clone)]
struct Versions<T>(Vec<(Stamp, T)>);

#[derive(Clone, Default)]
pub struct Content {
    live: Image,
    durable: Image,
    sectors: BTreeMap<u64, Versions<Option<Sector>>>,
    lens: Versions<u64>,
}

/// Which unsynced changes survive a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    All,
    None,
    Some,
}

impl Survival {
    pub fn random(random: &FakeRandom) -> Survival {
        match random.below(4) {
            0 => Survival::All,
            1 => Survival::None,
            _ => Survival::Some,
        }
    }

    pub fn survives(self, random: &FakeRandom) -> bool {
        match self {
            Survival::All => true,
            Survival::None => false,
            Survival::Some => random.one_in(2),
        }
    }
}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Versions(Vec::new())
    }
}

impl<T> Versions<T> {
    fn begins_by(&self, stamp: Stamp) -> bool {
        self.0.first().is_some_and(|(at, _)| *at <= stamp)
    }

    /// Removes all versions up to `stamp` and returns the newest of them.
    fn take_newest(&mut self, stamp: Stamp) -> Option<T> {
        let count = self.0.partition_point(|(at, _)| *at <= stamp);
        self.0.drain(..count).next_back().map(|(_, value)| value)
    }

    /// Removes all versions up to `stamp` and returns a random one of them, or none: the version that reached the disk.
    fn take_random(&mut self, stamp: Stamp, survival: Survival, random: &FakeRandom) -> Option<T> {
        let count = self.0.partition_point(|(at, _)| *at <= stamp);
        let pick = match survival {
            Survival::All => count,
            Survival::None => 0,
            Survival::Some => random.below(count as u64 + 1) as usize,
        };
        let mut old = self.0.drain(..count);
        pick.checked_sub(1)
            .and_then(|index| old.nth(index))
            .map(|(_, value)| value)
    }
}

impl Content {
    pub fn len(&self) -> u64 {
        self.live.len
    }

    /// Bytes of space that the current contents take.
    pub fn allocated(&self) -> u64 {
        self.live.sectors.len() as u64 * SECTOR
    }

    pub fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let len = (self.live.len.saturating_sub(offset)).min(buf.len() as u64) as usize;
        for (sector, within, part) in sectors_of(offset, len) {
            let into = &mut buf[part];
            match self.live.sectors.get(&sector) {
                Some(Sector::Data(data)) => {
                    into.copy_from_slice(&data[within..within + into.len()]);
                }
                _ => into.fill(0),
            }
        }
        len
    }

    /// Additional bytes of space that a write to this range needs.
    pub fn cost(&self, offset: u64, len: u64) -> u64 {
        let first = offset / BLOCK * BLOCK / SECTOR;
        let end = (offset + len).next_multiple_of(BLOCK) / SECTOR;
        let have = self.live.sectors.range(first..end).count() as u64;
        (end - first - have) * SECTOR
    }

    pub fn write(&mut self, bytes: &[u8], offset: u64, stamp: Stamp) {
        if bytes.is_empty() {
            return;
        }
        self.reserve(offset, bytes.len() as u64, stamp);
        for (sector, within, part) in sectors_of(offset, bytes.len()) {
            let mut data = match self.live.sectors.get(&sector) {
                Some(Sector::Data(old)) => **old,
                _ => [0; SECTOR as usize],
            };
            let from = &bytes[part];
            data[within..within + from.len()].copy_from_slice(from);
            self.put(sector, Some(Sector::Data(Arc::new(data))), stamp);
        }
        self.grow(offset + bytes.len() as u64, stamp);
    }

    /// Allocates space for the whole blocks around a range where they have none.
    pub fn reserve(&mut self, offset: u64, len: u64, stamp: Stamp) {
        let first = offset / BLOCK * BLOCK / SECTOR;
        let end = (offset + len).next_multiple_of(BLOCK) / SECTOR;
        for sector in first..end {
            if !self.live.sectors.contains_key(&sector) {
                self.put(sector, Some(Sector::Reserved), stamp);
            }
        }
    }

    pub fn grow(&mut self, len: u64, stamp: Stamp) {
        if len > self.live.len {
            self.record_len(len, stamp);
        }
    }

    pub fn set_len(&mut self, len: u64, stamp: Stamp) {
        if len < self.live.len {
            let old = self.live.len;
            self.zero(len, old - len, stamp);
            let keep = len.next_multiple_of(BLOCK) / SECTOR;
            let gone: Vec<u64> = self.live.sectors.range(keep..).map(|(s, _)| *s).collect();
            for sector in gone {
                self.put(sector, None, stamp);
            }
        }
        if len != self.live.len {
            self.record_len(len, stamp);
        }
    }

    /// Zeros the data in a range.
    pub fn zero(&mut self, offset: u64, len: u64, stamp: Stamp) {
        let end = offset + len;
        let changed: Vec<u64> = self
            .live
            .sectors
            .range(offset / SECTOR..end.div_ceil(SECTOR))
            .filter(|(_, what)| matches!(what, Sector::Data(_)))
            .map(|(sector, _)| *sector)
            .collect();
        for sector in changed {
            let Some(Sector::Data(old)) = self.live.sectors.get(&sector) else {
                continue;
            };
            let mut data = **old;
            let start = sector * SECTOR;
            let from = offset.saturating_sub(start).min(SECTOR) as usize;
            let to = (end - start).min(SECTOR) as usize;
            data[from..to].fill(0);
            self.put(sector, Some(Sector::Data(Arc::new(data))), stamp);
        }
    }

    /// Turns the whole blocks of a range into reserved space or holes, and zeros the partial blocks at its ends.
    pub fn clear(&mut self, offset: u64, len: u64, keep_space: bool, stamp: Stamp) {
        self.zero(offset, len, stamp);
        let first = offset.next_multiple_of(BLOCK) / SECTOR;
        let end = (offset + len) / BLOCK * BLOCK / SECTOR;
        if first >= end {
            return;
        }
        let whole: Vec<u64> = self
            .live
            .sectors
            .range(first..end)
            .map(|(s, _)| *s)
            .collect();
        for sector in whole {
            self.put(sector, keep_space.then_some(Sector::Reserved), stamp);
        }
    }

    pub fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        if offset >= self.live.len {
            return None;
        }
        let is_data = |sector: u64| matches!(self.live.sectors.get(&sector), Some(Sector::Data(_)));
        let mut at = offset;
        while at < self.live.len {
            // A block is data if any of its sectors is data, as on a real file system.
            let first = at / BLOCK * BLOCK / SECTOR;
            if (first..first + BLOCK / SECTOR).any(is_data) == data {
                return Some(at);
            }
            at = (at / BLOCK + 1) * BLOCK;
        }
        (!data).then_some(self.live.len)
    }

    /// Whether a change up to `stamp` is not durable.
    pub fn is_dirty(&self, stamp: Stamp) -> bool {
        self.lens.begins_by(stamp) || self.sectors.values().any(|sector| sector.begins_by(stamp))
    }

    /// Makes all changes up to `stamp` durable.
    pub fn make_durable(&mut self, stamp: Stamp) {
        let durable = &mut self.durable;
        self.sectors.retain(|sector, versions| {
            if let Some(version) = versions.take_newest(stamp) {
                durable.put(*sector, version);
            }
            !versions.0.is_empty()
        });
        if let Some(len) = self.lens.take_newest(stamp) {
            durable.len = len;
        }
    }

    /// Makes some of the changes up to `stamp` durable, and the rest never, although readers still see them: the state after a
    /// failed sync.
    pub fn lose(&mut self, stamp: Stamp, survival: Survival, random: &FakeRandom) {
        let durable = &mut self.durable;
        self.sectors.retain(|sector, versions| {
            if let Some(version) = versions.take_random(stamp, survival, random) {
                durable.put(*sector, version);
            }
            !versions.0.is_empty()
        });
        if let Some(len) = self.lens.take_random(stamp, survival, random) {
            durable.len = len;
        }
    }

    /// Power loss: some of the unsynced changes become durable, and the durable contents become the current ones.
    pub fn crash(&mut self, survival: Survival, random: &FakeRandom) {
        self.lose(Stamp::MAX, survival, random);
        let keep = self.durable.len.next_multiple_of(BLOCK) / SECTOR;
        self.durable.sectors.split_off(&keep);
        self.durable.zero_behind_end();
        self.live = self.durable.clone();
    }

    /// Flips one bit if it is one of data that are durable and have no newer version; returns whether it was.
    pub fn rot(&mut self, offset: u64, bit: u8) -> bool {
        let sector = offset / SECTOR;
        let is_data = |image: &Image| matches!(image.sectors.get(&sector), Some(Sector::Data(_)));
        let is_synced = !self.sectors.contains_key(&sector)
            && offset < self.live.len.min(self.durable.len)
            && is_data(&self.live)
            && is_data(&self.durable);
        if is_synced {
            self.flip_bit(offset, bit);
        }
        is_synced
    }

    /// Flips one bit, in memory and on the disk.
    ///
    /// # Panics
    /// When there are no bytes at `offset`.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) {
        let mut flipped = false;
        for image in [&mut self.live, &mut self.durable] {
            if let Some(Sector::Data(data)) = image.sectors.get_mut(&(offset / SECTOR)) {
                Arc::make_mut(data)[(offset % SECTOR) as usize] ^= 1 << (bit % 8);
                flipped = true;
            }
        }
        assert!(flipped, "the file has no data at {offset}");
    }

    fn put(&mut self, sector: u64, what: Option<Sector>, stamp: Stamp) {
        self.live.put(sector, what.clone());
        let versions = self.sectors.entry(sector).or_default();
        versions.0.push((stamp, what));
    }

    fn record_len(&mut self, len: u64, stamp: Stamp) {
        self.live.len = len;
        self.lens.0.push((stamp, len));
    }
}

impl Image {
    fn put(&mut self, sector: u64, what: Option<Sector>) {
        match what {
            Some(what) => self.sectors.insert(sector, what),
            None => self.sectors.remove(&sector),
        };
    }

    /// Zeros the data behind the end: a crash may keep a shorter length without the zeros behind it, or the reverse, but readers
    /// never see those bytes again.
    fn zero_behind_end(&mut self) {
        let len = self.len;
        for (sector, what) in self.sectors.range_mut(len / SECTOR..) {
            if let Sector::Data(data) = what {
                let from = len.saturating_sub(sector * SECTOR).min(SECTOR) as usize;
                Arc::make_mut(data)[from..].fill(0);
            }
        }
    }
}

/// The sectors of a range: sector number, offset in the sector, and the part of the range's buffer.
fn sectors_of(
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % SECTOR) as usize;
        let step = (SECTOR as usize - within).min(len - done);
        let part = done..done + step;
        done += step;
        Some((at / SECTOR, within, part))
    })
}
