//! Bytes that programs have written and object servers do not have yet. Pure: no lock, no await, no clock.

use crate::reserved_space::SpaceCharges;
use bytes::{Bytes, BytesMut};
use gupfs_platform::BootTime;
use gupfs_proto::FileOffset;
use gupfs_proto::limits::CHECKSUM_BLOCK;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No part crosses a multiple of this: parts are as long as messages carry, and no checksum block is in two parts of a whole file.
const PART: u64 = 1 << 20;

/// The unsent bytes of all files of a client.
#[derive(Default, Debug)]
pub struct UnsentTotal(AtomicUsize);

impl UnsentTotal {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// The unsent bytes of one file, as a part of the total.
#[derive(Default)]
struct UnsentCount {
    total: Arc<UnsentTotal>,
    bytes: usize,
}

impl UnsentCount {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.total.0.fetch_add(bytes, Ordering::AcqRel);
    }

    fn remove(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.total.0.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Drop for UnsentCount {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}

#[derive(Default)]
pub struct UnsentBytes {
    /// By their first byte. They do not overlap.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Older than the waiting bytes, which may overlap them. By their first byte.
    sending: BTreeMap<u64, Bytes>,
    count: UnsentCount,
    /// The space that the waiting bytes will take, and those being sent.
    charges: SpaceCharges,
    sending_charges: SpaceCharges,
    /// When bytes were last added.
    added_at: Option<BootTime>,
    /// While it is above zero, no bytes are taken.
    holds: u32,
    /// Bytes were lost: later writes go through, so that each gets its own error.
    has_failed: bool,
    /// A task sends what waits.
    has_task: bool,
}

/// What a read of a range finds here.
#[derive(Debug, PartialEq, Eq)]
pub enum UnsentRead {
    Nothing,
    /// A part of the range: it must be sent before the rest is read.
    Part,
    All(Vec<Bytes>),
}

impl UnsentBytes {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sending.is_empty()
    }

    /// Waiting and being sent.
    pub fn bytes(&self) -> usize {
        self.count.bytes
    }

    /// Whether bytes may be added.
    pub fn is_open(&self) -> bool {
        self.holds == 0 && !self.has_failed
    }

    pub fn hold(&mut self) {
        self.holds += 1;
    }

    pub fn end_hold(&mut self) {
        self.holds = self.holds.saturating_sub(1);
    }

    pub fn set_failed(&mut self, has_failed: bool) {
        self.has_failed = has_failed;
    }

    /// Whether the caller must start the task that sends what waits.
    pub fn needs_task(&mut self) -> bool {
        !std::mem::replace(&mut self.has_task, true)
    }

    /// The task ends, unless something waits, here or (`has_more`) elsewhere. Returns whether it ends.
    pub fn end_task(&mut self, has_more: bool) -> bool {
        self.has_task = has_more || !self.waiting.is_empty();
        !self.has_task
    }

    pub fn set_added_at(&mut self, now: BootTime) {
        self.added_at = Some(now);
    }

    pub fn added_at(&self) -> Option<BootTime> {
        self.added_at
    }

    pub fn add(&mut self, at: FileOffset, data: &[u8], total: &Arc<UnsentTotal>) {
        if !Arc::ptr_eq(&self.count.total, total) {
            let bytes = self.count.bytes;
            self.count = UnsentCount {
                total: total.clone(),
                bytes: 0,
            };
            self.count.add(bytes);
        }
        let (mut at, mut data) = (at.0, data);
        while !data.is_empty() {
            let len = self.add_to_part(at, data);
            at += len as u64;
            data = &data[len..];
        }
    }

    /// The space that bytes take which are added now: that of all blocks in which they have one, but not again that of the block in which the
    /// part before them ends. With holes between parts that can be more than the messages take, and it is never less.
    pub fn added_space(&self, range: Range<u64>) -> u64 {
        let before = self.waiting.range(..=range.start).next_back();
        let part_end = before.map_or(0, |(start, part)| start + part.len() as u64);
        if range.end <= part_end {
            return 0;
        }
        let first = match part_end == range.start {
            true => range.start.div_ceil(CHECKSUM_BLOCK),
            false => range.start / CHECKSUM_BLOCK,
        };
        (range.end.div_ceil(CHECKSUM_BLOCK) - first) * CHECKSUM_BLOCK
    }

    /// The space of the bytes that were just added.
    pub fn add_charges(&mut self, charges: SpaceCharges) {
        self.charges.add(charges);
    }

    /// Adds the first bytes of `data`, as far as one part takes them; returns how many.
    fn add_to_part(&mut self, at: u64, data: &[u8]) -> usize {
        let next = self.waiting.range(at + 1..).next();
        let next = next.map_or(u64::MAX, |(start, _)| *start);
        let part_end = (at + 1).next_multiple_of(PART);
        if let Some((start, part)) = self.waiting.range_mut(..=at).next_back() {
            let end = start + part.len() as u64;
            if at < end {
                // These bytes are replaced.
                let len = data.len().min((end - at) as usize);
                let from = (at - start) as usize;
                part[from..from + len].copy_from_slice(&data[..len]);
                return len;
            }
            if at == end && !end.is_multiple_of(PART) {
                let len = data.len().min((next.min(part_end) - at) as usize);
                part.extend_from_slice(&data[..len]);
                self.count.add(len);
                return len;
            }
        }
        let len = data.len().min((next.min(part_end) - at) as usize);
        self.waiting.insert(at, data[..len].to_vec());
        self.count.add(len);
        len
    }

    pub fn read(&self, range: Range<FileOffset>) -> UnsentRead {
        let range = range.start.0..range.end.0;
        let waits = overlaps(&self.waiting, &range);
        if !waits && !overlaps(&self.sending, &range) {
            return UnsentRead::Nothing;
        }
        let (mut at, mut found) = (range.start, Vec::new());
        while at < range.end {
            let Some(segment) = self.segment_at(at, range.end) else {
                return UnsentRead::Part;
            };
            at += segment.len() as u64;
            found.push(segment);
        }
        UnsentRead::All(found)
    }

    /// Bytes from `at` on, at least one and none from `end` on. None if the byte is not here.
    fn segment_at(&self, at: u64, end: u64) -> Option<Bytes> {
        if let Some(bytes) = slice_at(&self.waiting, at, end) {
            return Some(Bytes::copy_from_slice(bytes));
        }
        let newer = self.waiting.range(at..).next();
        let end = newer.map_or(end, |(start, _)| end.min(*start));
        let (start, part) = self.sending.range(..=at).next_back()?;
        let (from, to) = ((at - start) as usize, (end - start) as usize);
        (from < part.len()).then(|| part.slice(from..to.min(part.len())))
    }

    /// What waits is being sent from now on. The caller calls `finish_sending` with the result; nothing else is sent before that.
    pub fn start_sending(&mut self) -> Vec<(FileOffset, Bytes)> {
        debug_assert!(self.sending.is_empty(), "one task sends at a time");
        self.sending_charges = std::mem::take(&mut self.charges);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let parts = waiting.map(|(start, part)| (start, Bytes::from(part)));
        self.sending = parts.collect();
        let parts = self.sending.iter();
        parts
            .map(|(start, part)| (FileOffset(*start), part.clone()))
            .collect()
    }

    /// The first `len` bytes of a file that has no others. None while some are being sent, or are lost.
    pub fn whole(&self, len: FileOffset) -> Option<Bytes> {
        if !self.sending.is_empty() || self.has_failed {
            return None;
        }
        let mut bytes = BytesMut::new();
        for (start, part) in &self.waiting {
            bytes.resize(*start as usize, 0);
            bytes.extend_from_slice(part);
        }
        (bytes.len() as u64 <= len.0).then(|| bytes.freeze())
    }

    /// The server has what waits.
    pub fn discard(&mut self) {
        debug_assert!(self.sending.is_empty(), "bytes that are being sent");
        self.start_sending();
        self.finish_sending();
    }

    /// What was being sent is at the object servers, or lost.
    pub fn finish_sending(&mut self) {
        let sent = std::mem::take(&mut self.sending);
        self.sending_charges = SpaceCharges::default();
        // A session that was lost meanwhile has dropped all.
        let bytes: usize = sent.values().map(Bytes::len).sum();
        self.count.remove(bytes);
    }

    /// The task that was sending it was dropped: it waits again, below what was written since.
    pub fn undo_sending(&mut self) {
        let charges = std::mem::take(&mut self.sending_charges);
        self.charges.add(charges);
        let newer = std::mem::take(&mut self.waiting);
        let older = std::mem::take(&mut self.sending);
        let total = self.count.total.clone();
        self.count.remove(self.count.bytes);
        for (start, part) in older {
            self.add(FileOffset(start), &part, &total);
        }
        for (start, part) in newer {
            self.add(FileOffset(start), &part, &total);
        }
    }
}

fn overlaps<T: AsRef<[u8]>>(parts: &BTreeMap<u64, T>, range: &Range<u64>) -> bool {
    let last = parts.range(..range.end).next_back();
    last.is_some_and(|(start, part)| start + part.as_ref().len() as u64 > range.start)
}

fn slice_at<T: AsRef<[u8]>>(parts: &BTreeMap<u64, T>, at: u64, end: u64) -> Option<&[u8]> {
    let (start, part) = parts.range(..=at).next_back()?;
    let (part, from) = (part.as_ref(), (at - start) as usize);
    (from < part.len()).then(|| &part[from..part.len().min((end - start) as usize)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offsets(range: Range<u64>) -> Range<FileOffset> {
        FileOffset(range.start)..FileOffset(range.end)
    }

    fn all(read: UnsentRead) -> Option<Vec<u8>> {
        match read {
            UnsentRead::All(segments) => Some(segments.concat()),
            UnsentRead::Nothing | UnsentRead::Part => None,
        }
    }

    #[test]
    fn records_that_follow_each_other_become_one_part_up_to_its_boundary() {
        let (mut unsent, total) = (UnsentBytes::default(), Arc::default());
        for record in 0..300 {
            unsent.add(FileOffset(record * 4_000), &[record as u8; 4_000], &total);
        }
        assert_eq!(total.get(), 1_200_000);
        let parts = unsent.start_sending();
        let lens: Vec<(u64, usize)> = parts.iter().map(|(at, part)| (at.0, part.len())).collect();
        assert_eq!(lens, [(0, 1 << 20), (1 << 20, 1_200_000 - (1 << 20))]);
        unsent.finish_sending();
        assert_eq!((total.get(), unsent.is_empty()), (0, true));
    }

    #[test]
    fn the_count_of_a_file_that_is_dropped_leaves_the_total() {
        let (mut one, mut two, total) = (
            UnsentBytes::default(),
            UnsentBytes::default(),
            Arc::default(),
        );
        one.add(FileOffset(5), b"abc", &total);
        two.add(FileOffset(5), b"abcd", &total);
        two.start_sending();
        assert_eq!(total.get(), 7);
        drop(two);
        assert_eq!((total.get(), one.bytes()), (3, 3));
    }

    #[test]
    fn nothing_is_taken_while_it_is_held_or_after_a_loss() {
        let mut unsent = UnsentBytes::default();
        unsent.hold();
        unsent.hold();
        unsent.end_hold();
        assert!(!unsent.is_open());
        unsent.end_hold();
        assert!(unsent.is_open());
        unsent.set_failed(true);
        assert!(!unsent.is_open());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, usize, u8),
        Read(u64, u64),
        Start,
        Finish,
        Undo,
    }

    /// Around a boundary of parts.
    fn step() -> impl Strategy<Value = Step> {
        let at = || PART - 60..PART + 60;
        prop_oneof![
            6 => (at(), 1..40_usize, any::<u8>()).prop_map(|(at, len, byte)| Step::Write(at, len, byte)),
            6 => (at(), 1..40_u64).prop_map(|(at, len)| Step::Read(at, len)),
            1 => Just(Step::Start),
            1 => Just(Step::Finish),
            1 => Just(Step::Undo),
        ]
    }

    proptest! {
        /// Against the file as object servers have it, and as programs have written it.
        #[test]
        fn servers_and_unsent_bytes_together_are_the_file(steps in proptest::collection::vec(step(), 1..120)) {
            let (mut unsent, total) = (UnsentBytes::default(), Arc::default());
            let size = 200_usize;
            let base = PART - 100;
            let (mut written, mut servers) = (vec![0_u8; size], vec![0_u8; size]);
            let mut under_way: Option<Vec<(FileOffset, Bytes)>> = None;
            let index = |at: u64| (at - base) as usize;
            for step in steps {
                match step {
                    Step::Write(at, len, byte) => {
                        unsent.add(FileOffset(at), &vec![byte; len], &total);
                        written[index(at)..index(at) + len].fill(byte);
                    }
                    Step::Read(at, len) => {
                        let range = index(at)..index(at + len);
                        match unsent.read(offsets(at..at + len)) {
                            UnsentRead::Nothing => prop_assert_eq!(&servers[range.clone()], &written[range]),
                            UnsentRead::Part => {}
                            UnsentRead::All(found) => prop_assert_eq!(&found.concat()[..], &written[range]),
                        }
                    }
                    Step::Start if under_way.is_none() => under_way = Some(unsent.start_sending()),
                    Step::Finish => if let Some(parts) = under_way.take() {
                        for (at, part) in parts {
                            servers[index(at.0)..index(at.0) + part.len()].copy_from_slice(&part);
                        }
                        unsent.finish_sending();
                    },
                    Step::Undo if under_way.is_some() => {
                        under_way = None;
                        unsent.undo_sending();
                    }
                    Step::Start | Step::Undo => {}
                }
                prop_assert_eq!(unsent.bytes(), total.get());
            }
            unsent.finish_sending();
            if let Some(parts) = under_way {
                for (at, part) in parts {
                    servers[index(at.0)..index(at.0) + part.len()].copy_from_slice(&part);
                }
            }
            for (at, part) in unsent.start_sending() {
                prop_assert!(at.0 / PART == (at.0 + part.len() as u64 - 1) / PART);
                servers[index(at.0)..index(at.0) + part.len()].copy_from_slice(&part);
            }
            prop_assert_eq!(servers, written);
        }

        #[test]
        fn all_of_a_written_range_is_found(at in 0..3 * PART, len in 1..200_000_usize, from in 0..200_000_u64) {
            let (mut unsent, total) = (UnsentBytes::default(), Arc::default());
            let bytes: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            unsent.add(FileOffset(at), &bytes, &total);
            let from = from % len as u64;
            let found = all(unsent.read(offsets(at + from..at + len as u64)));
            prop_assert!(found.as_deref() == Some(&bytes[from as usize..]));
            prop_assert_eq!(unsent.read(offsets(at + len as u64..at + len as u64 + 5)), UnsentRead::Nothing);
            prop_assert_eq!(unsent.read(offsets(at..at + len as u64 + 1)), UnsentRead::Part);
        }
    }
}
