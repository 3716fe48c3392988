//! open(2) of a file: the server checks permission and returns layout or inline data; the state of a file with a write lease here
//! is newer.

use super::inode_table::{ActiveInode, AttrVersion, InodePin};
use super::open_file::{OpenFile, OpenFileFlags};
use crate::limits::{REOPEN_REMOVED_PAUSE, REOPEN_REMOVED_TRIES};
use crate::pending_opens::PendingOpen;
use crate::reply;
use crate::service::Client;
use gupfs_proto::meta::{AccessMode, CreateMode, MetaOp, OpenInfo, OpenMode};
use gupfs_proto::{Attr, Caller, FsError, InodeId, Name};
use std::sync::Arc;

/// The result of open and create: the open file, and the attributes that stat(2) would return now.
pub struct OpenedFile {
    pub file: Arc<OpenFile>,
    pub attr: Attr,
    /// Create only: this call created the file.
    pub created: bool,
}

impl Client {
    /// open(2) of an existing regular file.
    pub async fn open(
        &self,
        caller: &Caller,
        ino: InodeId,
        mode: OpenMode,
        flags: OpenFileFlags,
    ) -> Result<OpenedFile, FsError> {
        let inode = self.inodes.pin(ino);
        let op = MetaOp::Open { ino, open: mode };
        for _ in 0..REOPEN_REMOVED_TRIES {
            match self.open_once(caller, &inode, op.clone(), mode).await {
                // Another client removed its last name, and the server does not know yet that it is open here.
                Err(FsError::Stale) if self.is_open_here(&inode) => {
                    self.platform.clock.sleep(REOPEN_REMOVED_PAUSE).await;
                }
                other => {
                    let _pending_open = other?;
                    return self.finish_open(inode, mode.access, flags, false);
                }
            }
        }
        Err(FsError::Stale)
    }

    fn is_open_here(&self, inode: &ActiveInode) -> bool {
        self.options.shared && inode.state().handles > 0
    }

    async fn open_once(
        &self,
        caller: &Caller,
        inode: &InodePin,
        op: MetaOp,
        mode: OpenMode,
    ) -> Result<Option<PendingOpen<'_>>, FsError> {
        let ino = inode.ino;
        let pending_open = self.begin_open(Some(ino));
        if mode.truncate {
            // No read or write runs during the truncation, and no older report of this client arrives after it.
            let _all = inode.range_locks.whole().await;
            let _reporting = inode.reporting.lock().await;
            if self.options.shared {
                // The server must know the size and objects that it truncates.
                self.report_attrs(inode).await?;
            }
            let opened = reply::opened("open", self.call_mds(caller, op).await?)?;
            let mut state = inode.state();
            self.inodes.invalidate_replies(ino);
            state.keep_open_capability(self.session(), &opened, mode.access);
            state.load_after_truncate(opened);
            state.set_privileges_killed(mode.kill_privileges);
        } else {
            let opened = reply::opened("open", self.call_mds(caller, op).await?)?;
            let mut state = inode.state();
            state.keep_open_capability(self.session(), &opened, mode.access);
            state.update_from_server(opened);
        }
        Ok(pending_open)
    }

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
        let attr_version = self.inodes.attr_version();
        let _pending_open = self.begin_open(None);
        let request_mode = self.create_options(mode);
        let op = MetaOp::Create {
            dir,
            name: name.clone(),
            create_mode,
            exclusive,
            open: request_mode,
        };
        let opened = reply::opened("create", self.call_mds(caller, op).await?)?;
        let (ino, created) = (opened.attr.ino, opened.created);
        let inode = self.inodes.pin(ino);
        (inode.state()).keep_open_capability(self.session(), &opened, request_mode.access);
        if !created && mode.truncate {
            self.truncate_existing(&inode, attr_version, opened, mode)
                .await?;
        } else {
            self.update_if_current(&inode, attr_version, opened).await?;
        }
        self.lookup_counts.lock().add_lookup(ino);
        self.finish_open(inode, mode.access, flags, created)
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
        let opened = reply::opened("tmpfile", self.call_mds(caller, op).await?)?;
        let attr = opened.attr;
        let inode = self.inodes.pin(attr.ino);
        {
            let mut state = inode.state();
            state.keep_open_capability(self.session(), &opened, access);
            state.update_from_server(opened);
        }
        {
            let mut lookup_counts = self.lookup_counts.lock();
            lookup_counts.add_lookup(attr.ino);
            let forgotten = lookup_counts.set_orphan(attr.ino);
            debug_assert_eq!(forgotten, None, "a lookup was added above");
        }
        self.finish_open(inode, access, flags, true)
    }

    /// The open file with the number `OpenFile::id`; `Stale` after its release.
    pub fn file(&self, id: u64) -> Result<Arc<OpenFile>, FsError> {
        self.open_files.get(id).ok_or(FsError::Stale)
    }

    /// # Errors
    /// `Stale` if the session in which it was opened is lost.
    pub(crate) fn check_session(&self, file: &OpenFile) -> Result<(), FsError> {
        if self.session.is_lost() || file.session() != self.session() {
            return Err(FsError::Stale);
        }
        Ok(())
    }

    /// Whether the file is open for writing here: then the kernel should not cache what it reads.
    pub fn has_writer(&self, ino: InodeId) -> bool {
        self.inodes
            .get(ino)
            .is_some_and(|file| file.state().writers > 0)
    }

    fn finish_open(
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
        self.lookup_counts.lock().add_open(inode.ino);
        Ok(OpenedFile {
            file: self.open_files.add(inode, access, flags, self.session()),
            attr,
            created,
        })
    }

    /// Takes the reply, or loads the file again if it was opened, changed and closed while the reply was in transit.
    async fn update_if_current(
        &self,
        inode: &ActiveInode,
        attr_version: AttrVersion,
        opened: OpenInfo,
    ) -> Result<(), FsError> {
        if self.inodes.changed_since(attr_version, inode.ino) {
            self.load(inode).await
        } else {
            inode.state().update_from_server(opened);
            Ok(())
        }
    }

    /// This client truncates an existing file itself after it has reported its state: the server sends no callback to the session
    /// that sent the request.
    fn create_options(&self, mode: OpenMode) -> OpenMode {
        if !self.options.shared || !mode.truncate {
            return mode;
        }
        OpenMode {
            access: mode.access | AccessMode::WRITE,
            truncate: false,
            ..mode
        }
    }

    /// Lists an open as pending.
    fn begin_open(&self, ino: Option<InodeId>) -> Option<PendingOpen<'_>> {
        self.options.shared.then(|| self.pending_opens.begin(ino))
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
        let known = self.options.shared
            || inode.state().is_loaded()
            || self.inodes.changed_since(attr_version, inode.ino);
        if known {
            let _all = inode.range_locks.whole().await;
            return self
                .resize(inode, &Caller::root(), 0, true, mode.kill_privileges)
                .await
                .map(|_| ());
        }
        inode.state().update_from_server(opened);
        Ok(())
    }

    /// Loads the file's state from the server unless the state here is authoritative. The file must be open here, or readable by
    /// root.
    pub(crate) async fn load(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if inode.state().is_authoritative() {
            return Ok(());
        }
        let op = MetaOp::Open {
            ino: inode.ino,
            open: OpenMode {
                access: AccessMode::empty(),
                truncate: false,
                kill_privileges: false,
            },
        };
        let opened = reply::opened("open", self.call_mds(&Caller::root(), op).await?)?;
        inode.state().update_from_server(opened);
        Ok(())
    }
}
