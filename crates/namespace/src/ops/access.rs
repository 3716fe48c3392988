use crate::driver::OpResult;
use crate::permission;
use crate::view::OpView;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{AccessMode, MetaReplyBody};

/// access(2): checks that all of `want` is granted; with an empty `want`, that the inode exists.
pub(crate) fn access(view: &mut OpView, ino: InodeId, want: AccessMode) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    permission::check_access(&inode, view.ctx.caller, want)?;
    Ok(MetaReplyBody::Done)
}
