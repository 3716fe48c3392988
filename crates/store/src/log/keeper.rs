//! Segments: the next ones made ready in the background, the ones nobody needs removed.

use super::error::LogError;
use super::format::RECORD;
use super::limits::{RETRY_FULL, SPARES};
use super::segment::Segment;
use super::state::{CloseOnPanic, Shared, State};
use super::{Headroom, limits};
use gupfs_platform::DiskErrorKind;
use gupfs_proto::Seq;
use std::sync::Arc;

enum Job {
    Make(u64),
    /// Space that is ours already is not given back while spares are missing.
    Reuse(Arc<Segment>, u64),
    Remove(Arc<Segment>),
    WaitForSpace(u64),
    Wait,
    End,
}

impl Shared {
    /// The next segment to write to. Waits while it is being made; `Full` when it cannot be.
    pub async fn take_spare(&self) -> Result<Arc<Segment>, LogError> {
        loop {
            let moved = self.spares_moved.notified();
            {
                let mut state = self.state.lock();
                if let Some(why) = &state.closed {
                    return Err(why.clone());
                }
                self.wake_keeper.notify_one();
                if let Some(spare) = state.spares.pop_front() {
                    return Ok(spare);
                }
                if state.full && state.retired.is_empty() {
                    return Err(LogError::Full);
                }
            }
            moved.await;
        }
    }

    /// Segments whose batches are all at or before `seq` may go.
    pub fn drop_before(&self, seq: Seq) {
        assert!(
            seq <= self.durable(),
            "the index is never ahead of what is durable"
        );
        let mut state = self.state.lock();
        // The segment that follows must be known to be durable, so it must hold a batch that is: it becomes the log's
        // beginning.
        while state.live.get(1).is_some_and(|next| next.first <= seq) {
            let live = state.live.pop_front().expect("there are two");
            state.retired.push_back(live.segment);
        }
        self.wake_keeper.notify_one();
    }

    pub fn headroom(&self) -> Headroom {
        let state = self.state.lock();
        if !state.full {
            return Headroom::Plenty;
        }
        let spares: u64 = (state.spares.iter())
            .map(|spare| spare.bytes - limits::HEADER_BYTES)
            .sum();
        let left = state.tail.segment.bytes - state.tail.offset + spares;
        // Batches that are staged and not written yet, and the one that comes: the largest there is.
        let spoken_for = (state.pending.len() + self.options.record_max()) as u64;
        match left.checked_sub(spoken_for) {
            None | Some(0) => Headroom::None,
            Some(left) => Headroom::Low(left),
        }
    }

    pub async fn keep_segments(self: Arc<Self>) {
        let _guard = CloseOnPanic(&self);
        loop {
            let done = match self.next_job() {
                Job::Make(number) => self.make(number).await,
                Job::Reuse(segment, number) => self.reuse(&segment, number).await,
                Job::Remove(segment) => segment.remove(&self.disk).await.map_err(LogError::from),
                Job::WaitForSpace(number) => {
                    let woken = tokio::select! {
                        biased;
                        () = self.wake_keeper.notified() => true,
                        () = self.platform.clock.sleep(RETRY_FULL) => false,
                    };
                    if woken || !self.begin_keeping() {
                        Ok(())
                    } else {
                        self.make(number).await
                    }
                }
                Job::Wait => {
                    self.wake_keeper.notified().await;
                    Ok(())
                }
                Job::End => return,
            };
            self.state.lock().keeping = false;
            self.spares_moved.notify_waiters();
            if let Err(error) = done {
                self.close(error);
                return;
            }
        }
    }

    /// Returns when the keeper has finished what it was doing and will begin nothing more.
    pub async fn stop_keeping(&self) -> Result<(), LogError> {
        self.state.lock().stopping = true;
        self.wake_keeper.notify_one();
        loop {
            let moved = self.spares_moved.notified();
            self.check_open()?;
            if !self.state.lock().keeping {
                return Ok(());
            }
            moved.await;
        }
    }

    /// With a full disk and a full segment, the last word stays unsaid; everything else is durable.
    pub fn has_room_for_mark(&self) -> bool {
        let state = self.state.lock();
        let room = state.tail.segment.bytes - state.tail.offset;
        room >= RECORD as u64 || !state.spares.is_empty()
    }

    fn next_job(&self) -> Job {
        let mut state = self.state.lock();
        if state.closed.is_some() || state.stopping {
            return Job::End;
        }
        let job = self.choose_job(&mut state);
        state.keeping = !matches!(job, Job::Wait | Job::WaitForSpace(_));
        job
    }

    fn begin_keeping(&self) -> bool {
        let mut state = self.state.lock();
        state.keeping = !state.stopping;
        state.keeping
    }

    fn choose_job(&self, state: &mut State) -> Job {
        let number = state.next_number;
        if state.spares.len() >= SPARES {
            return match state.retired.pop_front() {
                Some(segment) => Job::Remove(segment),
                None => Job::Wait,
            };
        }
        // One of another size (the option was changed) would not be whole.
        let size = self.options.segment_bytes;
        match state.retired.pop_front() {
            Some(segment) if segment.bytes == size => Job::Reuse(segment, number),
            Some(segment) => Job::Remove(segment),
            None if state.full => Job::WaitForSpace(number),
            None => Job::Make(number),
        }
    }

    async fn make(&self, number: u64) -> Result<(), LogError> {
        match Segment::make(&self.disk, number, self.options.segment_bytes).await {
            Ok(segment) => {
                self.add_spare(segment);
                Ok(())
            }
            Err(error) if error.kind == DiskErrorKind::Full => {
                let was_full = std::mem::replace(&mut self.state.lock().full, true);
                if !was_full {
                    tracing::warn!(error = %error, "no space for the log's next segment");
                }
                self.spares_moved.notify_waiters(); // who waits for it learns that it will not come
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
        state.full = false;
        state.spares.push_back(Arc::new(segment));
        drop(state);
        self.spares_moved.notify_waiters();
    }
}
