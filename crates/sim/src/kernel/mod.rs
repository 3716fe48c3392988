//! # kernel: a model of how Linux applies the replies of a FUSE server
//!
//! Owns   dentries, attributes and pages as Linux caches them, with lifetimes and versions, under its locks; replies that are
//!        applied late; notifications that wait.
//! Never  knows the server; repairs a server's errors; uses a clock other than tokio's (paused, it is simulated).
//! Enter  at `Kernel::mount`. The probes of crate `contract` test it like the running kernel (`tests/it/kernel.rs`).
//!
//! Linux takes its lock first (a directory's, a page's) and sends the request second, while a notification needs that lock. The
//! rules of coherence follow from that, so the model has the locks. Every change of attributes raises a version; a reply to a
//! request that was sent at an older version than the node's changes nothing. Replies to LINK and CREATE are applied without
//! that check.

mod dentries;
mod files;
mod linux;
mod notifications;
mod pages;
mod quirk;
mod state;

pub use files::File;
pub use linux::{Model, Mounted};
pub use quirk::Quirk;

use gupfs_fuse::synthetic::{CallerIds, SyntheticRequests};
use gupfs_fuse::{Call, Errno, FileSystem, InitFlags, InodeAttr, NodeId, Result, op};
use parking_lot::{Mutex, MutexGuard};
use state::State;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Size of the longest WRITE.
const WRITE_MAX: usize = 1 << 20;

/// One mount.
pub struct Kernel<F> {
    fs: Arc<F>,
    /// The flags that INIT negotiated.
    flags: InitFlags,
    quirk: Option<Quirk>,
    synthetic_requests: SyntheticRequests,
    state: Mutex<State>,
    /// The connection was aborted.
    is_aborted: AtomicBool,
    aborted: Notify,
}

impl<F: FileSystem> Kernel<F> {
    pub fn mount(fs: Arc<F>, mut flags: InitFlags, quirk: Option<Quirk>) -> Arc<Kernel<F>> {
        if quirk == Some(Quirk::WritebackTakesServerSize) {
            flags -= InitFlags::WRITEBACK_CACHE;
        }
        Arc::new(Kernel {
            fs,
            flags,
            quirk,
            synthetic_requests: SyntheticRequests::new(WRITE_MAX),
            state: Mutex::new(State::new(flags)),
            is_aborted: AtomicBool::new(false),
            aborted: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn has_quirk(&self, quirk: Quirk) -> bool {
        self.quirk == Some(quirk)
    }

    fn call(&self, node: NodeId) -> Call {
        self.synthetic_requests.call(node, CallerIds::default())
    }

    /// Whether a reply with attributes drops pages. `changed`: they differ from the cached ones in a way that does.
    fn must_drop_pages(&self, changed: bool) -> bool {
        changed && !self.has_quirk(Quirk::PagesSurviveAttributes)
            || self.has_quirk(Quirk::AttributesDropPages)
    }

    /// Waits for a reply, or for the abort of the connection.
    async fn wait_reply<T>(&self, reply: impl Future<Output = Result<T>>) -> Result<T> {
        let aborted = self.aborted.notified();
        if self.is_aborted.load(Ordering::Relaxed) {
            return Err(Errno::ENOTCONN);
        }
        tokio::select! {
            biased;
            reply = reply => reply,
            () = aborted => Err(Errno::ECONNABORTED),
        }
    }

    /// Aborts the connection: every waiting request fails, and every later one.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
        self.aborted.notify_waiters();
    }

    /// stat(2).
    pub async fn size(&self, name: &[u8]) -> Result<u64> {
        let node = self.resolve(name).await?;
        Ok(self.attributes(node, true).await?.size)
    }

    /// Returns the attributes, from a GETATTR if the cached ones have expired. A reply that is too old for the cache still
    /// reaches the program.
    async fn attributes(&self, node: NodeId, all: bool) -> Result<InodeAttr> {
        let version = {
            let state = self.state();
            let known = state.node(node)?;
            if known.attributes_valid_at(Instant::now(), all)
                || self.has_quirk(Quirk::AttributesNeverExpire)
            {
                return Ok(known.attr);
            }
            state.version()
        };
        let request = op::Getattr {
            flags: Default::default(),
            fh: None,
        };
        let found = self
            .wait_reply(self.fs.getattr(self.call(node), request))
            .await?;
        let version = match self.has_quirk(Quirk::RepliesHaveNoVersion) {
            true => 0,
            false => version,
        };
        let drop_pages = self
            .state()
            .apply_attributes(node, found.attr, found.ttl, version);
        if self.must_drop_pages(drop_pages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        if self.flags.contains(InitFlags::WRITEBACK_CACHE) {
            return Ok(self.state().node(node)?.attr);
        }
        Ok(found.attr)
    }
}
