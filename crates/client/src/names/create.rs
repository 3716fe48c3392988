//! Creating names. Every returned entry adds one lookup to its inode until `Client::forget`.

use super::Namespace;
use gupfs_proto::meta::{CreateMode, MetaOp};
use gupfs_proto::{Attr, Caller, FileKind, FsError, InodeId, Name};

impl Namespace {
    pub async fn mkdir(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        create_mode: CreateMode,
    ) -> Result<Attr, FsError> {
        let op = MetaOp::Mkdir {
            dir,
            name: name.clone(),
            create_mode,
        };
        self.request_entry(caller, op).await
    }

    /// A fifo, socket, device, or an empty regular file.
    pub async fn mknod(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        kind: FileKind,
        rdev: u32,
        create_mode: CreateMode,
    ) -> Result<Attr, FsError> {
        let op = MetaOp::Mknod {
            dir,
            name: name.clone(),
            kind,
            rdev,
            create_mode,
        };
        self.request_entry(caller, op).await
    }

    pub async fn symlink(
        &self,
        caller: &Caller,
        dir: InodeId,
        name: &Name,
        target: &[u8],
    ) -> Result<Attr, FsError> {
        let op = MetaOp::Symlink {
            dir,
            name: name.clone(),
            target: target.to_vec(),
        };
        self.request_entry(caller, op).await
    }

    /// Adds a name; the first one for an O_TMPFILE file.
    pub async fn link(
        &self,
        caller: &Caller,
        ino: InodeId,
        dir: InodeId,
        name: &Name,
    ) -> Result<Attr, FsError> {
        let op = MetaOp::Link {
            ino,
            dir,
            name: name.clone(),
        };
        let attr = self.request_entry(caller, op).await?;
        self.lookups.clear_orphan(ino);
        Ok(attr)
    }
}
