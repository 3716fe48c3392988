//! Files whose layout is to change, and how far each is.
//!
//! Nothing is recorded: the command that asked sends its request again until the conversion has ended, also after a restart of the server.

use crate::limits::{CONVERSION_RESULT_KEPT, CONVERSIONS_MAX};
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::InodeId;
use gupfs_proto::layout::{ConversionState, DefaultLayout};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Default)]
pub struct ConversionQueue {
    state: Mutex<QueueState>,
    /// For the task.
    wake: Notify,
    /// For those who wait for a result.
    ended: Notify,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<(InodeId, DefaultLayout)>,
    files: BTreeMap<InodeId, Conversion>,
    status: ConversionStatus,
}

struct Conversion {
    state: ConversionState,
    /// When it ended.
    ended: Option<BootTime>,
}

/// Progress of conversions, for `status`. Numbers are those since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ConversionStatus {
    pub waiting: u64,
    /// The file that is being copied.
    pub converting: Option<InodeId>,
    pub files_converted: u64,
    pub bytes_copied: u64,
    pub files_left: u64,
    pub last_error: Option<String>,
}

impl ConversionQueue {
    /// Queues a file, if it is not queued and there is room, and waits for a moment. Returns how far its conversion is; the result of one
    /// that has ended only once.
    pub async fn convert(
        &self,
        ino: InodeId,
        layout: DefaultLayout,
        clock: &Clock,
        wait: Duration,
    ) -> ConversionState {
        if !self.queue(ino, layout, clock.boot()) {
            return ConversionState::Waiting;
        }
        let until = clock.boot() + wait;
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            let (state, is_over) = self.state_of(ino);
            if is_over || clock.boot() >= until {
                return state;
            }
            tokio::select! {
                biased;
                () = ended => {}
                () = clock.sleep_until(until) => {}
            }
        }
    }

    /// Returns whether the file is in the queue now, or a result for it.
    fn queue(&self, ino: InodeId, layout: DefaultLayout, now: BootTime) -> bool {
        let mut state = self.state.lock();
        let is_kept = |file: &Conversion| {
            file.ended
                .is_none_or(|ended| now.since(ended) < CONVERSION_RESULT_KEPT)
        };
        state.files.retain(|_, file| is_kept(file));
        if state.files.contains_key(&ino) {
            return true;
        }
        if state.files.len() >= CONVERSIONS_MAX {
            return false;
        }
        let conversion = Conversion {
            state: ConversionState::Waiting,
            ended: None,
        };
        state.files.insert(ino, conversion);
        state.waiting.push_back((ino, layout));
        self.wake.notify_one();
        true
    }

    /// The state of a file, and whether it is a result, which is taken.
    fn state_of(&self, ino: InodeId) -> (ConversionState, bool) {
        let mut state = self.state.lock();
        match state.files.get(&ino) {
            Some(file) if file.ended.is_some() => {
                let found = file.state.clone();
                state.files.remove(&ino);
                (found, true)
            }
            Some(file) => (file.state.clone(), false),
            // Another request has taken the result.
            None => (ConversionState::Waiting, true),
        }
    }

    /// The next file to convert.
    pub fn take(&self) -> Option<(InodeId, DefaultLayout)> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        state.status.converting = next.as_ref().map(|(ino, _)| *ino);
        next
    }

    /// Returns when a file was queued.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    pub fn copied(&self, ino: InodeId, copied: u64, of: u64) {
        if let Some(file) = self.state.lock().files.get_mut(&ino) {
            file.state = ConversionState::Copying { copied, of };
        }
    }

    pub fn ended(&self, ino: InodeId, result: ConversionState, now: BootTime) {
        let mut state = self.state.lock();
        state.status.converting = None;
        match &result {
            ConversionState::Done { bytes } => {
                state.status.files_converted += 1;
                state.status.bytes_copied += bytes;
            }
            ConversionState::Left(why) => {
                state.status.files_left += 1;
                state.status.last_error = Some(format!("inode {ino}: {why}"));
            }
            _ => {}
        }
        if let Some(file) = state.files.get_mut(&ino) {
            (file.state, file.ended) = (result, Some(now));
        }
        drop(state);
        self.ended.notify_waiters();
    }

    pub fn status(&self) -> ConversionStatus {
        let state = self.state.lock();
        ConversionStatus {
            waiting: state.waiting.len() as u64,
            ..state.status.clone()
        }
    }
}
