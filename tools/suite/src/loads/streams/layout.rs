//! Which records a stream works on.

use clap::ValueEnum;

/// What the streams share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Shape {
    /// A file for each stream
    Each,
    /// One file, of which each stream has a part (lmdd's skip)
    Parts,
    /// One file, of which each stream has every Nth record
    Interleaved,
    /// One file, which each stream reads whole
    All,
}

/// Streams of one number, records of one size.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub shape: Shape,
    pub streams: usize,
    pub record: u64,
    /// Records that one stream moves.
    pub records: u64,
}

impl Layout {
    /// As many whole records as come nearest to so many bytes for each stream, and at least one.
    pub fn new(shape: Shape, streams: usize, record: u64, each: u64) -> Layout {
        Layout {
            shape,
            streams,
            record,
            records: (each.saturating_add(record / 2) / record).max(1),
        }
    }

    pub fn files(&self) -> usize {
        match self.shape {
            Shape::Each => self.streams,
            _ => 1,
        }
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        let parts = match self.shape {
            Shape::All => 1,
            _ => self.streams as u64,
        };
        parts.saturating_mul(self.records.saturating_mul(self.record))
    }

    /// The file of a stream.
    pub fn file(&self, stream: usize) -> usize {
        match self.shape {
            Shape::Each => stream,
            _ => 0,
        }
    }

    /// Offsets of the records that a stream moves, in its order.
    pub fn offsets(self, stream: usize) -> impl Iterator<Item = u64> {
        let stream = stream as u64;
        let (first, step) = match self.shape {
            Shape::Each | Shape::All => (0, 1),
            Shape::Parts => (stream * self.records, 1),
            Shape::Interleaved => (stream, self.streams as u64),
        };
        (0..self.records).map(move |index| (first + index * step) * self.record)
    }

    /// The stream that writes a record. All share the work also where one file is read by all: every Nth record then.
    pub fn writer(&self, file: usize, offset: u64) -> usize {
        let index = offset / self.record;
        match self.shape {
            Shape::Each => file,
            Shape::Parts => (index / self.records) as usize,
            Shape::Interleaved | Shape::All => (index % self.streams as u64) as usize,
        }
    }

    /// Offsets of the records that a stream writes.
    pub fn written(self, stream: usize) -> impl Iterator<Item = u64> {
        self.offsets(stream)
            .filter(move |offset| self.shape != Shape::All || self.writer(0, *offset) == stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_written_once_and_by_whom_it_says() {
        for shape in [Shape::Each, Shape::Parts, Shape::Interleaved, Shape::All] {
            let layout = Layout::new(shape, 3, 10, 44);
            assert_eq!(layout.records, 4);
            let mut seen = Vec::new();
            for stream in 0..3 {
                let file = layout.file(stream);
                for offset in layout.written(stream) {
                    assert_eq!(layout.writer(file, offset), stream, "{shape:?} {offset}");
                    seen.push((file, offset));
                }
            }
            seen.sort();
            let expected: Vec<(usize, u64)> = match shape {
                Shape::Each => (0..12).map(|n| (n / 4, n as u64 % 4 * 10)).collect(),
                Shape::All => (0..4).map(|n| (0, n * 10)).collect(),
                _ => (0..12).map(|n| (0, n * 10)).collect(),
            };
            assert_eq!(seen, expected, "{shape:?}");
            assert_eq!(layout.bytes(), seen.len() as u64 * 10);
        }
    }

    #[test]
    fn streams_read_parts_every_nth_record_or_all() {
        let offsets = |shape| -> Vec<u64> { Layout::new(shape, 3, 10, 20).offsets(1).collect() };
        assert_eq!(offsets(Shape::Each), [0, 10]);
        assert_eq!(offsets(Shape::Parts), [20, 30]);
        assert_eq!(offsets(Shape::Interleaved), [10, 40]);
        assert_eq!(offsets(Shape::All), [0, 10]);
    }
}
