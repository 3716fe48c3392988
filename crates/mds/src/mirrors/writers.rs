//! Keeping the writers of a file waiting, for the last step of a resync, or while members get other OSTs.

use crate::limits::WRITER_PATIENCE;
use gupfs_platform::Clock;
use gupfs_proto::{FsError, InodeId};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// No session gets a write lease of the file until this is dropped. It may wait a long time to be made, and may be given up.
pub type HeldWriters<'a> = Box<dyn Send + 'a>;

pub type HoldWriters<'a> =
    Pin<Box<dyn Future<Output = Result<HeldWriters<'a>, FsError>> + Send + 'a>>;

/// The sessions that write files.
pub trait FileWriters: Send + Sync + 'static {
    /// Has each session give back its write lease of a file. Those that want it wait, in order, behind the result.
    fn hold(&self, ino: InodeId) -> HoldWriters<'_>;
}

/// After so many files whose writers have not given them up, a task asks for no more: each costs it some seconds.
const UNANSWERED_MAX: u32 = 3;

/// Takes files from their writers, for one round of a task.
pub struct WriterHolds<'a> {
    writers: &'a dyn FileWriters,
    clock: &'a Clock,
    unanswered: AtomicU32,
}

impl<'a> WriterHolds<'a> {
    pub fn new(writers: &'a dyn FileWriters, clock: &'a Clock) -> WriterHolds<'a> {
        WriterHolds {
            writers,
            clock,
            unanswered: AtomicU32::new(0),
        }
    }

    /// Too many writers have not answered in this round.
    pub fn are_over(&self) -> bool {
        self.unanswered.load(Relaxed) >= UNANSWERED_MAX
    }

    /// Takes a file from its writers. None: one of them does not give it up now.
    ///
    /// # Errors
    /// Of the store.
    pub async fn hold(&self, ino: InodeId) -> Result<Option<HeldWriters<'a>>, FsError> {
        if self.are_over() {
            return Ok(None);
        }
        let held = tokio::select! {
            biased;
            held = self.writers.hold(ino) => held,
            () = self.clock.sleep(WRITER_PATIENCE) => {
                self.unanswered.fetch_add(1, Relaxed);
                return Ok(None);
            }
        };
        match held {
            Ok(held) => Ok(Some(held)),
            Err(error @ FsError::StoreFailed(_)) => Err(error),
            // What a session, or an object server, has said of one file.
            Err(error) => {
                tracing::debug!(%ino, %error, "a session does not give up a file");
                Ok(None)
            }
        }
    }
}
