use crate::record::Body;
use crate::step::Outcome;
use crate::view::View;
use crate::{newborn, place};
use gupfs_proto::limits::SYMLINK_MAX;
use gupfs_proto::meta::{Answer, Make};
use gupfs_proto::{FileKind, InodeId, Name, Refusal};

/// symlink(2): the target is any text of 1 to 4,095 bytes without NUL; nothing need be there. Its mode is 0777 and means nothing.
pub(crate) fn symlink(
    view: &mut View,
    dir: InodeId,
    name: &Name,
    target: &[u8],
) -> Outcome<Answer> {
    if target.len() > SYMLINK_MAX {
        return Err(Refusal::NameTooLong.into());
    }
    if target.is_empty() {
        return Err(Refusal::NotFound.into());
    }
    if target.contains(&0) {
        return Err(Refusal::Invalid.into());
    }
    let (place, parent) = place::find_free(view, dir, name)?;
    view.must_have_room()?;
    let mut inode = newborn::inode(
        view,
        &parent,
        FileKind::Symlink,
        Make {
            mode: 0o777,
            umask: 0,
        },
    )?;
    inode.body = Body::Symlink(target.to_vec());
    place::add_first(view, &place, &mut inode)?;
    let attr = inode.attr();
    view.add_inode(inode);
    Ok(Answer::Entry(attr))
}
