//! The default layout of a directory, and changes of the layouts of files.

use super::Namespace;
use crate::reply;
use gupfs_proto::layout::{ConversionState, DefaultLayout, LayoutChange};
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{Caller, FsError, InodeId};

impl Namespace {
    /// The default layout of new files, and whether it is inherited from a directory above.
    pub async fn default_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
    ) -> Result<(DefaultLayout, bool), FsError> {
        match self
            .mds
            .call(caller, MetaOp::GetDefaultLayout { ino })
            .await?
        {
            MetaReplyBody::DefaultLayout { layout, inherited } => Ok((layout, inherited)),
            _ => reply::unexpected("get_layout_rule"),
        }
    }

    /// `layout` None: the directory inherits its default layout again.
    pub async fn set_default_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
        layout: Option<DefaultLayout>,
    ) -> Result<(), FsError> {
        let op = MetaOp::SetDefaultLayout { ino, layout };
        reply::done("set_layout_rule", self.mds.call(caller, op).await?)
    }

    /// Asks for a file's conversion; returns how far it is after a moment.
    pub async fn convert_layout(
        &self,
        caller: &Caller,
        ino: InodeId,
        change: LayoutChange,
    ) -> Result<ConversionState, FsError> {
        let op = MetaOp::ConvertLayout { ino, change };
        match self.mds.call(caller, op).await? {
            MetaReplyBody::Conversion(state) => Ok(state),
            _ => reply::unexpected("convert_layout"),
        }
    }
}
