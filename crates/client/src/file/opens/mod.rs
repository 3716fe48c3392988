//! # opens: from open(2) to the last close
//!
//! Owns   opening, creating and releasing files, and which opens are pending.
//! Never  reads or writes a byte.
//! Enter  at `Opens::open`, `Opens::create`, `Opens::release`.

mod create;
mod open;
mod pending_opens;
mod release;

use super::{FileLeases, FileSync, Files, WriteBehind};
use crate::inodes::{InodePin, InodeTable, OpenFile, OpenFileFlags, OpenFileTable};
use crate::locks::Locks;
use crate::lookups::Lookups;
use crate::session::MdsSession;
use gupfs_proto::meta::AccessMode;
use gupfs_proto::{Attr, FsError, InodeId};
use pending_opens::{PendingOpen, PendingOpens};
use std::sync::Arc;

/// The result of open and create: the open file, and the attributes that stat(2) would return now.
pub struct OpenedFile {
    pub file: Arc<OpenFile>,
    pub attr: Attr,
    /// Create only: this call created the file.
    pub created: bool,
}

/// Opening and releasing files.
pub struct Opens {
    mds: Arc<MdsSession>,
    inodes: Arc<InodeTable>,
    open_files: Arc<OpenFileTable>,
    leases: Arc<FileLeases>,
    sync: Arc<FileSync>,
    write_behind: Arc<WriteBehind>,
    lookups: Arc<Lookups>,
    locks: Arc<Locks>,
    pending_opens: PendingOpens,
}

impl Opens {
    pub fn new(
        mds: Arc<MdsSession>,
        inodes: Arc<InodeTable>,
        open_files: Arc<OpenFileTable>,
        files: &Files,
        lookups: Arc<Lookups>,
        locks: Arc<Locks>,
    ) -> Opens {
        Opens {
            mds,
            inodes,
            open_files,
            leases: files.leases.clone(),
            sync: files.sync.clone(),
            write_behind: files.write_behind.clone(),
            lookups,
            locks,
            pending_opens: PendingOpens::default(),
        }
    }

    /// Which of these files are open here, once the opens of them that are pending now have ended. Another client removed their
    /// last names: the client sends them as forgotten after their last close.
    pub async fn which_are_open(&self, inodes: &[InodeId]) -> Vec<bool> {
        self.pending_opens.wait_for(inodes).await;
        self.lookups.set_removed_elsewhere(inodes)
    }

    /// Called before a callback about a file's write lease is answered: a reply that grants this lease with a new file may be under way.
    pub async fn wait_for_grants(&self, ino: InodeId) {
        let is_known = || {
            let inode = self.inodes.get(ino);
            inode.is_some_and(|inode| inode.state().has_write_lease())
        };
        self.pending_opens.wait_for_creates(is_known).await;
    }

    /// Releases every open file; returns the first error.
    pub async fn release_all(&self) -> Result<(), FsError> {
        let mut first = Ok(());
        for id in self.open_files.ids() {
            let released = self.release(id).await;
            first = first.and(released);
        }
        first
    }

    /// Lists an open as pending.
    fn begin_open(&self, ino: Option<InodeId>) -> Option<PendingOpen<'_>> {
        self.mds.is_shared().then(|| self.pending_opens.begin(ino))
    }

    async fn finish_open(
        &self,
        inode: InodePin,
        access: AccessMode,
        flags: OpenFileFlags,
        created: bool,
    ) -> Result<OpenedFile, FsError> {
        let attr = {
            let state = inode.state();
            state.server_attr().map(|base| state.overlay(*base))
        };
        // None if the state was invalidated meanwhile with the session.
        let attr = attr.ok_or(FsError::Stale)?;
        let ino = inode.ino;
        self.lookups.add_open(ino);
        let opened = OpenedFile {
            file: self.open_files.add(inode, access, flags, self.mds.id()),
            attr,
            created,
        };
        // Pages without the write lease take no stores. The file counts as open for writing from here on.
        if access.contains(AccessMode::WRITE) {
            Box::pin(self.mds.kernel_pages().drop_pages(&[ino])).await;
        }
        Ok(opened)
    }
}
