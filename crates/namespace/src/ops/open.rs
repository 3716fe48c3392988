use crate::driver::OpResult;
use crate::requester::Requester;
use crate::steps::{orphan, privileges, truncation, write_lease};
use crate::view::OpView;
use crate::{flag_checks, permission, rights};
use gupfs_proto::meta::{AccessMode, MetaReplyBody, OpenMode};
use gupfs_proto::{FileKind, FsError, InodeId};

/// open(2) of an existing file: the requested read, write and execute access is checked now, for the lifetime of the handle.
/// O_TRUNC needs write permission and truncates the file in the same change, with mtime and ctime updated even if it was empty.
/// Without any access, a client requests the layout of a file that it has open (`rights`).
pub(crate) fn open(
    view: &mut OpView,
    requester: &Requester,
    ino: InodeId,
    open_mode: OpenMode,
) -> OpResult<MetaReplyBody> {
    let Requester {
        session,
        caller,
        open_rights,
    } = requester;
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
    orphan::check_orphan_user(view, session, &inode, !want.is_empty())?;
    if open_mode.is_reopen() {
        rights::check_use(&inode, caller, open_rights, AccessMode::READ)?;
    }
    permission::check_access(&inode, caller, want)?;
    flag_checks::check_open(&inode, open_mode)?;
    if inode.kind == FileKind::Regular {
        if open_mode.truncate {
            write_lease::require_revoked(view, session, &inode)?;
        } else {
            write_lease::require_attr_report(view, session, &inode)?;
        }
        truncation::check_no_unfinished_truncate(inode.file()?, ino)?;
        if open_mode.truncate {
            truncation::truncate_file(view, session, ino, 0)?;
            privileges::kill_after_write(view, caller, ino, open_mode.kill_privileges)?;
        }
    }
    Ok(MetaReplyBody::Opened(view.inode(ino)?.open_info(false)))
}
