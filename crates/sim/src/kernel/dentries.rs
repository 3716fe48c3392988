//! Lookup, listing and creation of names. Lookups and listings share the directory's lock; a create holds it exclusively.

use super::state::RequestVersion;
use super::{Kernel, Quirk};
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{
    EntryReply, Errno, FileSystem, InitFlags, LockOwner, NodeId, OpenFlags, ReleaseFlags, Result,
};
use std::time::Duration;

/// Size of one READDIRPLUS reply.
const LISTING_SIZE: u32 = 4096;

const DIR: NodeId = NodeId::ROOT;

impl<F: FileSystem> Kernel<F> {
    fn request_version(&self) -> RequestVersion {
        let state = self.state();
        RequestVersion {
            epoch: state.epoch,
            version: state.version(),
        }
    }

    async fn apply_entry(
        &self,
        name: &[u8],
        entry: &EntryReply,
        mut request_version: RequestVersion,
    ) {
        let mut entry = *entry;
        if self.has_quirk(Quirk::EpochSparesRepliesInFlight) {
            request_version.epoch = self.state().epoch;
        }
        if self.has_quirk(Quirk::NamesNeverExpire) {
            entry.name_ttl = Duration::MAX;
        }
        if self.has_quirk(Quirk::RepliesHaveNoVersion) {
            request_version.version = 0;
        }
        let drop_pages = self
            .state()
            .add_dentry((DIR, name.into()), &entry, request_version);
        if self.must_drop_pages(drop_pages) {
            self.drop_pages(entry.node, 0, u64::MAX).await;
        }
    }

    /// Resolves a name in the root.
    pub async fn resolve(&self, name: &[u8]) -> Result<NodeId> {
        let keep_covering_mount = self.has_quirk(Quirk::CoveringMountStays);
        let valid_dentry = self
            .state()
            .valid_dentry(&(DIR, name.into()), keep_covering_mount);
        if let Some(node) = valid_dentry {
            return node.ok_or(Errno::ENOENT);
        }
        let lock = self.state().lock_of(DIR)?;
        let _shared = lock.read().await;
        self.look_up(name).await
    }

    /// The caller holds the directory's lock.
    async fn look_up(&self, name: &[u8]) -> Result<NodeId> {
        let request_version = self.request_version();
        let request = op::Lookup {
            name: EntryName::new(name),
        };
        let entry = self
            .wait_reply(self.fs.lookup(self.call(DIR), request))
            .await?;
        if entry.node == NodeId::NONE {
            if !self.has_quirk(Quirk::NegativeDentriesNotCached) {
                let mut request_version = request_version;
                let mut ttl = entry.name_ttl;
                let mut state = self.state();
                if self.has_quirk(Quirk::EpochSparesRepliesInFlight) {
                    request_version.epoch = state.epoch;
                }
                if self.has_quirk(Quirk::NamesNeverExpire) {
                    ttl = Duration::MAX;
                }
                state.add_negative_dentry((DIR, name.into()), ttl, request_version);
            }
            return Err(Errno::ENOENT);
        }
        let was_overtaken = self.request_version() != request_version;
        self.apply_entry(name, &entry, request_version).await;
        if was_overtaken && self.has_quirk(Quirk::LookupHasVersion) {
            self.state().invalidate_attributes(entry.node)?;
        }
        Ok(entry.node)
    }

    pub async fn create(&self, name: &[u8]) -> Result<()> {
        let lock = self.state().lock_of(DIR)?;
        let alone = lock.write().await;
        match self.look_up(name).await {
            Err(Errno::ENOENT) => {}
            Ok(_) => return Err(Errno::EEXIST),
            Err(other) => return Err(other),
        }
        let mut request_version = self.request_version();
        if !self.has_quirk(Quirk::CreateHasVersion) {
            request_version.version = 0;
        }
        let request = op::Create {
            name: EntryName::new(name),
            flags: 0,
            mode: 0o100_644,
            umask: 0o022,
            open_flags: OpenFlags::empty(),
        };
        let created = self
            .wait_reply(self.fs.create(self.call(DIR), request))
            .await?;
        self.apply_entry(name, &created.entry, request_version)
            .await;
        drop(alone);
        self.flush_and_release(created.entry.node, created.opened.fh, ReleaseFlags::empty())
            .await
    }

    pub async fn link(&self, name: &[u8], new: &[u8]) -> Result<()> {
        let target = self.resolve(name).await?;
        let (dir, file) = {
            let state = self.state();
            (state.lock_of(DIR)?, state.lock_of(target)?)
        };
        let _dir = dir.write().await;
        match self.look_up(new).await {
            Err(Errno::ENOENT) => {}
            Ok(_) => return Err(Errno::EEXIST),
            Err(other) => return Err(other),
        }
        let _file = file.write().await;
        let mut request_version = self.request_version();
        if !self.has_quirk(Quirk::LinkHasVersion) {
            request_version.version = 0;
        }
        let request = op::Link {
            target,
            name: EntryName::new(new),
        };
        let entry = self
            .wait_reply(self.fs.link(self.call(DIR), request))
            .await?;
        self.apply_entry(new, &entry, request_version).await;
        Ok(())
    }

    /// Lists the names of the root, with their attributes.
    pub async fn list(&self) -> Result<Vec<Vec<u8>>> {
        if !self.flags.contains(InitFlags::DO_READDIRPLUS) {
            return Err(Errno::ENOSYS);
        }
        let open = op::Open {
            flags: 0,
            open_flags: OpenFlags::empty(),
        };
        let opened = self
            .wait_reply(self.fs.opendir(self.call(DIR), open))
            .await?;
        let lock = self.state().lock_of(DIR)?;
        let _shared = lock.read().await;
        let mut found = Vec::new();
        let mut offset = 0;
        loop {
            let request_version = self.request_version();
            let request = op::Readdir {
                fh: opened.fh,
                offset,
                size: LISTING_SIZE,
            };
            let reply = self.wait_reply(self.fs.readdirplus(self.call(DIR), request));
            let entries = reply.await?.entries();
            let Some((_, last, _)) = entries.last() else {
                break;
            };
            offset = *last;
            for (entry, _, name) in entries {
                let mut request_version = request_version;
                if !self.has_quirk(Quirk::ListingKeepsRequestEpoch) {
                    // Linux uses the epoch at which it applies the reply.
                    request_version.epoch = self.state().epoch;
                }
                if entry.node != NodeId::NONE && !self.has_quirk(Quirk::ListingsNotCached) {
                    self.apply_entry(&name, &entry, request_version).await;
                }
                found.push(name);
            }
        }
        let release = op::Release {
            fh: opened.fh,
            open_flags: 0,
            flags: ReleaseFlags::empty(),
            lock_owner: LockOwner(0),
        };
        // The program does not learn the result.
        let _ = self
            .wait_reply(self.fs.releasedir(self.call(DIR), release))
            .await;
        Ok(found)
    }
}
