//! Which reads of an open file follow each other, and how far to read ahead of them. Pure: no lock, no clock.
//!
//! The window of a stream doubles each time it is used up, as Linux's read-ahead does (mm/readahead.c): a program that stops after a few
//! reads has cost little, and one that goes on soon has enough under way.

use super::extents::ByteRange;
use crate::limits::{READ_AHEAD_FIRST, READ_AHEAD_MAX, READ_STREAMS};

/// Reads of this many times their length may come before the one that continues the stream. Those that leave out more are not in order.
const OUT_OF_ORDER: u64 = 4;

/// The streams of one open file.
#[derive(Default)]
pub struct ReadStreams {
    /// Oldest use first.
    streams: Vec<ReadStream>,
}

struct ReadStream {
    /// Where the next read begins.
    next: u64,
    /// Zero: it is one read so far.
    window: u64,
    /// The end of what was read ahead.
    ahead_to: u64,
}

impl ReadStream {
    /// Whether the read belongs to the stream. The kernel sends the parts of one large read, and threads send their records, in any order.
    fn is_continued_by(&self, range: &ByteRange) -> bool {
        let near = OUT_OF_ORDER * (range.end - range.start);
        let is_near = self.next.abs_diff(range.start) <= near;
        range.start == self.next || (self.window > 0 && is_near)
    }
}

impl ReadStreams {
    /// Reading ahead has failed, or took too long: it begins anew.
    pub fn restart(&mut self) {
        self.streams.clear();
    }

    /// A program reads the range. Returns what to read ahead.
    pub fn read(&mut self, range: &ByteRange) -> Option<ByteRange> {
        let found = (self.streams.iter()).position(|stream| stream.is_continued_by(range));
        let Some(index) = found else {
            if self.streams.len() >= READ_STREAMS {
                self.streams.remove(0);
            }
            self.streams.push(ReadStream {
                next: range.end,
                window: 0,
                ahead_to: range.end,
            });
            return None;
        };
        let mut stream = self.streams.remove(index);
        stream.next = stream.next.max(range.end);
        let ahead = stream.extend(range.end - range.start);
        self.streams.push(stream);
        ahead
    }
}

impl ReadStream {
    fn extend(&mut self, read: u64) -> Option<ByteRange> {
        self.ahead_to = self.ahead_to.max(self.next);
        let is_new = self.window == 0;
        if !is_new && self.ahead_to - self.next > self.window / 2 {
            return None;
        }
        let wanted = match is_new {
            true => READ_AHEAD_FIRST.max(2 * read),
            false => self.window * 2,
        };
        self.window = wanted.min(READ_AHEAD_MAX);
        let from = self.ahead_to;
        self.ahead_to = self.next + self.window;
        (from < self.ahead_to).then_some(from..self.ahead_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: u64 = 4096;

    #[test]
    fn reads_in_order_are_read_ahead_with_a_growing_window() {
        let mut streams = ReadStreams::default();
        let (mut ahead_to, mut requests, mut furthest) = (0, 0, 0);
        for number in 0..10_000 {
            let range = number * RECORD..(number + 1) * RECORD;
            if let Some(ahead) = streams.read(&range) {
                assert!(number > 0 && ahead.start == ahead_to.max(range.end));
                (ahead_to, requests) = (ahead.end, requests + 1);
                furthest = furthest.max(ahead.end - range.end);
            }
            assert!(number == 0 || ahead_to >= range.end + READ_AHEAD_FIRST / 2);
        }
        assert_eq!(furthest, READ_AHEAD_MAX);
        assert!(requests < 40, "{requests}");
    }

    #[test]
    fn random_reads_are_not_read_ahead() {
        let mut streams = ReadStreams::default();
        for number in 0..1_000_u64 {
            let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
            assert_eq!(streams.read(&(at..at + RECORD)), None);
        }
        assert_eq!(streams.streams.len(), READ_STREAMS);
    }

    #[test]
    fn several_streams_in_one_file_are_told_apart() {
        let mut streams = ReadStreams::default();
        let ahead = |streams: &mut ReadStreams, stream: u64, number: u64| {
            let at = (stream << 40) + number * RECORD;
            streams.read(&(at..at + RECORD)).is_some()
        };
        for stream in 0..READ_STREAMS as u64 {
            assert!(!ahead(&mut streams, stream, 0));
        }
        for stream in 0..READ_STREAMS as u64 {
            assert!(ahead(&mut streams, stream, 1), "{stream}");
        }
    }

    #[test]
    fn parts_of_large_reads_in_any_order_are_one_stream() {
        let mut streams = ReadStreams::default();
        let part = |number: u64| number << 20..(number + 1) << 20;
        assert_eq!(streams.read(&part(0)), None);
        assert!(streams.read(&part(1)).is_some());
        for number in [3, 2, 5, 4, 7, 6, 8] {
            streams.read(&part(number));
            assert_eq!(streams.streams.len(), 1, "{number}");
        }
    }

    #[test]
    fn reads_that_leave_out_most_of_the_file_are_not_read_ahead() {
        let mut streams = ReadStreams::default();
        for number in 0..100 {
            let at = number * 32 * RECORD;
            assert_eq!(streams.read(&(at..at + RECORD)), None);
            let next = streams.read(&(at + RECORD..at + 2 * RECORD));
            assert!(next.is_none_or(|ahead| ahead.end - ahead.start <= READ_AHEAD_FIRST));
        }
    }

    #[test]
    fn a_read_at_the_largest_offset_is_no_overflow() {
        let mut streams = ReadStreams::default();
        let end = i64::MAX as u64;
        streams.read(&(end - 2 * RECORD..end - RECORD));
        streams.read(&(end - RECORD..end));
    }
}
