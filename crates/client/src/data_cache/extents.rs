//! Cached bytes of files, of bounded size. Pure: no lock, no await, no clock.

use crate::lease_number::LeaseNumber;
use bytes::Bytes;
use gupfs_platform::hash::Map;
use gupfs_proto::InodeId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a file.
pub type ByteRange = Range<u64>;

/// A segment below this is copied: as a part of a larger message it would keep all of that in memory.
const COPIED_BELOW: usize = 64 << 10;

/// A shorter segment is not kept, unless it is the last of its file: with many small extents a large read would take long.
pub const SEGMENT_MIN: usize = 4096;

/// Memory of an extent besides its bytes, approximately.
const EXTENT_OVERHEAD: usize = 192;

/// A use moves an extent to the end of the order only if this many others were used since.
const REUSE: u64 = 64;

/// What a read has returned.
#[derive(Clone, Copy)]
pub struct CachedRead<'a> {
    pub offset: u64,
    pub segments: &'a [Bytes],
    /// The end of the file, if the read has reached it.
    pub end_of_file: Option<u64>,
}

pub struct Extents {
    files: Map<InodeId, CachedFile>,
    /// In the order of their last use.
    by_use: BTreeMap<u64, (InodeId, u64)>,
    last_use: u64,
    bytes: usize,
    bytes_max: usize,
    segment_min: usize,
}

struct CachedFile {
    lease: LeaseNumber,
    /// By their first byte. They do not overlap.
    extents: BTreeMap<u64, Extent>,
    end: Option<u64>,
}

struct Extent {
    bytes: Bytes,
    used: u64,
}

impl Extent {
    fn cost(&self) -> usize {
        self.bytes.len() + EXTENT_OVERHEAD
    }
}

impl Extents {
    pub fn new(bytes_max: usize, segment_min: usize) -> Extents {
        Extents {
            files: Map::default(),
            by_use: BTreeMap::new(),
            last_use: 0,
            bytes: 0,
            bytes_max,
            segment_min,
        }
    }

    /// With the memory that they need besides.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(
        &mut self,
        ino: InodeId,
        lease: LeaseNumber,
        range: ByteRange,
    ) -> Option<Vec<Bytes>> {
        let file = self.files.get_mut(&ino)?;
        if file.lease != lease {
            self.forget_file(ino);
            return None;
        }
        let end = range.end.min(file.end.unwrap_or(u64::MAX));
        let (mut at, mut found) = (range.start, Vec::new());
        while at < end {
            let (start, extent) = file.extents.range(..=at).next_back()?;
            let extent_end = start + extent.bytes.len() as u64;
            if extent_end <= at {
                return None;
            }
            let to = extent_end.min(end);
            let slice = (at - start) as usize..(to - start) as usize;
            found.push(extent.bytes.slice(slice));
            at = to;
        }
        let mut at = range.start;
        while at < end {
            let Some((start, extent)) = file.extents.range_mut(..=at).next_back() else {
                break;
            };
            if self.last_use - extent.used > REUSE {
                self.last_use += 1;
                self.by_use.remove(&extent.used);
                self.by_use.insert(self.last_use, (ino, *start));
                extent.used = self.last_use;
            }
            at = start + extent.bytes.len() as u64;
        }
        Some(found)
    }

    pub fn put(&mut self, ino: InodeId, lease: LeaseNumber, read: CachedRead<'_>) {
        if self.files.get(&ino).is_some_and(|file| file.lease != lease) {
            self.forget_file(ino);
        }
        let mut at = read.offset;
        for segment in read.segments {
            let end = at + segment.len() as u64;
            let is_last = at.is_multiple_of(SEGMENT_MIN as u64) && read.end_of_file == Some(end);
            let is_kept = segment.len() >= self.segment_min || (is_last && !segment.is_empty());
            if is_kept && !self.covers(ino, at..end) {
                self.remove_extents(ino, at..end);
                self.insert(ino, lease, at, segment);
            }
            at = end;
        }
        // An entry without extents would have no place in the order of use.
        if let (Some(end), Some(file)) = (read.end_of_file, self.files.get_mut(&ino)) {
            file.end = Some(end);
        }
        self.drop_excess();
    }

    fn file(&mut self, ino: InodeId, lease: LeaseNumber) -> &mut CachedFile {
        self.files.entry(ino).or_insert_with(|| CachedFile {
            lease,
            extents: BTreeMap::new(),
            end: None,
        })
    }

    fn insert(&mut self, ino: InodeId, lease: LeaseNumber, at: u64, segment: &Bytes) {
        self.last_use += 1;
        let used = self.last_use;
        let bytes = match segment.len() < COPIED_BELOW {
            true => Bytes::copy_from_slice(segment),
            false => segment.clone(),
        };
        let extent = Extent { bytes, used };
        self.bytes += extent.cost();
        self.by_use.insert(used, (ino, at));
        self.file(ino, lease).extents.insert(at, extent);
    }

    /// Whether one extent has all of the range.
    fn covers(&self, ino: InodeId, range: ByteRange) -> bool {
        let Some(file) = self.files.get(&ino) else {
            return false;
        };
        let before = file.extents.range(..=range.start).next_back();
        before.is_some_and(|(start, extent)| start + extent.bytes.len() as u64 >= range.end)
    }

    /// Removes every extent that has a byte of the range, whole.
    fn remove_extents(&mut self, ino: InodeId, range: ByteRange) {
        let Some(file) = self.files.get_mut(&ino) else {
            return;
        };
        while let Some((start, extent)) = file.extents.range(..range.end).next_back() {
            if start + extent.bytes.len() as u64 <= range.start {
                break;
            }
            let start = *start;
            if let Some(removed) = file.extents.remove(&start) {
                self.by_use.remove(&removed.used);
                self.bytes -= removed.cost();
            }
        }
    }

    /// Also forgets the end of the file if a change of this range can move it.
    pub fn forget(&mut self, ino: InodeId, range: ByteRange) {
        self.remove_extents(ino, range.clone());
        if let Some(file) = self.files.get_mut(&ino) {
            file.end = file.end.filter(|end| range.end <= *end);
            if file.extents.is_empty() {
                self.files.remove(&ino);
            }
        }
    }

    pub fn forget_file(&mut self, ino: InodeId) {
        if let Some(file) = self.files.remove(&ino) {
            for extent in file.extents.into_values() {
                self.by_use.remove(&extent.used);
                self.bytes -= extent.cost();
            }
        }
    }

    pub fn clear(&mut self) {
        self.files.clear();
        self.by_use.clear();
        self.bytes = 0;
    }

    fn drop_excess(&mut self) {
        while self.bytes > self.bytes_max {
            let Some((_, (ino, start))) = self.by_use.pop_first() else {
                return;
            };
            let Some(file) = self.files.get_mut(&ino) else {
                continue;
            };
            if let Some(dropped) = file.extents.remove(&start) {
                self.bytes -= dropped.cost();
            }
            if file.extents.is_empty() {
                self.files.remove(&ino);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: InodeId = InodeId(5);
    const B: InodeId = InodeId(6);

    fn read(offset: u64, segments: &[Bytes], end_of_file: Option<u64>) -> CachedRead<'_> {
        CachedRead {
            offset,
            segments,
            end_of_file,
        }
    }

    fn bytes(parts: Option<Vec<Bytes>>) -> Option<Vec<u8>> {
        parts.map(|parts| parts.concat())
    }

    #[test]
    fn a_range_is_returned_if_all_of_it_is_there_up_to_the_end_of_the_file() {
        let (mut cached, lease) = (Extents::new(1 << 20, 1), LeaseNumber::next());
        let parts = [Bytes::from_static(b"abcd"), Bytes::from_static(b"efgh")];
        cached.put(A, lease, read(10, &parts, None));
        assert_eq!(bytes(cached.get(A, lease, 12..16)).unwrap(), b"cdef");
        for missing in [9..12, 17..19, 18..20] {
            assert_eq!(cached.get(A, lease, missing), None);
        }
        cached.put(A, lease, read(18, &[], Some(18)));
        assert_eq!(bytes(cached.get(A, lease, 17..40)).unwrap(), b"h");
        assert_eq!(bytes(cached.get(A, lease, 18..40)).unwrap(), b"");
        assert_eq!(cached.get(B, lease, 18..40), None);
    }

    #[test]
    fn bytes_of_another_lease_are_not_returned() {
        let (mut cached, lease) = (Extents::new(1 << 20, 1), LeaseNumber::next());
        let part = [Bytes::from_static(b"abcd")];
        cached.put(A, lease, read(0, &part, Some(4)));
        let newer = LeaseNumber::next();
        assert_eq!(cached.get(A, newer, 0..4), None);
        assert_eq!(cached.get(A, lease, 0..4), None, "they are gone");
        assert_eq!(cached.bytes(), 0);
        cached.put(A, lease, read(0, &part, Some(4)));
        cached.put(A, newer, read(8, &part, None));
        assert_eq!(cached.get(A, newer, 0..4), None);
        assert_eq!(bytes(cached.get(A, newer, 8..12)).unwrap(), b"abcd");
    }

    #[test]
    fn a_change_that_may_move_the_end_forgets_it() {
        let (mut cached, lease) = (Extents::new(1 << 20, 1), LeaseNumber::next());
        let part = [Bytes::from_static(b"abcd")];
        cached.put(A, lease, read(0, &part, Some(4)));
        cached.put(A, lease, read(8, &part, Some(12)));
        cached.forget(A, 1..2);
        assert_eq!(cached.get(A, lease, 0..4), None);
        assert_eq!(bytes(cached.get(A, lease, 12..18)).unwrap(), b"");
        cached.forget(A, 13..14);
        assert_eq!(cached.get(A, lease, 12..18), None);
        assert_eq!(bytes(cached.get(A, lease, 8..12)).unwrap(), b"abcd");
    }

    #[test]
    fn small_reads_are_kept_only_at_the_end_of_the_file() {
        let (mut cached, lease) = (Extents::new(1 << 20, SEGMENT_MIN), LeaseNumber::next());
        let part = [Bytes::from_static(b"abcd")];
        cached.put(A, lease, read(0, &part, None));
        cached.put(A, lease, read(5, &part, Some(9)));
        assert_eq!((cached.bytes(), cached.files.len()), (0, 0));
        cached.put(A, lease, read(8192, &part, Some(8196)));
        assert_eq!(bytes(cached.get(A, lease, 8192..9000)).unwrap(), b"abcd");
    }

    #[test]
    fn above_the_bound_what_was_not_used_for_the_longest_time_goes() {
        let extent = 4096 + EXTENT_OVERHEAD;
        let (mut cached, lease) = (Extents::new(100 * extent, 1), LeaseNumber::next());
        let part = [Bytes::from(vec![1; 4096])];
        for number in 0..100 {
            cached.put(A, lease, read(number * 4096, &part, None));
        }
        assert!(cached.get(A, lease, 0..4096).is_some());
        cached.put(B, lease, read(0, &part, None));
        assert_eq!(cached.bytes(), 100 * extent);
        assert!(cached.get(A, lease, 0..4096).is_some(), "used");
        assert!(cached.get(A, lease, 4096..8192).is_none());
        assert!(cached.get(B, lease, 0..4096).is_some());
        cached.clear();
        assert_eq!((cached.bytes(), cached.by_use.len()), (0, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Read(u64, u64),
        Write(u64, u64, u8),
        Truncate(u64),
        OtherLease,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..120_u64, 1..60_u64).prop_map(|(at, len)| Step::Read(at, len)),
            2 => (0..110_u64, 1..40_u64, any::<u8>()).prop_map(|(at, len, byte)| Step::Write(at, len, byte)),
            1 => (0..120_u64).prop_map(Step::Truncate),
            1 => Just(Step::OtherLease),
        ]
    }

    proptest! {
        /// A file, and reads of it through the cache in any order with changes.
        #[test]
        fn what_is_returned_is_what_the_file_has(steps in proptest::collection::vec(step(), 1..80), bound in 400..4000_usize) {
            let mut file: Vec<u8> = Vec::new();
            let mut cached = Extents::new(bound, 1);
            let mut lease = LeaseNumber::next();
            for step in steps {
                match step {
                    Step::Read(at, len) => {
                        let size = file.len() as u64;
                        let (from, to) = (at.min(size) as usize, (at + len).min(size) as usize);
                        let expected = file[from..to].to_vec();
                        if let Some(found) = bytes(cached.get(A, lease, at..at + len)) {
                            prop_assert_eq!(&found, &expected);
                        }
                        let middle = expected.len() / 2;
                        let parts = [&expected[..middle], &expected[middle..]].map(Bytes::copy_from_slice);
                        let end = (at + len >= size).then_some(size);
                        if at <= size {
                            cached.put(A, lease, read(at, &parts, end));
                            prop_assert!(cached.bytes() <= bound);
                        }
                    }
                    Step::Write(at, len, byte) => {
                        let size = file.len() as u64;
                        // As a write locks the file.
                        let range = match at + len > size {
                            true => at.min(size)..u64::MAX,
                            false => at..at + len,
                        };
                        cached.forget(A, range);
                        file.resize((at + len).max(size) as usize, 0);
                        file[at as usize..(at + len) as usize].fill(byte);
                    }
                    Step::Truncate(to) => {
                        cached.forget(A, 0..u64::MAX);
                        file.resize(to as usize, 0);
                    }
                    Step::OtherLease => {
                        lease = LeaseNumber::next();
                        file.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                    }
                }
            }
        }
    }
}
