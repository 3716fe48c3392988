//! One file's bytes: what a reader sees now, what the platter has, and the versions in between.

use crate::fake::FakeDice;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SECTOR: u64 = 512;

/// Space is given and taken in these.
pub const BLOCK: u64 = 4096;

/// When something happened: counts the disk's calls.
pub type Stamp = u64;

#[derive(Clone)]
enum Sector {
    /// Space without bytes: reads as zeros, is a hole to `seek_data`.
    Reserved,
    Data(Arc<[u8; SECTOR as usize]>),
}

#[derive(Clone, Default)]
struct Image {
    len: u64,
    sectors: BTreeMap<u64, Sector>,
}

/// What happened to one thing (a sector, the length) since it was last durable, oldest first.
#[derive(Clone)]
struct Versions<T>(Vec<(Stamp, T)>);

#[derive(Clone, Default)]
pub struct Content {
    live: Image,
    durable: Image,
    sectors: BTreeMap<u64, Versions<Option<Sector>>>,
    lens: Versions<u64>,
}

/// How a crash treats what was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mercy {
    All,
    None,
    Some,
}

impl Mercy {
    pub fn throw(dice: &FakeDice) -> Mercy {
        match dice.below(4) {
            0 => Mercy::All,
            1 => Mercy::None,
            _ => Mercy::Some,
        }
    }

    pub fn spares(self, dice: &FakeDice) -> bool {
        match self {
            Mercy::All => true,
            Mercy::None => false,
            Mercy::Some => dice.one_in(2),
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

    /// Takes out all up to `stamp` and returns the newest of them.
    fn settle(&mut self, stamp: Stamp) -> Option<T> {
        let count = self.0.partition_point(|(at, _)| *at <= stamp);
        self.0.drain(..count).next_back().map(|(_, value)| value)
    }

    /// Takes out all up to `stamp` and returns one of them, or none: what the platter got.
    fn gamble(&mut self, stamp: Stamp, mercy: Mercy, dice: &FakeDice) -> Option<T> {
        let count = self.0.partition_point(|(at, _)| *at <= stamp);
        let pick = match mercy {
            Mercy::All => count,
            Mercy::None => 0,
            Mercy::Some => dice.below(count as u64 + 1) as usize,
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

    /// Bytes of space the live file takes.
    pub fn allocated(&self) -> u64 {
        self.live.sectors.len() as u64 * SECTOR
    }

    pub fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let len = (self.live.len.saturating_sub(offset)).min(buf.len() as u64) as usize;
        for (sector, within, part) in parts(offset, len) {
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

    /// How many more bytes of space a write to this range would take.
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
        for (sector, within, part) in parts(offset, bytes.len()) {
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

    /// Gives the whole blocks around a range space where they have none.
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
            self.set_len_mark(len, stamp);
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
            self.set_len_mark(len, stamp);
        }
    }

    /// Zeros what has bytes in a range.
    pub fn zero(&mut self, offset: u64, len: u64, stamp: Stamp) {
        let end = offset + len;
        let touched: Vec<u64> = self
            .live
            .sectors
            .range(offset / SECTOR..end.div_ceil(SECTOR))
            .filter(|(_, what)| matches!(what, Sector::Data(_)))
            .map(|(sector, _)| *sector)
            .collect();
        for sector in touched {
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

    /// Turns the whole blocks of a range into reserved space or holes, and zeros what is left of it at its ends.
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
            // A block is data if any of its sectors is, as it is on a real file system.
            let first = at / BLOCK * BLOCK / SECTOR;
            if (first..first + BLOCK / SECTOR).any(is_data) == data {
                return Some(at);
            }
            at = (at / BLOCK + 1) * BLOCK;
        }
        (!data).then_some(self.live.len)
    }

    /// Whether something that was done up to `stamp` is not durable.
    pub fn is_dirty(&self, stamp: Stamp) -> bool {
        self.lens.begins_by(stamp) || self.sectors.values().any(|sector| sector.begins_by(stamp))
    }

    /// What was done up to `stamp` survives from now on.
    pub fn settle(&mut self, stamp: Stamp) {
        let durable = &mut self.durable;
        self.sectors.retain(|sector, versions| {
            if let Some(version) = versions.settle(stamp) {
                durable.put(*sector, version);
            }
            !versions.0.is_empty()
        });
        if let Some(len) = self.lens.settle(stamp) {
            durable.len = len;
        }
    }

    /// Some of what was done up to `stamp` reaches the platter, and the rest never will, though readers still see it:
    /// what a failed sync leaves.
    pub fn lose(&mut self, stamp: Stamp, mercy: Mercy, dice: &FakeDice) {
        let durable = &mut self.durable;
        self.sectors.retain(|sector, versions| {
            if let Some(version) = versions.gamble(stamp, mercy, dice) {
                durable.put(*sector, version);
            }
            !versions.0.is_empty()
        });
        if let Some(len) = self.lens.gamble(stamp, mercy, dice) {
            durable.len = len;
        }
    }

    /// The power goes: some of the rest reaches the platter, and readers see what is there.
    pub fn crash(&mut self, mercy: Mercy, dice: &FakeDice) {
        self.lose(Stamp::MAX, mercy, dice);
        let keep = self.durable.len.next_multiple_of(BLOCK) / SECTOR;
        self.durable.sectors.split_off(&keep);
        self.durable.zero_behind_end();
        self.live = self.durable.clone();
    }

    /// Flips one bit, in memory and on the platter.
    ///
    /// # Panics
    /// When there are no bytes at `offset`.
    pub fn rot(&mut self, offset: u64, bit: u8) {
        let mut flipped = false;
        for image in [&mut self.live, &mut self.durable] {
            if let Some(Sector::Data(data)) = image.sectors.get_mut(&(offset / SECTOR)) {
                Arc::make_mut(data)[(offset % SECTOR) as usize] ^= 1 << (bit % 8);
                flipped = true;
            }
        }
        assert!(flipped, "no bytes at {offset} that could rot");
    }

    fn put(&mut self, sector: u64, what: Option<Sector>, stamp: Stamp) {
        self.live.put(sector, what.clone());
        let versions = self.sectors.entry(sector).or_default();
        versions.0.push((stamp, what));
    }

    fn set_len_mark(&mut self, len: u64, stamp: Stamp) {
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

    /// A length that survived without the bytes behind it having been zeroed, or the other way round: what lies
    /// behind the end is never seen again.
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

/// The sectors of a range: number, offset within it, and which part of the range's buffer.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
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
