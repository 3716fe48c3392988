//! # kernel: a model of how Linux applies the replies of a FUSE server
//!
//! Owns   the dentries, inodes, attributes, ACLs and pages that Linux caches, with lifetimes and versions, under its locks; replies
//!        that are applied late; notifications that wait; FORGETs; the system calls of programs.
//! Never  knows the server; repairs a server's errors; uses a clock other than tokio's (paused, it is simulated).
//! Enter  at `Kernel::mount`, then `Kernel::root` for a program's system calls. The probes of crate `contract` test it like the
//!        running kernel (`tests/it/kernel.rs`).
//!
//! Linux takes its lock first (a directory's, a page's) and sends the request second, while a notification needs that lock. The
//! rules of coherence follow from that, so the model has the locks. Every change of attributes raises a version; a reply to a
//! request that was sent at an older version than the node's changes nothing. Replies to LINK and creates are applied without
//! that check.
//!
//! The model checks no permissions: with POSIX_ACL it revalidates the attributes that such a check needs. Of open files the model has no `copy_file_range`, `fallocate` and `lseek`; a node that is reused with
//! another generation is not modelled.

mod acl;
mod attributes;
mod cached_io;
mod cached_listing;
mod cached_page;
mod dcache;
mod dentry;
mod directory;
mod files;
mod inode_ref;
mod linux;
mod listing;
mod locks;
mod mappings;
mod moves;
mod names;
mod notifications;
mod opens;
mod pages;
mod quirk;
mod rename;
mod state;
mod walk;

pub use cached_listing::ListedName;
pub use directory::Directory;
pub use files::File;
pub use linux::{Model, Mounted};
pub use listing::DirectoryStream;
pub use mappings::Pipe;
pub use quirk::Quirk;
pub use rename::RenameFlags;

use gupfs_fuse::synthetic::{CallerIds, SyntheticRequests};
use gupfs_fuse::{Call, Errno, FileSystem, InitFlags, NodeId, Result};
use inode_ref::InodeRef;
use parking_lot::{Mutex, MutexGuard};
use state::{PageEffect, RequestVersion, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Size of the longest WRITE.
const WRITE_MAX: usize = 1 << 20;

/// One mount.
pub struct Kernel<F> {
    fs: Arc<F>,
    /// The flags that INIT negotiated.
    flags: InitFlags,
    quirk: Option<Quirk>,
    caller: CallerIds,
    synthetic_requests: SyntheticRequests,
    state: Arc<Mutex<State>>,
    /// Held by a rename between two directories.
    renames: tokio::sync::Mutex<()>,
    /// The connection was aborted.
    is_aborted: AtomicBool,
    aborted: Notify,
}

impl<F: FileSystem> Kernel<F> {
    /// A mount whose programs run as root.
    pub fn mount(fs: Arc<F>, flags: InitFlags, quirk: Option<Quirk>) -> Arc<Kernel<F>> {
        Kernel::mount_for(CallerIds::default(), fs, flags, quirk)
    }

    /// A mount whose programs have these credentials; whether they may do something is the server's to check.
    pub fn mount_for(
        caller: CallerIds,
        fs: Arc<F>,
        mut flags: InitFlags,
        quirk: Option<Quirk>,
    ) -> Arc<Kernel<F>> {
        if quirk == Some(Quirk::WritebackTakesServerSize) {
            flags -= InitFlags::WRITEBACK_CACHE;
        }
        if quirk == Some(Quirk::TruncatingOpensSendSetattr) {
            flags -= InitFlags::ATOMIC_O_TRUNC;
        }
        Arc::new(Kernel {
            fs,
            flags,
            quirk,
            caller,
            synthetic_requests: SyntheticRequests::new(WRITE_MAX),
            state: Arc::new(Mutex::new(State::new(flags))),
            renames: tokio::sync::Mutex::new(()),
            is_aborted: AtomicBool::new(false),
            aborted: Notify::new(),
        })
    }

    /// A program whose working directory is the root of the mount.
    pub fn root(self: &Arc<Kernel<F>>) -> Directory<F> {
        let root = self.inode(NodeId::ROOT);
        Directory::new(self.clone(), root.expect("the root is never evicted"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A reference to an inode; ESTALE if it is not in memory.
    fn inode(&self, node: NodeId) -> Result<InodeRef> {
        InodeRef::new(&self.state, node)
    }

    fn has_quirk(&self, quirk: Quirk) -> bool {
        self.quirk == Some(quirk)
    }

    fn call(&self, node: NodeId) -> Call {
        self.synthetic_requests.call(node, self.caller)
    }

    /// The version at which a request is sent now whose reply is checked.
    fn request_version(&self) -> RequestVersion {
        let mut version = self.state().request_version();
        if self.has_quirk(Quirk::RepliesHaveNoVersion) {
            version.version = 0;
        }
        version
    }

    /// The version of a request whose reply is applied unchecked, unless a quirk checks it.
    fn unchecked_version(&self, checked_by: Quirk) -> RequestVersion {
        let mut version = self.request_version();
        if !self.has_quirk(checked_by) {
            version.version = 0;
            version.evictions = None;
        }
        version
    }

    /// Applies what a reply with attributes does to the pages.
    async fn apply_page_effect(&self, node: NodeId, effect: PageEffect) {
        if !self.has_quirk(Quirk::PagesSurviveAttributes) {
            if let Some(size) = effect.truncate {
                self.truncate_pages(node, size).await;
            }
            if effect.drop {
                self.drop_pages(node, 0, u64::MAX).await;
            }
        }
        if self.has_quirk(Quirk::AttributesDropPages) {
            self.drop_pages(node, 0, u64::MAX).await;
        }
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

    /// Sends the FORGETs of inodes that were evicted. Each system call and notification ends with it.
    async fn send_forgets(&self) {
        let mut forgets = std::mem::take(&mut self.state().forgets);
        if forgets.is_empty() || self.is_aborted.load(Ordering::Relaxed) {
            return;
        }
        if self.has_quirk(Quirk::ForgetsCountOneLookup) {
            forgets.iter_mut().for_each(|forget| forget.lookups = 1);
        }
        self.fs.forget(forgets).await;
    }

    /// Drops every dentry and inode that nothing uses, as Linux does under memory pressure.
    pub async fn shrink(&self) {
        self.state().drop_unused();
        self.send_forgets().await;
    }

    /// Bounds the dentry cache: above `dentries`, the dentry that was not used for the longest time is dropped.
    pub fn set_dentries_max(&self, dentries: usize) {
        self.state().dentries_max = dentries;
    }

    /// Number of cached dentries.
    pub fn dentries(&self) -> usize {
        self.state().dentries.len()
    }

    /// Aborts the connection: every waiting request fails, and every later one.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
        self.aborted.notify_waiters();
    }
}
