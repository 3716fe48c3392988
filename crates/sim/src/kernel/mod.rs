//! # kernel: a model of how Linux applies the replies of a FUSE server
//!
//! Owns   names, attributes and pages as Linux caches them, with lifetimes and versions, under its locks; replies applied late,
//!        notifications that wait.
//! Never  knows the server; repairs a server's errors; uses a clock other than tokio's (paused, it is simulated).
//! Enter  at `Kernel::mount`. The contract's facts are tried on it as on the running kernel (`tests/it/kernel.rs`).
//!
//! Linux takes *its* lock first (a directory's, a page's) and asks the server second, while a notification needs that lock:
//! this is the whole difficulty, so the model has the locks. A version is counted up with every change of attributes: an
//! answer that was asked for at an older version than a node's brings nothing. The answer to LINK is taken without.

mod files;
mod linux;
mod names;
mod notices;
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

/// The longest WRITE.
const MAX_WRITE: usize = 1 << 20;

/// One mount.
pub struct Kernel<F> {
    fs: Arc<F>,
    /// What was agreed on.
    flags: InitFlags,
    quirk: Option<Quirk>,
    imagined: SyntheticRequests,
    state: Mutex<State>,
    /// The server is gone.
    dead: AtomicBool,
    died: Notify,
}

impl<F: FileSystem> Kernel<F> {
    pub fn mount(fs: Arc<F>, mut flags: InitFlags, quirk: Option<Quirk>) -> Arc<Kernel<F>> {
        if quirk == Some(Quirk::WritebackBelieves) {
            flags -= InitFlags::WRITEBACK_CACHE;
        }
        Arc::new(Kernel {
            fs,
            flags,
            quirk,
            imagined: SyntheticRequests::new(MAX_WRITE),
            state: Mutex::new(State::new(flags)),
            dead: AtomicBool::new(false),
            died: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.quirk == Some(quirk)
    }

    fn call(&self, node: NodeId) -> Call {
        self.imagined.call(node, CallerIds::default())
    }

    /// Waits for an answer, or for the end of the server.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let died = self.died.notified();
        if self.dead.load(Ordering::Relaxed) {
            return Err(Errno::ENOTCONN);
        }
        tokio::select! {
            biased;
            answer = answer => answer,
            () = died => Err(Errno::ECONNABORTED),
        }
    }

    /// Ends the connection: every waiting request fails, and so does every later one.
    pub fn abort(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_waiters();
    }

    /// stat(2).
    pub async fn size(&self, name: &[u8]) -> Result<u64> {
        let node = self.walk(name).await?;
        Ok(self.known(node, true).await?.size)
    }

    /// The attributes, asked for if they are not believed any more. An answer that is too old to be kept still reaches the
    /// program.
    async fn known(&self, node: NodeId, all: bool) -> Result<InodeAttr> {
        let version = {
            let state = self.state();
            let known = state.node(node)?;
            if known.believed_at(Instant::now(), all) || self.has(Quirk::AttributesNeverAgain) {
                return Ok(known.attr);
            }
            state.version()
        };
        let request = op::Getattr {
            flags: Default::default(),
            fh: None,
        };
        let found = self.ask(self.fs.getattr(self.call(node), request)).await?;
        let drop_pages = self
            .state()
            .attributes(node, found.attr, found.ttl, version);
        if drop_pages && !self.has(Quirk::PagesSurviveAttributes) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
        if self.flags.contains(InitFlags::WRITEBACK_CACHE) {
            return Ok(self.state().node(node)?.attr);
        }
        Ok(found.attr)
    }
}
