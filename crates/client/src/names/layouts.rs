//! A file's layout, and the default layout of a directory.

use crate::reply;
use crate::service::Client;
use gupfs_proto::layout::DefaultLayout;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, InodeId, Layout, ObjectId, OstId, data};

impl Client {
    /// The default layout of new files, and whether it is inherited from a directory above.
    pub async fn default_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> Result<(DefaultLayout, bool), FsError> {
        match self
            .call_mds(caller, MetaOp::GetDefaultLayout { ino })
            .await?
        {
            MetaReplyBody::DefaultLayout { layout, inherited } => Ok((layout, inherited)),
            _ => reply::unexpected("get_layout_rule"),
        }
    }

    /// `rule` None: the directory inherits its default layout again.
    pub async fn set_default_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
        layout: Option<DefaultLayout>,
    ) -> Result<(), FsError> {
        let op = MetaOp::SetDefaultLayout { ino, layout };
        reply::done("set_layout_rule", self.call_mds(caller, op).await?)
    }

    /// A regular file's layout, with the known presence of its objects; empty while its data is inline in the inode.
    pub async fn layout(&self, ino: InodeId) -> Result<Layout, FsError> {
        let inode = self.inodes.pin(ino);
        self.load(&inode).await?;
        let layout = inode.state().layout.clone();
        Ok(layout)
    }

    /// Size, blocks and mtime of one object; None if it does not exist.
    pub async fn object(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<Option<data::ObjectStat>, FsError> {
        match self.call_ost(ost, data::DataOp::Stat { object }).await? {
            data::DataReplyBody::Stat(stat) => Ok(stat),
            _ => reply::unexpected("stat"),
        }
    }
}
