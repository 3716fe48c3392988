//! Listings of directories: READDIR and READDIRPLUS, and the directory's page cache.
//!
//! Each read of a listing sends one request, under the directory's lock, which it shares with lookups. An entry of READDIRPLUS
//! adds a dentry and attributes, with lifetimes of their own, and counts a lookup.

use super::cached_listing::{CachedListing, ListedName};
use super::dentry::DentryKey;
use super::inode_ref::InodeRef;
use super::state::{Needed, RequestVersion, State};
use super::walk::WalkMode;
use super::{Kernel, Quirk};
use gupfs_fuse::{
    EntryReply, FileHandle, FileSystem, InitFlags, LockOwner, NodeId, OpenFlags, OpenReplyFlags,
    ReleaseFlags, Result, op,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// Size of one READDIR or READDIRPLUS reply.
const LISTING_SIZE: u32 = 4096;

/// An open directory.
pub struct DirectoryStream<F> {
    kernel: Arc<Kernel<F>>,
    inode: InodeRef,
    fh: FileHandle,
    flags: OpenReplyFlags,
    /// The offset of the last name that was read.
    position: Mutex<u64>,
}

impl<F: FileSystem> Kernel<F> {
    /// opendir(3).
    pub(super) async fn open_directory(
        self: &Arc<Kernel<F>>,
        start: &InodeRef,
        path: &[u8],
    ) -> Result<DirectoryStream<F>> {
        let inode = self.walk(start, path, WalkMode::FOLLOW).await?;
        self.check_search(&inode).await?;
        let request = op::Open {
            flags: libc::O_DIRECTORY as u32,
            open_flags: OpenFlags::empty(),
        };
        let reply = self.fs.opendir(self.call(inode.node()), request);
        let opened = self.wait_reply(reply).await?;
        if !opened.flags.contains(OpenReplyFlags::KEEP_CACHE)
            && let Ok(dir) = self.state().node_mut(inode.node())
        {
            dir.listing = None;
        }
        Ok(DirectoryStream {
            kernel: self.clone(),
            inode,
            fh: opened.fh,
            flags: opened.flags,
            position: Mutex::new(0),
        })
    }

    /// With READDIRPLUS_AUTO only a listing's first request asks for attributes, and those after programs used listed names.
    fn wants_attributes(&self, dir: NodeId, offset: u64) -> bool {
        if !self.flags.contains(InitFlags::DO_READDIRPLUS) {
            return false;
        }
        if !self.flags.contains(InitFlags::READDIRPLUS_AUTO) {
            return true;
        }
        let mut state = self.state();
        let advised = state.node_mut(dir);
        let advised = advised.is_ok_and(|dir| std::mem::take(&mut dir.listing_advised));
        advised || offset == 0
    }

    async fn request_names(&self, dir: NodeId, request: op::Readdir) -> Result<Vec<ListedName>> {
        let reply = self.fs.readdir(self.call(dir), request);
        let names = self.wait_reply(reply).await?.entries().into_iter();
        let name = |(ino, offset, kind, name)| ListedName {
            name,
            ino,
            kind,
            offset,
        };
        Ok(names.map(name).collect())
    }

    async fn request_names_with_attributes(
        &self,
        dir: NodeId,
        request: op::Readdir,
    ) -> Result<Vec<ListedName>> {
        let request_version = self.request_version();
        let reply = self.fs.readdirplus(self.call(dir), request);
        let mut names = Vec::new();
        for (entry, offset, name) in self.wait_reply(reply).await?.entries() {
            let is_dot = matches!(name.as_slice(), b"." | b"..");
            if entry.node != NodeId::NONE && !is_dot && !self.has_quirk(Quirk::ListingsNotCached) {
                let key = (dir, name.clone());
                self.apply_listed(&key, &entry, request_version).await?;
            }
            names.push(ListedName {
                name,
                ino: entry.attr.ino,
                kind: entry.attr.mode >> 12,
                offset,
            });
        }
        Ok(names)
    }

    /// Linux gives the dentry the epoch at which it applies the reply.
    async fn apply_listed(
        &self,
        key: &DentryKey,
        entry: &EntryReply,
        mut request_version: RequestVersion,
    ) -> Result<()> {
        let _turn = self.lookup_turn(key).await;
        if !self.has_quirk(Quirk::ListingKeepsRequestEpoch) {
            request_version.epoch = self.state().epoch;
        }
        let known = self.state().dentries.get(key).map(|dentry| dentry.node);
        let inode = match known {
            Some(Some(node)) if node == entry.node => {
                let inode = self.inode(node)?;
                let epoch = Some(request_version.epoch);
                self.confirm(key, entry, request_version, epoch).await;
                inode
            }
            other => {
                if other.is_some() {
                    self.state().invalidate_dentry(key);
                }
                self.apply_entry(key, entry, request_version).await?
            }
        };
        self.state().node_mut(inode.node())?.listed =
            self.flags.contains(InitFlags::READDIRPLUS_AUTO);
        Ok(())
    }
}

impl State {
    /// The cached names after an offset. A new listing starts the cache, or drops one that the directory has outlived.
    fn cached_names(&mut self, dir: NodeId, offset: u64) -> Result<Option<Vec<ListedName>>> {
        let known = self.node_mut(dir)?;
        let (changes, mtime) = (known.changes, known.attr.mtime);
        if offset == 0 {
            let listing = known.listing.take();
            let current = listing.filter(|listing| listing.is_current(changes, mtime));
            known.listing = Some(current.unwrap_or_else(|| CachedListing::new(changes, mtime)));
        }
        let listing = known.listing.as_ref();
        Ok(listing.and_then(|listing| listing.names_after(offset)))
    }

    /// Names that a READDIR has found after an offset; none at the end.
    fn add_to_listing(&mut self, dir: NodeId, offset: u64, names: &[ListedName]) -> Result<()> {
        if let Some(listing) = &mut self.node_mut(dir)?.listing {
            listing.add(offset, names);
        }
        Ok(())
    }
}

impl<F: FileSystem> DirectoryStream<F> {
    /// getdents(2): some of the names after the last one that was read; none at the end.
    pub async fn read(&self) -> Result<Vec<ListedName>> {
        let lock = self.inode.lock();
        let _shared = lock.read().await;
        let offset = *self.position.lock();
        let names = self.names_after(offset).await?;
        if let Some(last) = names.last() {
            *self.position.lock() = last.offset;
        }
        Ok(names)
    }

    async fn names_after(&self, offset: u64) -> Result<Vec<ListedName>> {
        let (kernel, dir) = (&self.kernel, self.inode.node());
        let caches = self.flags.contains(OpenReplyFlags::CACHE_DIR);
        if caches {
            if offset == 0 && kernel.flags.contains(InitFlags::AUTO_INVAL_DATA) {
                kernel.attributes(&self.inode, Needed::Basic, None).await?;
            }
            let cached = kernel.state().cached_names(dir, offset)?;
            if let Some(names) = cached {
                return Ok(names);
            }
        }
        let request = op::Readdir {
            fh: self.fh,
            offset,
            size: LISTING_SIZE,
        };
        let names = match kernel.wants_attributes(dir, offset) {
            true => kernel.request_names_with_attributes(dir, request).await?,
            false => kernel.request_names(dir, request).await?,
        };
        let mut state = kernel.state();
        state.node_mut(dir)?.invalidate_times();
        if caches {
            state.add_to_listing(dir, offset, &names)?;
        }
        drop(state);
        Ok(names)
    }

    /// rewinddir(3).
    pub fn rewind(&self) {
        *self.position.lock() = 0;
    }

    /// closedir(3): the program does not wait for RELEASEDIR.
    pub fn close(self) {
        let DirectoryStream {
            kernel, inode, fh, ..
        } = self;
        tokio::spawn(async move {
            let release = op::Release {
                fh,
                open_flags: libc::O_DIRECTORY as u32,
                flags: ReleaseFlags::empty(),
                lock_owner: LockOwner(0),
            };
            let reply = kernel.fs.releasedir(kernel.call(inode.node()), release);
            // The program does not learn the result.
            let _ = kernel.wait_reply(reply).await;
            drop(inode);
            kernel.send_forgets().await;
        });
    }
}
