//! Keeping the writers of a file waiting, for the last step of a resync, or while members get other OSTs.

use crate::limits::WRITER_PATIENCE;
use gupfs_platform::Clock;
use gupfs_proto::{FsError, InodeId};
use std::future::Future;
use std::pin::Pin;

/// No session gets a write lease of the file until this is dropped. It may wait a long time to be made, and may be given up.
pub type HeldWriters<'a> = Box<dyn Send + 'a>;

pub type HoldWriters<'a> =
    Pin<Box<dyn Future<Output = Result<HeldWriters<'a>, FsError>> + Send + 'a>>;

/// The sessions that write files.
pub trait FileWriters: Send + Sync + 'static {
    /// Has each session give back its write lease of a file. Those that want it wait, in order, behind the result.
    fn hold(&self, ino: InodeId) -> HoldWriters<'_>;
}

/// Takes a file from its writers. None: one does not answer.
pub async fn hold_writers<'a>(
    writers: &'a dyn FileWriters,
    ino: InodeId,
    clock: &Clock,
) -> Result<Option<HeldWriters<'a>>, FsError> {
    tokio::select! {
        biased;
        held = writers.hold(ino) => held.map(Some),
        () = clock.sleep(WRITER_PATIENCE) => Ok(None),
    }
}
