//! Group commit: whoever needs its batch written and finds nobody writing writes for all, on its own thread.

use super::error::LogError;
use super::format::{Kind, SegmentHeader, record_len};
use super::limits::HEADER_BYTES;
use super::recover::Live;
use super::segment::Segment;
use super::state::{Shared, Tail};
use gupfs_proto::Seq;
use std::sync::Arc;
use std::sync::atomic::Ordering;

enum Turn<'a> {
    Done,
    Wait,
    Mine(Writing<'a>),
}

/// A write under way. Dropped before its end (the caller gave up), it puts everything back as it was: writing the same
/// bytes to the same place again is harmless.
struct Writing<'a> {
    shared: &'a Shared,
    bytes: Vec<u8>,
    last: Seq,
    /// Where the next byte goes.
    tail: Tail,
    /// Segments begun in this write, with the first batch in each.
    begun: Vec<(Arc<Segment>, Seq)>,
    /// Segments that this write left full: (number, where their records end).
    ended: Vec<(u64, u64)>,
    ended_well: bool,
}

impl Shared {
    /// Returns when the batch is written.
    pub async fn commit(&self, seq: Seq) -> Result<(), LogError> {
        loop {
            if self.committed() >= seq {
                return Ok(());
            }
            let moved = self.committed_moved.notified(); // made before the look, so that no move is missed
            match self.take_turn(seq)? {
                Turn::Done => return Ok(()),
                Turn::Wait => moved.await,
                Turn::Mine(writing) => writing.run().await?,
            }
        }
    }

    /// Writes whatever is pending, marks too.
    pub async fn commit_all(&self) -> Result<(), LogError> {
        loop {
            let moved = self.committed_moved.notified();
            let idle = {
                let state = self.state.lock();
                state.pending.is_empty() && !state.writing
            };
            if idle {
                return self.check_open();
            }
            match self.take_turn(Seq(u64::MAX))? {
                Turn::Done => return Ok(()),
                Turn::Wait => moved.await,
                Turn::Mine(writing) => writing.run().await?,
            }
        }
    }

    fn take_turn(&self, seq: Seq) -> Result<Turn<'_>, LogError> {
        let mut state = self.state.lock();
        if self.committed() >= seq {
            return Ok(Turn::Done);
        }
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if state.writing {
            return Ok(Turn::Wait);
        }
        state.writing = true;
        let idle = std::mem::take(&mut state.idle_buffer);
        Ok(Turn::Mine(Writing {
            shared: self,
            bytes: std::mem::replace(&mut state.pending, idle),
            last: state.last,
            tail: state.tail.clone(),
            begun: Vec::new(),
            ended: Vec::new(),
            ended_well: false,
        }))
    }
}

impl Writing<'_> {
    async fn run(mut self) -> Result<(), LogError> {
        match self.write().await {
            Ok(()) => {
                self.finish();
                Ok(())
            }
            Err(error) => {
                // What is on disk now is unknown, so this log promises nothing any more.
                self.shared.close(error.clone());
                Err(error)
            }
        }
    }

    async fn write(&mut self) -> Result<(), LogError> {
        let mut from = 0;
        while from < self.bytes.len() {
            let room = (self.tail.segment.bytes - self.tail.offset) as usize;
            let upto = from + whole_records(&self.bytes[from..], room);
            if upto > from {
                let segment = Arc::clone(&self.tail.segment);
                let part = &self.bytes[from..upto];
                segment.file.write_at(part, self.tail.offset).await?;
                self.tail.offset += (upto - from) as u64;
            }
            if upto < self.bytes.len() {
                self.roll(upto).await?;
            }
            from = upto;
        }
        Ok(())
    }

    /// Goes on in the next spare segment, with the record at `upto`.
    async fn roll(&mut self, upto: usize) -> Result<(), LogError> {
        let next = self.shared.take_spare().await?;
        let record = &self.bytes[upto..];
        // The record that goes there says itself what it follows; a mark carries the seq of the batch before it.
        let previous = u32::from_le_bytes(record[8..12].try_into().expect("four bytes"));
        let seq = u64::from_le_bytes(record[16..24].try_into().expect("eight bytes"));
        let is_mark = record[12] == Kind::Mark as u8;
        let first = Seq(seq + u64::from(is_mark));
        self.ended
            .push((self.tail.segment.number, self.tail.offset));
        self.begun.push((Arc::clone(&next), first));
        next.write_header(&SegmentHeader {
            store: self.shared.options.store,
            number: next.number,
            first,
            previous,
            segment_bytes: next.bytes,
        })
        .await?;
        self.tail = Tail {
            segment: next,
            offset: HEADER_BYTES,
        };
        Ok(())
    }

    fn finish(&mut self) {
        self.ended_well = true;
        let mut state = self.shared.state.lock();
        state.writing = false;
        state.stats.writes += 1;
        let written = Arc::clone(&state.tail.segment);
        state.is_unsynced(written);
        for (segment, first) in self.begun.drain(..) {
            state.is_unsynced(Arc::clone(&segment));
            state.live.push_back(Live {
                segment,
                first,
                end: HEADER_BYTES,
            });
            state.stats.segments += 1;
        }
        for (number, end) in self.ended.drain(..) {
            if let Some(live) = state.live.iter_mut().find(|l| l.segment.number == number) {
                live.end = end;
            }
        }
        state.tail = self.tail.clone();
        if let Some(live) = state.live.back_mut() {
            live.end = self.tail.offset;
        }
        self.bytes.clear();
        state.idle_buffer = std::mem::take(&mut self.bytes);
        self.shared.committed.store(self.last.0, Ordering::Release);
        drop(state);
        self.shared.committed_moved.notify_waiters();
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if self.ended_well {
            return;
        }
        let mut state = self.shared.state.lock();
        state.writing = false;
        let later = std::mem::take(&mut state.pending);
        state.pending = std::mem::take(&mut self.bytes);
        state.pending.extend_from_slice(&later);
        for (segment, _) in self.begun.drain(..).rev() {
            state.spares.push_front(segment);
        }
        drop(state);
        self.shared.committed_moved.notify_waiters(); // somebody else takes over
    }
}

/// How many bytes of whole records fit into `room`.
fn whole_records(bytes: &[u8], room: usize) -> usize {
    if bytes.len() <= room {
        return bytes.len();
    }
    let mut fits = 0;
    loop {
        let next = fits + record_len(&bytes[fits..]);
        if next > room {
            return fits;
        }
        fits = next;
    }
}
