//! Whether the server serves: it stops serving when it is told to stop, and for good when its store fails.

use gupfs_proto::FsError;
use gupfs_store::kv::KvError;
use gupfs_store::log::LogError;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use tokio::sync::Notify;

#[derive(Default)]
pub struct ServingState {
    stopping: AtomicBool,
    /// Why the server serves nothing any more. Set once: the first failure is the cause.
    failure_reason: OnceLock<String>,
    /// Signals that `failure_reason` was set.
    failure_notify: Notify,
}

impl ServingState {
    /// From here on the server refuses new requests, and a closed log is no failure.
    pub fn begin_stop(&self) {
        self.stopping.store(true, SeqCst);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// The store failed: the server promises nothing any more, since what is on disk is unknown until the store is opened again.
    pub fn fail(&self, error: &KvError) -> FsError {
        let why = self.failure_reason.get_or_init(|| {
            match error {
                // The host's own disk is well: another host owns the metadata, or is about to.
                KvError::Log(LogError::Copies(why)) => {
                    tracing::warn!(why, "this server serves the metadata no more");
                }
                _ => tracing::error!(%error, "the metadata store failed; the server stops serving; restart it"),
            }
            error_chain(error)
        });
        self.failure_notify.notify_waiters();
        FsError::StoreFailed(why.clone())
    }

    /// Ends all service for a reason that is not a failure of the store.
    pub fn fail_because(&self, why: String) -> FsError {
        let why = self.failure_reason.get_or_init(|| {
            tracing::error!(why, "the metadata server stops serving");
            why
        });
        self.failure_notify.notify_waiters();
        FsError::StoreFailed(why.clone())
    }

    /// Why the server serves nothing any more, as far as it was noted; `MetadataStore::failure` asks the log, too.
    pub fn noted_failure(&self) -> Option<&str> {
        self.failure_reason.get().map(String::as_str)
    }

    /// Returns the reason as soon as the server serves nothing any more.
    pub async fn wait_for_failure(&self) -> String {
        loop {
            let mut fails = std::pin::pin!(self.failure_notify.notified());
            fails.as_mut().enable();
            if let Some(why) = self.failure_reason.get() {
                return why.clone();
            }
            fails.await;
        }
    }
}

/// An error with its causes, on one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
