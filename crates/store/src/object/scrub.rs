//! scrub: verifies every clean region against its checksums, and computes those of every dirty region.

use super::Objects;
use super::flush_checksums::FlushMode;
use super::scrubber::{ScrubOptions, ScrubReport};
use gupfs_proto::FsError;

impl Objects {
    /// Reads all objects; calls `progress` after each. The status lists the damaged objects too.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, `StoreFailed` if a directory cannot be read. Damaged
    /// objects are no errors; the report lists them.
    pub async fn scrub(
        &self,
        scrub: ScrubOptions,
        progress: impl FnMut(&ScrubReport) + Send,
    ) -> Result<ScrubReport, FsError> {
        self.serving()?.scrubber.scrub(scrub, progress).await
    }

    /// Makes every region clean that no in-flight change overlaps, now; `scrub` and `stop` do so as well.
    ///
    /// # Errors
    /// `TargetDown` if the target is closed or not adopted, or a sync fails; `ObjectDamaged` for an object that cannot
    /// be read.
    pub async fn flush_checksums(&self) -> Result<u64, FsError> {
        self.serving()?.flusher.flush_due(FlushMode::All).await
    }
}
