use crate::driver::OpResult;
use crate::steps::stale_members;
use crate::view::OpView;
use gupfs_proto::InodeId;
use gupfs_proto::meta::MetaReplyBody;

/// The lease holder could not write to members of mirrored stripes: they are stale from now on, and its writes are answered without them.
pub(crate) fn mark_stale(
    view: &mut OpView,
    ino: InodeId,
    objects: &[(u32, u32)],
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "mark_stale");
    stale_members::mark(view, ino, objects)?;
    Ok(MetaReplyBody::Opened(view.inode(ino)?.open_info(false)))
}
