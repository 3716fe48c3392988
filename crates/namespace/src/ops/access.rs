use crate::driver::OpResult;
use crate::permission;
use crate::view::ReadView;
use gupfs_proto::meta::{AccessMode, MetaReplyBody};
use gupfs_proto::{Caller, InodeId};

/// access(2): checks that all of `want` is granted; with an empty `want`, that the inode exists.
pub(crate) fn access(
    view: &mut ReadView,
    caller: &Caller,
    ino: InodeId,
    want: AccessMode,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    permission::check_access(&inode, caller, want)?;
    Ok(MetaReplyBody::Done)
}
