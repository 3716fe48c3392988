use crate::driver::OpResult;
use crate::record::InodeBody;
use crate::view::ReadView;
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, InodeId};

/// readlink(2): returns the target unchanged. Needs no permission on the link itself, only search permission on its path.
pub(crate) fn readlink(view: &mut ReadView, ino: InodeId) -> OpResult<MetaReplyBody> {
    match &view.inode(ino)?.body {
        InodeBody::Symlink(target) => Ok(MetaReplyBody::LinkTarget(target.clone())),
        InodeBody::File(_) | InodeBody::Directory(_) | InodeBody::Special => {
            Err(FsError::Invalid.into())
        }
    }
}
