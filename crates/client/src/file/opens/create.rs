//! open(2) with O_CREAT or O_TMPFILE.

use super::{OpenedFile, Opens};
use crate::inodes::{ActiveInode, AttrVersion, OpenFileFlags};
use crate::reply;
use gupfs_proto::meta::{AccessMode, CreateMode, MetaOp, OpenInfo, OpenMode};
use gupfs_proto::{Caller, FileOffset, FsError, InodeId, Name};
use std::time::Duration;

impl Opens {
    /// open(2) with O_CREAT: creates the file, or opens it if it exists and `exclusive` is not set. Adds one lookup
    /// (`Client::forget` removes it).
    #[allow(clippy::too_many_arguments)] // they are open(2)'s, and each is typed
    pub async fn create(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        create_mode: CreateMode,
        exclusive: bool,
        mode: OpenMode,
        flags: OpenFileFlags,
    ) -> Result<OpenedFile, FsError> {
        tracing::trace!(target: "walk", file = file!(), "create");
        let attr_version = self.inodes.attr_version();
        let _pending_open = self.begin_open(None);
        let request_mode = self.create_options(mode);
        let name = name.clone();
        let op = match self.wants_lease(mode, flags) {
            true => MetaOp::CreateForWriting {
                dir,
                name,
                create_mode,
                exclusive,
                open: request_mode,
            },
            false => MetaOp::Create {
                dir,
                name,
                create_mode,
                exclusive,
                open: request_mode,
            },
        };
        let session = self.mds.id();
        let (opened, has_lease) = reply::created("create", self.mds.call(caller, op).await?)?;
        let (ino, created) = (opened.attr.ino, opened.created);
        let inode = self.inodes.pin(ino);
        inode
            .state()
            .opens
            .keep_open_capability(self.mds.id(), &opened, request_mode.access);
        // Of a session that was lost meanwhile: the server has ended the lease, too.
        let has_lease = has_lease && self.mds.check_opened_in(session).is_ok();
        if has_lease {
            let mut state = inode.state();
            state.set_lease_since(self.mds.clock().boot());
            state.created_with_lease(opened);
        } else if !created && mode.truncate {
            self.truncate_existing(&inode, attr_version, opened, mode)
                .await?;
        } else {
            self.update_if_current(&inode, attr_version, opened).await?;
        }
        self.lookups.add(ino);
        if has_lease && self.mds.check_opened_in(session).is_err() {
            inode.state().invalidate();
        }
        self.finish_open(inode, mode.access, flags, created).await
    }

    /// Whether a file that this open creates should come with its write lease: the bytes that the program writes next wait in this client then.
    /// Where they do not wait, those of a small file need no lease.
    fn wants_lease(&self, mode: OpenMode, flags: OpenFileFlags) -> bool {
        self.mds.is_shared()
            && self.write_behind.is_on()
            && mode.access.contains(AccessMode::WRITE)
            && !(flags.sync || flags.dsync || flags.direct)
    }

    /// open(2) with O_TMPFILE: a file without a name. Adds one lookup.
    pub async fn tmpfile(
        &self,
        caller: &Caller,
        dir: InodeId,
        create_mode: CreateMode,
        access: AccessMode,
        flags: OpenFileFlags,
    ) -> Result<OpenedFile, FsError> {
        let op = MetaOp::OpenTmpFile {
            dir,
            create_mode,
            access,
        };
        let opened = reply::opened("tmpfile", self.mds.call(caller, op).await?)?;
        let attr = opened.attr;
        let inode = self.inodes.pin(attr.ino);
        {
            let mut state = inode.state();
            state
                .opens
                .keep_open_capability(self.mds.id(), &opened, access);
            state.update_from_server(opened);
        }
        self.lookups.add_orphan(attr.ino);
        self.finish_open(inode, access, flags, true).await
    }

    /// This client truncates an existing file itself after it has reported its state: the server sends no callback to the session
    /// that sent the request.
    fn create_options(&self, mode: OpenMode) -> OpenMode {
        if !self.mds.is_shared() || !mode.truncate {
            return mode;
        }
        OpenMode {
            access: mode.access | AccessMode::WRITE,
            truncate: false,
            ..mode
        }
    }

    /// The create found a file, and the server truncated it. A writer of this client did not know of that: it may have written
    /// since, or reported the old size. So the file is truncated again, this time under its range lock.
    async fn truncate_existing(
        &self,
        inode: &ActiveInode,
        attr_version: AttrVersion,
        opened: OpenInfo,
        mode: OpenMode,
    ) -> Result<(), FsError> {
        let known = self.mds.is_shared()
            || inode.state().is_loaded()
            || self.inodes.changed_since(attr_version, inode.ino);
        if known {
            let closed = self.mds.kernel_pages().close(inode.ino, Duration::ZERO);
            let _closed = Box::pin(closed).await;
            let _all = inode.range_locks.whole().await;
            return (self.leases)
                .resize(
                    inode,
                    &Caller::root(),
                    FileOffset(0),
                    true,
                    mode.kill_privileges,
                )
                .await
                .map(|_| ());
        }
        inode.state().update_from_server(opened);
        Ok(())
    }

    /// Takes the reply, or loads the file again if it was opened, changed and closed while the reply was in transit.
    async fn update_if_current(
        &self,
        inode: &ActiveInode,
        attr_version: AttrVersion,
        opened: OpenInfo,
    ) -> Result<(), FsError> {
        if self.inodes.changed_since(attr_version, inode.ino) {
            self.leases.load(inode).await
        } else {
            inode.state().update_from_server(opened);
            Ok(())
        }
    }
}
