use crate::step::Outcome;
use crate::view::View;
use crate::{held, may, ops, protected, rights};
use gupfs_proto::meta::{Access, Answer, OpenHow};
use gupfs_proto::{FileKind, InodeId, Refusal};

/// open(2) of a file that is there: read, write and execute as asked, decided now for the life of the handle. O_TRUNC needs
/// write permission and cuts the file in the same change, with mtime and ctime updated even if it was empty. Without any access it is
/// a client that asks again for what it has open (`rights`).
pub(crate) fn open(view: &mut View, ino: InodeId, how: OpenHow) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let mut want = how.access - Access::APPEND;
    want.set(Access::WRITE, how.truncate || want.contains(Access::WRITE));
    match inode.kind {
        FileKind::Symlink => return Err(Refusal::Loop.into()),
        FileKind::Directory if want.contains(Access::WRITE) => {
            return Err(Refusal::IsDirectory.into());
        }
        _ => {}
    }
    held::must_be_known(view, &inode, !want.is_empty())?;
    if rights::asks_again(how) {
        rights::may_use(&inode, view.ctx.caller, view.ctx.opens, Access::READ)?;
    }
    may::access(&inode, view.ctx.caller, want)?;
    protected::open(&inode, how)?;
    if inode.kind == FileKind::Regular {
        if how.truncate {
            held::must_be_given_back(view, &inode)?;
        } else {
            held::must_have_told(view, &inode)?;
        }
        ops::truncate::must_not_be_cutting(inode.file()?, ino)?;
        if how.truncate {
            ops::truncate::cut(view, ino, 0)?;
            ops::kill_privileges::after_write(view, ino, how.kill_privileges)?;
        }
    }
    let opened = ops::opened(&*view.inode(ino)?, false);
    Ok(Answer::Opened(opened))
}
