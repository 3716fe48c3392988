//! open(2).

use crate::entries::OpenRequest;
use crate::file::FileHandle;
use crate::held_inode::HeldInode;
use crate::run_to_end::RunToEnd;
use crate::user_files::{FollowLinks, UserFiles};
use crate::walk::{self, Walk, again_while_stale};
use gupfs_proto::meta::{AccessMode, CreateMode};
use gupfs_proto::{Attr, FileKind, FileMode, FsError, Name};

impl UserFiles {
    /// Opens a regular file; with `OpenRequest::create`, makes it if need be. The permission is checked now, and holds as long as the file is open.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `IsDirectory`, `Denied`, `Loop`; `Invalid` without a direction; `NoDevice` for a device, fifo or socket, which
    /// only a kernel serves; those of the servers.
    pub fn open(&self, path: &[u8], request: OpenRequest) -> RunToEnd<FileHandle> {
        let (this, path) = (self.clone(), path.to_vec());
        self.run(async move {
            let opens_nothing = !request.read && !request.write;
            if opens_nothing || (request.truncate && !request.write) {
                return Err(FsError::Invalid);
            }
            again_while_stale(async || match request.create {
                Some(mode) => this.open_or_create(&path, request, mode).await,
                None => this.open_existing(&path, request).await,
            })
            .await
        })
    }

    async fn open_existing(
        &self,
        path: &[u8],
        request: OpenRequest,
    ) -> Result<FileHandle, FsError> {
        let follow = match request.no_follow {
            true => FollowLinks::No,
            false => FollowLinks::Yes,
        };
        let found = walk::to_inode(&self.core, &self.caller, path, follow).await?;
        self.open_inode(found, request).await
    }

    async fn open_inode(
        &self,
        found: HeldInode,
        request: OpenRequest,
    ) -> Result<FileHandle, FsError> {
        match found.kind() {
            FileKind::Regular => {}
            FileKind::Directory => {
                if !request.write && request.create.is_none() {
                    let read = self
                        .core
                        .client
                        .access(&self.caller, found.ino(), AccessMode::READ);
                    read.await?;
                }
                return Err(FsError::IsDirectory);
            }
            FileKind::Symlink => return Err(FsError::Loop),
            _ => return Err(FsError::NoDevice),
        }
        let mode = request.mode(self.kills_privileges());
        let client = &self.core.client;
        let opened = client.open(&self.caller, found.ino(), mode, request.flags());
        let opened = opened.await?;
        Ok(FileHandle::new(self.clone(), opened, found, request))
    }

    async fn open_or_create(
        &self,
        path: &[u8],
        request: OpenRequest,
        mode: u32,
    ) -> Result<FileHandle, FsError> {
        let mut walk = Walk::begin(&self.core, &self.caller, path)?;
        loop {
            walk.advance_to_last().await?;
            let (last, has_slash) = walk.take_last().await?;
            let otherwise = match request.exclusive {
                true => FsError::Exists,
                false => FsError::IsDirectory,
            };
            let name = last.name_or(otherwise)?;
            if has_slash {
                let (client, dir) = (&self.core.client, walk.dir().ino());
                let search = client.access(&self.caller, dir, AccessMode::EXECUTE);
                search.await?;
                return Err(FsError::IsDirectory);
            }
            if !self.must_look_first(walk.dir(), request).await? {
                match self.create(walk.dir(), &name, request, mode).await {
                    // It is no file, and the server says no more.
                    Err(FsError::Stale) => {}
                    created => return created,
                }
            }
            let dir = walk.dir();
            let there = self.core.client.lookup(&self.caller, dir.ino(), &name);
            let there = match there.await {
                Ok(there) => HeldInode::counted(&self.core, there),
                Err(FsError::NotFound) => return self.create(dir, &name, request, mode).await,
                Err(error) => return Err(error),
            };
            match there.kind() {
                _ if request.exclusive => return Err(FsError::Exists),
                FileKind::Symlink if !request.no_follow => walk.follow_last(there).await?,
                _ => {
                    self.check_create_existing(dir, &there).await?;
                    return self.open_inode(there, request).await;
                }
            }
        }
    }

    /// Whether the host's rules may forbid to open an existing file here. Elsewhere the server creates or opens it at once.
    async fn must_look_first(
        &self,
        dir: &HeldInode,
        request: OpenRequest,
    ) -> Result<bool, FsError> {
        if request.exclusive || self.core.rules.protected_regular == 0 {
            return Ok(false);
        }
        let dir: Attr = dir.attr(&self.caller).await?;
        Ok(dir.mode.has(FileMode::STICKY))
    }

    async fn check_create_existing(
        &self,
        dir: &HeldInode,
        there: &HeldInode,
    ) -> Result<(), FsError> {
        if there.kind() != FileKind::Regular {
            return Ok(());
        }
        let dir = dir.attr(&self.caller).await?;
        let there = there.attr(&self.caller).await?;
        (self.core.rules).check_create_existing(&self.caller, &dir, &there)
    }

    async fn create(
        &self,
        dir: &HeldInode,
        name: &Name,
        request: OpenRequest,
        mode: u32,
    ) -> Result<FileHandle, FsError> {
        let create_mode = CreateMode {
            mode: mode & 0o7777,
            umask: self.umask,
        };
        let opened = self.core.client.create(
            &self.caller,
            dir.ino(),
            name,
            create_mode,
            request.exclusive,
            request.mode(self.kills_privileges()),
            request.flags(),
        );
        let opened = opened.await?;
        let held = HeldInode::counted(&self.core, opened.attr);
        Ok(FileHandle::new(self.clone(), opened, held, request))
    }
}
