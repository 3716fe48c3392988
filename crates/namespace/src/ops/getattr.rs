use crate::driver::OpResult;
use crate::requester::RequestingSession;
use crate::steps::write_lease;
use crate::view::ReadView;
use gupfs_proto::InodeId;
use gupfs_proto::meta::MetaReplyBody;

/// fstat(2): needs no permission on the file. (stat(2) needs search permission on the path, which lookups check.)
pub(crate) fn getattr(
    view: &mut ReadView,
    session: &RequestingSession,
    ino: InodeId,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "getattr");
    let inode = view.inode(ino)?;
    write_lease::require_attr_report(view, session, &inode)?;
    Ok(MetaReplyBody::Attr(inode.attr()))
}
