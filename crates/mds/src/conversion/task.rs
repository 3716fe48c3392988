//! The conversion task: converts the files that users have asked for, one after the other.

use super::file::{FileConversion, FileConverter};
use crate::limits::RETRY;
use crate::pending_work::ConversionQueue;
use gupfs_platform::Clock;
use gupfs_proto::layout::ConversionState;
use std::sync::Arc;

pub struct ConversionTask {
    pub converter: FileConverter,
    pub queue: Arc<ConversionQueue>,
    pub clock: Clock,
}

impl ConversionTask {
    pub async fn run(self) {
        while self.converter.store.failure().is_none() {
            let Some((ino, shape)) = self.queue.take() else {
                tokio::select! {
                    biased;
                    () = self.queue.wait() => {}
                    () = self.clock.sleep(RETRY) => {}
                }
                continue;
            };
            let targets = self.converter.targets.placement();
            let progress = |copied, of| self.queue.copied(ino, copied, of);
            let converted = self.converter.convert(ino, &shape, &targets, progress);
            let state = match converted.await {
                Ok(FileConversion::Done { bytes, .. }) => ConversionState::Done { bytes },
                Ok(FileConversion::Left(why)) => ConversionState::Left(why),
                Err(error) => ConversionState::Left(error.to_string()),
            };
            self.queue.ended(ino, state, self.clock.boot());
        }
    }
}
