//! Background task for segments: creates spare segments ahead of their use and removes segments that the index no
//! longer needs.

use super::error::LogError;
use super::format::RECORD_HEADER_LEN;
use super::limits::{RETRY_WHEN_FULL, SPARES};
use super::segment::Segment;
use super::state::{CloseOnPanic, LogState, Shared};
use super::{Headroom, limits};
use gupfs_platform::DiskErrorKind;
use gupfs_proto::Seq;
use std::sync::Arc;

enum SegmentJob {
    Create(u64),
    /// While spares are missing, a retired segment becomes a spare: its space is not returned to the file system.
    Reuse(Arc<Segment>, u64),
    Remove(Arc<Segment>),
    WaitForSpace(u64),
    Wait,
    Exit,
}

impl Shared {
    /// The next segment to write to. Waits while the background task creates one; returns `DiskFull` when the disk has
    /// no space for one.
    pub async fn take_spare(&self) -> Result<Arc<Segment>, LogError> {
        loop {
            let changed = self.spares_changed.notified();
            {
                let mut state = self.state.lock();
                if let Some(why) = &state.closed {
                    return Err(why.clone());
                }
                self.wake_segment_manager.notify_one();
                if let Some(spare) = state.spares.pop_front() {
                    return Ok(spare);
                }
                if state.disk_full && state.retired.is_empty() {
                    return Err(LogError::DiskFull);
                }
            }
            changed.await;
        }
    }

    /// Retires the segments whose batches are all at or before `seq`, as far as no copy of the index needs them.
    pub fn trim_to(&self, seq: Seq) {
        assert!(
            seq <= self.durable(),
            "the index never has a batch that is not durable"
        );
        let mut state = self.state.lock();
        let seq = state.kept.iter().fold(seq, |seq, kept| seq.min(*kept));
        // The following segment becomes the first of the log, so it must hold a batch that is durable: then its header
        // is durable too.
        while state.live.get(1).is_some_and(|next| next.first <= seq) {
            let live = state.live.pop_front().expect("there are two");
            state.retired.push_back(live.segment);
        }
        self.wake_segment_manager.notify_one();
    }

    pub fn headroom(&self) -> Headroom {
        let state = self.state.lock();
        if !state.disk_full {
            return Headroom::Plenty;
        }
        let spares: u64 = (state.spares.iter())
            .map(|spare| spare.bytes - limits::HEADER_BYTES)
            .sum();
        let left = state.tail.segment.bytes - state.tail.offset + spares;
        // The batches that are staged and not written yet, and one more of the largest size.
        let reserved = (state.pending.len() + self.options.record_max()) as u64;
        match left.checked_sub(reserved) {
            None | Some(0) => Headroom::None,
            Some(left) => Headroom::Low(left),
        }
    }

    pub async fn run_segment_manager(self: Arc<Self>) {
        let _guard = CloseOnPanic(&self);
        loop {
            let result = match self.next_job() {
                SegmentJob::Create(number) => self.create_spare(number).await,
                SegmentJob::Reuse(segment, number) => self.reuse(&segment, number).await,
                SegmentJob::Remove(segment) => {
                    segment.remove(&self.disk).await.map_err(LogError::from)
                }
                SegmentJob::WaitForSpace(number) => {
                    let woken = tokio::select! {
                        biased;
                        () = self.wake_segment_manager.notified() => true,
                        () = self.platform.clock.sleep(RETRY_WHEN_FULL) => false,
                    };
                    if woken || !self.set_busy_unless_stopping() {
                        Ok(())
                    } else {
                        self.create_spare(number).await
                    }
                }
                SegmentJob::Wait => {
                    self.wake_segment_manager.notified().await;
                    Ok(())
                }
                SegmentJob::Exit => return,
            };
            self.state.lock().manager_busy = false;
            self.spares_changed.notify_waiters();
            if let Err(error) = result {
                self.close(error);
                return;
            }
        }
    }

    /// Returns when the background task has finished its current operation; it begins no other after that.
    pub async fn stop_segment_manager(&self) -> Result<(), LogError> {
        self.state.lock().stopping = true;
        self.wake_segment_manager.notify_one();
        loop {
            let changed = self.spares_changed.notified();
            self.check_open()?;
            if !self.state.lock().manager_busy {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Whether the final watermark still fits. With a full disk and a full segment it does not, and the log stops
    /// without it; all batches are durable regardless.
    pub fn has_space_for_watermark(&self) -> bool {
        let state = self.state.lock();
        let room = state.tail.segment.bytes - state.tail.offset;
        room >= RECORD_HEADER_LEN as u64 || !state.spares.is_empty()
    }

    fn next_job(&self) -> SegmentJob {
        let mut state = self.state.lock();
        if state.closed.is_some() || state.stopping {
            return SegmentJob::Exit;
        }
        let job = self.choose_job(&mut state);
        state.manager_busy = !matches!(job, SegmentJob::Wait | SegmentJob::WaitForSpace(_));
        job
    }

    fn set_busy_unless_stopping(&self) -> bool {
        let mut state = self.state.lock();
        state.manager_busy = !state.stopping;
        state.manager_busy
    }

    fn choose_job(&self, state: &mut LogState) -> SegmentJob {
        let number = state.next_number;
        if state.spares.len() >= SPARES {
            return match state.retired.pop_front() {
                Some(segment) => SegmentJob::Remove(segment),
                None => SegmentJob::Wait,
            };
        }
        // A retired segment of another size (the option was changed) cannot be reused.
        let size = self.options.segment_bytes;
        match state.retired.pop_front() {
            Some(segment) if segment.bytes == size => SegmentJob::Reuse(segment, number),
            Some(segment) => SegmentJob::Remove(segment),
            None if state.disk_full => SegmentJob::WaitForSpace(number),
            None => SegmentJob::Create(number),
        }
    }

    async fn create_spare(&self, number: u64) -> Result<(), LogError> {
        match Segment::create(&self.disk, number, self.options.segment_bytes).await {
            Ok(segment) => {
                self.add_spare(segment);
                Ok(())
            }
            Err(error) if error.kind == DiskErrorKind::Full => {
                let was_full = std::mem::replace(&mut self.state.lock().disk_full, true);
                if !was_full {
                    tracing::warn!(error = %error, "the disk has no space for the log's next segment; free space on it");
                }
                self.spares_changed.notify_waiters(); // waiters then return `DiskFull`
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn reuse(&self, segment: &Segment, number: u64) -> Result<(), LogError> {
        let segment = segment.reuse(&self.disk, number).await?;
        self.add_spare(segment);
        Ok(())
    }

    fn add_spare(&self, segment: Segment) {
        let mut state = self.state.lock();
        state.next_number = segment.number + 1;
        state.disk_full = false;
        state.spares.push_back(Arc::new(segment));
        drop(state);
        self.spares_changed.notify_waiters();
    }
}
