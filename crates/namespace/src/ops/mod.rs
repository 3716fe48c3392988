//! The operations of clients, one file each: what POSIX promises, the function, its tests.
//!
//! | operation | reply |
//! |---|---|
//! | lookup, lookup_parent | `Entry` |
//! | getattr | `Attr` |
//! | access, set_layout_rule, close_session, forgotten, renew | `Done` |
//! | create, open, open_tmpfile, truncate, begin_write | `Opened`: the layout, or the inline bytes |
//! | mkdir, mknod, symlink, tmpfile, link | `Entry` |
//! | unlink, rmdir, rename | `Removed` |
//! | setattr, setxattr, removexattr, set_flags, spilled, end_write, kill_privileges | `Attr` |
//! | write_inline | `Attr`, or `InlineTooLarge` and nothing written |
//!
//! `rights` has the table of the access rule of each. Checks that depend on the inodes that an operation reaches (directories of
//! a path, the owner of a replaced file) are in the operation, through `permission`.

mod access;
mod begin_write;
mod create;
mod default_layout;
mod end_write;
mod getattr;
mod kill_privileges;
mod link;
mod lookup;
mod mkdir;
mod mknod;
mod open;
mod readdir;
mod readlink;
mod rename;
mod rmdir;
mod sessions;
mod set_flags;
mod setattr;
mod spill_inline;
mod statfs;
mod symlink;
mod tmpfile;
mod truncate;
mod unlink;
mod write_inline;
mod xattr_get;
mod xattr_list;
mod xattr_remove;
mod xattr_set;

use crate::driver::OpResult;
use crate::record::Inode;
use crate::rights;
use crate::view::OpView;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{MetaOp, MetaReplyBody, OpenInfo};

pub(crate) fn dispatch(view: &mut OpView, op: &MetaOp) -> OpResult<MetaReplyBody> {
    rights::check(view, op)?;
    match op {
        MetaOp::Lookup { dir, name } => lookup::lookup(view, *dir, name),
        MetaOp::LookupParent { dir } => lookup::lookup_parent(view, *dir),
        MetaOp::GetAttr { ino } => getattr::getattr(view, *ino),
        MetaOp::Access { ino, want } => access::access(view, *ino, *want),
        MetaOp::Readlink { ino } => readlink::readlink(view, *ino),
        MetaOp::Readdir {
            dir,
            after,
            limit,
            plus,
        } => readdir::readdir(view, *dir, *after, *limit, *plus),
        MetaOp::GetXattr { ino, name } => xattr_get::get_xattr(view, *ino, name),
        MetaOp::ListXattr { ino } => xattr_list::list_xattr(view, *ino),
        MetaOp::StatFs => statfs::statfs(view),
        MetaOp::GetDefaultLayout { ino } => default_layout::get_default_layout(view, *ino),
        MetaOp::Create {
            dir,
            name,
            create_mode,
            exclusive,
            open,
        } => create::create(view, *dir, name, *create_mode, *exclusive, *open),
        MetaOp::Mkdir {
            dir,
            name,
            create_mode,
        } => mkdir::mkdir(view, *dir, name, *create_mode),
        MetaOp::Mknod {
            dir,
            name,
            kind,
            rdev,
            create_mode,
        } => mknod::mknod(view, *dir, name, *kind, *rdev, *create_mode),
        MetaOp::Symlink { dir, name, target } => symlink::symlink(view, *dir, name, target),
        MetaOp::TmpFile { dir, create_mode } => tmpfile::tmpfile(view, *dir, *create_mode),
        MetaOp::OpenTmpFile {
            dir, create_mode, ..
        } => tmpfile::open_tmpfile(view, *dir, *create_mode),
        MetaOp::Link { ino, dir, name } => link::link(view, *ino, *dir, name),
        MetaOp::Unlink { dir, name } => unlink::unlink(view, *dir, name),
        MetaOp::Rmdir { dir, name } => rmdir::rmdir(view, *dir, name),
        MetaOp::Rename {
            from,
            name,
            to,
            new_name,
            mode,
        } => rename::rename(view, *from, name, *to, new_name, *mode),
        MetaOp::SetAttr { ino, set } => setattr::setattr(view, *ino, set),
        MetaOp::SetXattr {
            ino,
            name,
            value,
            mode,
        } => xattr_set::set_xattr(view, *ino, name, value, *mode),
        MetaOp::RemoveXattr { ino, name } => xattr_remove::remove_xattr(view, *ino, name),
        MetaOp::SetDefaultLayout { ino, layout } => {
            default_layout::set_default_layout(view, *ino, layout.as_ref())
        }
        MetaOp::Open { ino, open } => open::open(view, *ino, *open),
        MetaOp::Truncate {
            ino,
            to,
            by_handle,
            kill_privileges,
        } => truncate::truncate(view, *ino, *to, *by_handle, *kill_privileges),
        MetaOp::WriteInline {
            ino,
            at,
            data,
            kill_privileges,
        } => write_inline::write_inline(view, *ino, *at, data, *kill_privileges),
        MetaOp::BeginWrite {
            ino,
            kill_privileges,
        } => begin_write::begin_write(view, *ino, *kill_privileges),
        MetaOp::SpillInline { ino, report } => spill_inline::spill_inline(view, *ino, report),
        MetaOp::EndWrite {
            ino,
            report,
            keep_lease,
        } => end_write::end_write(view, *ino, report, *keep_lease),
        MetaOp::KillPrivileges { ino } => kill_privileges::kill_privileges(view, *ino),
        MetaOp::SetFlags { ino, flags } => set_flags::set_flags(view, *ino, *flags),
        MetaOp::OpenSession { client } => sessions::open_session(view, client),
        MetaOp::CloseSession => sessions::close_session(view),
        MetaOp::Forget { inodes } => sessions::forget(view, inodes),
        // The driver waits until the log is durable; the machine has nothing to do.
        MetaOp::Sync { .. } => Ok(MetaReplyBody::Synced),
        // The driver renews sessions, reconnects them and issues capabilities; the machine has nothing to do.
        MetaOp::Renew | MetaOp::Replay { .. } | MetaOp::IssueCapability { .. } => {
            Ok(MetaReplyBody::Done)
        }
        // Locks are in no record (`locks`); and the driver unwraps operations with open capabilities.
        MetaOp::Lock(_) | MetaOp::WithOpenCapability { .. } => {
            Err(gupfs_proto::FsError::NotSupported.into())
        }
    }
}

/// The inode in whose shard the stored reply of an operation is kept: the same for a retransmission of the request.
pub(crate) fn reply_inode(op: &MetaOp) -> InodeId {
    match op {
        MetaOp::Lookup { dir, .. }
        | MetaOp::LookupParent { dir }
        | MetaOp::Readdir { dir, .. }
        | MetaOp::Create { dir, .. }
        | MetaOp::Mkdir { dir, .. }
        | MetaOp::Mknod { dir, .. }
        | MetaOp::Symlink { dir, .. }
        | MetaOp::TmpFile { dir, .. }
        | MetaOp::OpenTmpFile { dir, .. }
        | MetaOp::Link { dir, .. }
        | MetaOp::Unlink { dir, .. }
        | MetaOp::Rmdir { dir, .. }
        | MetaOp::Rename { from: dir, .. } => *dir,
        MetaOp::GetAttr { ino }
        | MetaOp::Access { ino, .. }
        | MetaOp::Readlink { ino }
        | MetaOp::GetXattr { ino, .. }
        | MetaOp::ListXattr { ino }
        | MetaOp::GetDefaultLayout { ino }
        | MetaOp::SetAttr { ino, .. }
        | MetaOp::SetXattr { ino, .. }
        | MetaOp::RemoveXattr { ino, .. }
        | MetaOp::SetDefaultLayout { ino, .. }
        | MetaOp::Open { ino, .. }
        | MetaOp::Truncate { ino, .. }
        | MetaOp::WriteInline { ino, .. }
        | MetaOp::BeginWrite { ino, .. }
        | MetaOp::SpillInline { ino, .. }
        | MetaOp::EndWrite { ino, .. }
        | MetaOp::KillPrivileges { ino }
        | MetaOp::SetFlags { ino, .. }
        | MetaOp::IssueCapability { ino, .. } => *ino,
        MetaOp::Forget { inodes } => inodes.first().copied().unwrap_or(InodeId::ROOT),
        MetaOp::StatFs
        | MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Sync { .. }
        | MetaOp::Renew
        | MetaOp::Replay { .. }
        | MetaOp::WithOpenCapability { .. }
        | MetaOp::Lock(_) => InodeId::ROOT,
    }
}

/// The reply to an open or truncate. If the operation started a truncate of objects, the reply has the size after it: the driver
/// sends the reply when the truncate is done. An inode that is not a regular file has neither layout nor inline bytes.
pub(crate) fn open_reply(inode: &Inode, created: bool) -> OpenInfo {
    let (layout, inline) = match inode.file() {
        Ok(file) if file.layout.is_empty() || !file.inline.is_empty() => {
            (file.layout.clone(), Some(file.inline.clone()))
        }
        Ok(file) => (file.layout.clone(), None),
        Err(_) => Default::default(),
    };
    let mut attr = inode.attr();
    if let Ok(file) = inode.file()
        && let Some(truncate) = file.truncating
    {
        attr.size = truncate.to;
    }
    OpenInfo {
        attr,
        layout,
        inline,
        created,
        capability: None, // the driver adds it
    }
}
