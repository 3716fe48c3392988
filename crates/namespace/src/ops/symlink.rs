use crate::driver::OpResult;
use crate::record::InodeBody;
use crate::steps::{dentry, new_inode};
use crate::view::OpView;
use gupfs_proto::limits::SYMLINK_MAX;
use gupfs_proto::meta::{CreateMode, MetaReplyBody};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Name};

/// symlink(2): the target is any text of 1 to 4,095 bytes without NUL; it need not exist. The mode is 0777 and has no effect.
pub(crate) fn symlink(
    view: &mut OpView,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
    target: &[u8],
) -> OpResult<MetaReplyBody> {
    if target.len() > SYMLINK_MAX {
        return Err(FsError::NameTooLong.into());
    }
    if target.is_empty() {
        return Err(FsError::NotFound.into());
    }
    if target.contains(&0) {
        return Err(FsError::Invalid.into());
    }
    let (dentry, parent) = dentry::lookup_for_create(view, caller, dir, name)?;
    view.check_growth_allowed()?;
    let mut inode = new_inode::build(
        view,
        caller,
        &parent,
        FileKind::Symlink,
        CreateMode {
            mode: 0o777,
            umask: 0,
        },
    )?;
    inode.body = InodeBody::Symlink(target.to_vec());
    dentry::add_first_name(view, &dentry, &mut inode)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(MetaReplyBody::Entry(attr))
}
