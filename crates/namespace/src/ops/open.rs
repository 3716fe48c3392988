use crate::driver::OpResult;
use crate::view::OpView;
use crate::{flag_checks, ops, orphan, permission, rights, write_lease};
use gupfs_proto::meta::{AccessMode, MetaReplyBody, OpenMode};
use gupfs_proto::{FileKind, FsError, InodeId};

/// open(2) of an existing file: the requested read, write and execute access is checked now, for the lifetime of the handle.
/// O_TRUNC needs write permission and truncates the file in the same change, with mtime and ctime updated even if it was empty.
/// Without any access, a client requests the layout of a file that it has open (`rights`).
pub(crate) fn open(
    view: &mut OpView,
    ino: InodeId,
    open_mode: OpenMode,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let mut want = open_mode.access - AccessMode::APPEND;
    want.set(
        AccessMode::WRITE,
        open_mode.truncate || want.contains(AccessMode::WRITE),
    );
    match inode.kind {
        FileKind::Symlink => return Err(FsError::Loop.into()),
        FileKind::Directory if want.contains(AccessMode::WRITE) => {
            return Err(FsError::IsDirectory.into());
        }
        _ => {}
    }
    orphan::check_orphan_user(view, &inode, !want.is_empty())?;
    if rights::is_reopen(open_mode) {
        rights::check_use(
            &inode,
            view.ctx.caller,
            view.ctx.open_rights,
            AccessMode::READ,
        )?;
    }
    permission::check_access(&inode, view.ctx.caller, want)?;
    flag_checks::check_open(&inode, open_mode)?;
    if inode.kind == FileKind::Regular {
        if open_mode.truncate {
            write_lease::require_revoked(view, &inode)?;
        } else {
            write_lease::require_attr_report(view, &inode)?;
        }
        ops::truncate::check_no_unfinished_truncate(inode.file()?, ino)?;
        if open_mode.truncate {
            ops::truncate::truncate_file(view, ino, 0)?;
            ops::kill_privileges::after_write(view, ino, open_mode.kill_privileges)?;
        }
    }
    let opened = ops::open_reply(&*view.inode(ino)?, false);
    Ok(MetaReplyBody::Opened(opened))
}
