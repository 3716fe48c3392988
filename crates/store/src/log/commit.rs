//! Group commit. A task that needs its batch written and finds no write in progress becomes the writer: it writes all
//! pending records, its own and those of the other tasks, on its own thread.

use super::copies::RecordGroup;
use super::error::LogError;
use super::format::{LogRecordKind, SegmentHeader, record_len};
use super::limits::HEADER_BYTES;
use super::position::LogPosition;
use super::segment::LiveSegment;
use super::segment::Segment;
use super::state::{LogTail, Shared};
use bytes::Bytes;
use gupfs_proto::{OwnerEpoch, Seq};
use std::sync::Arc;
use std::sync::atomic::Ordering;

enum CommitRole<'a> {
    AlreadyWritten,
    WaitForWriter,
    Writer(GroupWrite<'a>),
}

/// One write of all pending records. If it is dropped before it has finished (its caller gave up), it restores the
/// state of before: writing the same bytes to the same offset again is harmless.
struct GroupWrite<'a> {
    shared: &'a Shared,
    bytes: Vec<u8>,
    after: LogPosition,
    upto: LogPosition,
    /// Where the next byte is written.
    tail: LogTail,
    /// Segments that this write began, with the first batch in each.
    new_segments: Vec<(Arc<Segment>, Seq)>,
    /// Segments that this write filled: (number, offset at which their records end).
    full_segments: Vec<(u64, u64)>,
    succeeded: bool,
}

impl Shared {
    /// Returns when the batch is written to the log file.
    pub async fn commit(&self, seq: Seq) -> Result<(), LogError> {
        tracing::trace!(target: "walk", file = file!(), "commit");
        loop {
            if self.committed() >= seq {
                return Ok(());
            }
            let changed = self.committed_changed.notified(); // registered before the check, so that no wake-up is missed
            match self.try_become_writer(seq)? {
                CommitRole::AlreadyWritten => return Ok(()),
                CommitRole::WaitForWriter => changed.await,
                CommitRole::Writer(writing) => writing.run().await?,
            }
        }
    }

    /// Writes all pending records, watermarks included.
    pub async fn commit_all(&self) -> Result<(), LogError> {
        loop {
            let changed = self.committed_changed.notified();
            let idle = {
                let state = self.state.lock();
                state.pending.is_empty() && !state.writing
            };
            if idle {
                return self.check_open();
            }
            match self.try_become_writer(Seq(u64::MAX))? {
                CommitRole::AlreadyWritten => return Ok(()),
                CommitRole::WaitForWriter => changed.await,
                CommitRole::Writer(writing) => writing.run().await?,
            }
        }
    }

    fn try_become_writer(&self, seq: Seq) -> Result<CommitRole<'_>, LogError> {
        let mut state = self.state.lock();
        if self.committed() >= seq {
            return Ok(CommitRole::AlreadyWritten);
        }
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if state.writing {
            return Ok(CommitRole::WaitForWriter);
        }
        state.writing = true;
        let idle = std::mem::take(&mut state.idle_buffer);
        Ok(CommitRole::Writer(GroupWrite {
            shared: self,
            bytes: std::mem::replace(&mut state.pending, idle),
            after: state.written,
            upto: state.end(),
            tail: state.tail.clone(),
            new_segments: Vec::new(),
            full_segments: Vec::new(),
            succeeded: false,
        }))
    }
}

impl GroupWrite<'_> {
    async fn run(mut self) -> Result<(), LogError> {
        match self.write_everywhere().await {
            Ok(()) => {
                self.finish();
                Ok(())
            }
            Err(error) => {
                // The content of the disk is unknown now, so the log closes: it acknowledges no further batch.
                self.shared.close(error.clone());
                Err(error)
            }
        }
    }

    /// Writes the records here, and has the copies append them meanwhile.
    async fn write_everywhere(&mut self) -> Result<(), LogError> {
        let Some(copies) = self.shared.options.copies.get() else {
            return self.write().await;
        };
        let owner = self.shared.state.lock().epoch;
        let elsewhere = copies.append(RecordGroup {
            owner,
            after: self.after,
            upto: self.upto,
            bytes: Bytes::copy_from_slice(&self.bytes),
        });
        // The copies first: they work while this host writes, which takes its thread.
        let (elsewhere, here) = tokio::join!(elsewhere, self.write());
        here?;
        elsewhere.map_err(LogError::Copies)
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
                self.roll_segment(upto).await?;
            }
            from = upto;
        }
        Ok(())
    }

    /// Continues in the next spare segment, with the record at `upto`.
    async fn roll_segment(&mut self, upto: usize) -> Result<(), LogError> {
        let next = self.shared.take_spare().await?;
        let record = &self.bytes[upto..];
        // The record names its predecessor's checksum itself. A watermark carries the seq of the batch before it.
        let previous = u32::from_le_bytes(record[8..12].try_into().expect("four bytes"));
        let seq = u64::from_le_bytes(record[16..24].try_into().expect("eight bytes"));
        let epoch = u64::from_le_bytes(record[24..32].try_into().expect("eight bytes"));
        let is_mark = record[12] == LogRecordKind::Watermark as u8;
        let first = Seq(seq + u64::from(is_mark));
        self.full_segments
            .push((self.tail.segment.number, self.tail.offset));
        self.new_segments.push((Arc::clone(&next), first));
        next.write_header(&SegmentHeader {
            store: self.shared.options.store,
            number: next.number,
            first,
            previous,
            segment_bytes: next.bytes,
            epoch: OwnerEpoch(epoch),
        })
        .await?;
        self.tail = LogTail {
            segment: next,
            offset: HEADER_BYTES,
        };
        Ok(())
    }

    fn finish(&mut self) {
        self.succeeded = true;
        let mut state = self.shared.state.lock();
        state.writing = false;
        state.written = self.upto;
        state.stats.writes += 1;
        let written = Arc::clone(&state.tail.segment);
        state.note_unsynced(written);
        for (segment, first) in self.new_segments.drain(..) {
            state.note_unsynced(Arc::clone(&segment));
            state.live.push_back(LiveSegment {
                segment,
                first,
                end: HEADER_BYTES,
            });
            state.stats.segments += 1;
        }
        for (number, end) in self.full_segments.drain(..) {
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
        self.shared
            .committed
            .store(self.upto.last.0, Ordering::Release);
        drop(state);
        self.shared.committed_changed.notify_waiters();
    }
}

impl Drop for GroupWrite<'_> {
    fn drop(&mut self) {
        if self.succeeded {
            return;
        }
        let mut state = self.shared.state.lock();
        state.writing = false;
        let later = std::mem::take(&mut state.pending);
        state.pending = std::mem::take(&mut self.bytes);
        state.pending.extend_from_slice(&later);
        for (segment, _) in self.new_segments.drain(..).rev() {
            state.spares.push_front(segment);
        }
        drop(state);
        self.shared.committed_changed.notify_waiters(); // another waiting task becomes the writer
    }
}

/// The number of bytes of complete records that fit into `room`.
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
