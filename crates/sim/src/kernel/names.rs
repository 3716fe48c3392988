//! Names: lookup, listing, creation. Lookups and listings share a directory's lock; a create holds it exclusively.

use super::state::Asked;
use super::{Kernel, Quirk};
use gupfs_fuse::op::{self, EntryName};
use gupfs_fuse::{
    EntryReply, Errno, FileSystem, InitFlags, LockOwner, NodeId, OpenFlags, ReleaseFlags, Result,
};

/// Room for one listing's answer.
const LISTING: u32 = 4096;

const DIR: NodeId = NodeId::ROOT;

impl<F: FileSystem> Kernel<F> {
    fn asked(&self) -> Asked {
        let state = self.state();
        Asked {
            epoch: state.epoch,
            version: state.version(),
        }
    }

    async fn take(&self, name: &[u8], entry: &EntryReply, asked: Asked) {
        let drop_pages = self.state().entry((DIR, name.into()), entry, asked);
        if drop_pages && !self.has(Quirk::PagesSurviveAttributes) {
            self.drop_pages(entry.node, 0, u64::MAX).await;
        }
    }

    /// The node of a name in the root.
    pub async fn walk(&self, name: &[u8]) -> Result<NodeId> {
        let keep_cover = self.has(Quirk::CoverStays);
        let believed = self.state().believed(&(DIR, name.into()), keep_cover);
        if let Some(node) = believed {
            return node.ok_or(Errno::ENOENT);
        }
        let lock = self.state().lock_of(DIR)?;
        let _shared = lock.read().await;
        self.look_up(name).await
    }

    /// The caller has the directory's lock.
    async fn look_up(&self, name: &[u8]) -> Result<NodeId> {
        let asked = self.asked();
        let request = op::Lookup {
            name: EntryName::new(name),
        };
        let entry = self.ask(self.fs.lookup(self.call(DIR), request)).await?;
        if entry.node == NodeId::NONE {
            if !self.has(Quirk::AbsenceForgotten) {
                let mut state = self.state();
                state.absent((DIR, name.into()), entry.name_ttl, asked);
            }
            return Err(Errno::ENOENT);
        }
        let passed = self.asked() != asked;
        self.take(name, &entry, asked).await;
        if passed && self.has(Quirk::LookupHasVersion) {
            self.state().doubt(entry.node)?;
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
        let mut asked = self.asked();
        if !self.has(Quirk::CreateHasVersion) {
            asked.version = 0;
        }
        let request = op::Create {
            name: EntryName::new(name),
            flags: 0,
            mode: 0o100_644,
            umask: 0o022,
            open_flags: OpenFlags::empty(),
        };
        let created = self.ask(self.fs.create(self.call(DIR), request)).await?;
        self.take(name, &created.entry, asked).await;
        drop(alone);
        self.flush_and_release(created.entry.node, created.opened.fh, ReleaseFlags::empty())
            .await
    }

    pub async fn link(&self, name: &[u8], new: &[u8]) -> Result<()> {
        let target = self.walk(name).await?;
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
        let mut asked = self.asked();
        if !self.has(Quirk::LinkHasVersion) {
            asked.version = 0;
        }
        let request = op::Link {
            target,
            name: EntryName::new(new),
        };
        let entry = self.ask(self.fs.link(self.call(DIR), request)).await?;
        self.take(new, &entry, asked).await;
        Ok(())
    }

    /// The names of the root, with their attributes.
    pub async fn list(&self) -> Result<Vec<Vec<u8>>> {
        if !self.flags.contains(InitFlags::DO_READDIRPLUS) {
            return Err(Errno::ENOSYS);
        }
        let open = op::Open {
            flags: 0,
            open_flags: OpenFlags::empty(),
        };
        let opened = self.ask(self.fs.opendir(self.call(DIR), open)).await?;
        let lock = self.state().lock_of(DIR)?;
        let _shared = lock.read().await;
        let mut found = Vec::new();
        let mut offset = 0;
        loop {
            let asked = self.asked();
            let request = op::Readdir {
                fh: opened.fh,
                offset,
                size: LISTING,
            };
            let answer = self.ask(self.fs.readdirplus(self.call(DIR), request));
            let entries = answer.await?.entries();
            let Some((_, last, _)) = entries.last() else {
                break;
            };
            offset = *last;
            for (entry, _, name) in entries {
                let mut asked = asked;
                if !self.has(Quirk::ListingHasEpoch) {
                    // As it is when the answer is taken.
                    asked.epoch = self.state().epoch;
                }
                if entry.node != NodeId::NONE {
                    self.take(&name, &entry, asked).await;
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
        let _ = self.ask(self.fs.releasedir(self.call(DIR), release)).await;
        Ok(found)
    }
}
