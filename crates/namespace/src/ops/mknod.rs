use crate::step::Outcome;
use crate::view::View;
use crate::{newborn, place};
use gupfs_proto::meta::{Answer, Make};
use gupfs_proto::{FileKind, InodeId, Name, Refusal};

/// mknod(2): a fifo, socket or empty regular file for everybody, a device for root.
pub(crate) fn mknod(
    view: &mut View,
    dir: InodeId,
    name: &Name,
    kind: FileKind,
    rdev: u32,
    make: Make,
) -> Outcome<Answer> {
    let is_device = match kind {
        FileKind::CharDevice | FileKind::BlockDevice => true,
        FileKind::Regular | FileKind::Fifo | FileKind::Socket => false,
        FileKind::Directory => return Err(Refusal::NotPermitted.into()),
        FileKind::Symlink => return Err(Refusal::Invalid.into()),
    };
    let (place, parent) = place::find_free(view, dir, name)?;
    if is_device && !view.ctx.caller.is_root() {
        return Err(Refusal::NotPermitted.into());
    }
    view.must_have_room()?;
    let mut inode = newborn::inode(view, &parent, kind, make)?;
    inode.rdev = if is_device { rdev } else { 0 };
    place::add_first(view, &place, &mut inode)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(Answer::Entry(attr))
}
