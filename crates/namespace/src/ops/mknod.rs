use crate::driver::OpResult;
use crate::steps::{dentry, new_inode};
use crate::view::OpView;
use gupfs_proto::meta::{CreateMode, MetaReplyBody};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Name};

/// mknod(2): any user may create a fifo, socket or empty regular file, only root a device.
pub(crate) fn mknod(
    view: &mut OpView,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
    kind: FileKind,
    rdev: u32,
    create_mode: CreateMode,
) -> OpResult<MetaReplyBody> {
    let is_device = match kind {
        FileKind::CharDevice | FileKind::BlockDevice => true,
        FileKind::Regular | FileKind::Fifo | FileKind::Socket => false,
        FileKind::Directory => return Err(FsError::NotPermitted.into()),
        FileKind::Symlink => return Err(FsError::Invalid.into()),
    };
    let (dentry, parent) = dentry::lookup_for_create(view, caller, dir, name)?;
    if is_device && !caller.is_root() {
        return Err(FsError::NotPermitted.into());
    }
    view.check_growth_allowed()?;
    let mut inode = new_inode::build(view, caller, &parent, kind, create_mode)?;
    inode.rdev = if is_device { rdev } else { 0 };
    dentry::add_first_name(view, &dentry, &mut inode)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(MetaReplyBody::Entry(attr))
}
