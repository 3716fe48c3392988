//! Loading the state of an inode, and its blocks.

use super::FileLeases;
use crate::inodes::ActiveInode;
use crate::reply;
use gupfs_proto::meta::{MetaOp, OpenMode};
use gupfs_proto::{Attr, Caller, FsError, InodeId, Layout};

impl FileLeases {
    /// Loads the file's state from the server unless the state here is authoritative. The file must be open here, or readable by
    /// root.
    pub async fn load(&self, inode: &ActiveInode) -> Result<(), FsError> {
        if inode.state().is_authoritative() {
            return Ok(());
        }
        let op = MetaOp::Open {
            ino: inode.ino,
            open: OpenMode::REOPEN,
        };
        let opened = reply::opened("open", self.mds.call(&Caller::root(), op).await?)?;
        inode.state().update_from_server(opened);
        Ok(())
    }

    /// Fills the blocks of a leased file into its attributes, after a stat of the objects whose blocks are not known yet.
    pub async fn fill_blocks(&self, inode: &ActiveInode, attr: &mut Attr) -> Result<(), FsError> {
        if inode.state().has_exclusive_write_lease() {
            self.objects.stat_unknown(inode).await?;
        }
        if let Some(blocks) = inode.state().authoritative_blocks() {
            attr.blocks = blocks;
        }
        Ok(())
    }

    /// A regular file's layout, with the known presence of its objects; empty while its data is inline in the inode.
    pub async fn layout(&self, ino: InodeId) -> Result<Layout, FsError> {
        let inode = self.inodes.pin(ino);
        self.load(&inode).await?;
        let layout = inode.state().layout().clone();
        Ok(layout)
    }
}
