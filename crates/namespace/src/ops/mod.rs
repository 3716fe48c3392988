//! What clients ask, one file an operation: what POSIX promises, the function, its tests.
//!
//! | operation | answer |
//! |---|---|
//! | lookup, lookup_parent | `Entry` |
//! | getattr | `Attr` |
//! | access, set_layout_rule, close_session, forgotten, renew | `Done` |
//! | create, open, open_tmpfile, truncate, begin_write | `Opened`: where the bytes are now |
//! | mkdir, mknod, symlink, tmpfile, link | `Entry` |
//! | unlink, rmdir, rename | `Removed` |
//! | setattr, setxattr, removexattr, set_flags, spilled, end_write, kill_privileges | `Attr` |
//! | write_inline | `Attr`, or `Outgrown` and nothing written |
//!
//! `rights` has the table of what each needs. What depends on the way an operation goes (directories that it passes, the owner
//! of what it replaces) each checks itself, by `may`.

mod access;
mod begin_write;
mod create;
mod end_write;
mod getattr;
mod kill_privileges;
mod layout_rule;
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
mod spilled;
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

use crate::record::Inode;
use crate::rights;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{Answer, Op, Opened};

pub(crate) fn dispatch(view: &mut View, op: &Op) -> Outcome<Answer> {
    rights::check(view, op)?;
    match op {
        Op::Lookup { dir, name } => lookup::lookup(view, *dir, name),
        Op::LookupParent { dir } => lookup::lookup_parent(view, *dir),
        Op::GetAttr { ino } => getattr::getattr(view, *ino),
        Op::Access { ino, want } => access::access(view, *ino, *want),
        Op::Readlink { ino } => readlink::readlink(view, *ino),
        Op::Readdir {
            dir,
            after,
            limit,
            plus,
        } => readdir::readdir(view, *dir, *after, *limit, *plus),
        Op::GetXattr { ino, name } => xattr_get::get_xattr(view, *ino, name),
        Op::ListXattr { ino } => xattr_list::list_xattr(view, *ino),
        Op::StatFs => statfs::statfs(view),
        Op::GetLayoutRule { ino } => layout_rule::get_layout_rule(view, *ino),
        Op::Create {
            dir,
            name,
            make,
            exclusive,
            open,
        } => create::create(view, *dir, name, *make, *exclusive, *open),
        Op::Mkdir { dir, name, make } => mkdir::mkdir(view, *dir, name, *make),
        Op::Mknod {
            dir,
            name,
            kind,
            rdev,
            make,
        } => mknod::mknod(view, *dir, name, *kind, *rdev, *make),
        Op::Symlink { dir, name, target } => symlink::symlink(view, *dir, name, target),
        Op::TmpFile { dir, make } => tmpfile::tmpfile(view, *dir, *make),
        Op::OpenTmpFile { dir, make, .. } => tmpfile::open_tmpfile(view, *dir, *make),
        Op::Link { ino, dir, name } => link::link(view, *ino, *dir, name),
        Op::Unlink { dir, name } => unlink::unlink(view, *dir, name),
        Op::Rmdir { dir, name } => rmdir::rmdir(view, *dir, name),
        Op::Rename {
            from,
            name,
            to,
            new_name,
            how,
        } => rename::rename(view, *from, name, *to, new_name, *how),
        Op::SetAttr { ino, set } => setattr::setattr(view, *ino, set),
        Op::SetXattr {
            ino,
            name,
            value,
            how,
        } => xattr_set::set_xattr(view, *ino, name, value, *how),
        Op::RemoveXattr { ino, name } => xattr_remove::remove_xattr(view, *ino, name),
        Op::SetLayoutRule { ino, rule } => layout_rule::set_layout_rule(view, *ino, rule.as_ref()),
        Op::Open { ino, open } => open::open(view, *ino, *open),
        Op::Truncate {
            ino,
            to,
            by_handle,
            kill_privileges,
        } => truncate::truncate(view, *ino, *to, *by_handle, *kill_privileges),
        Op::WriteInline {
            ino,
            at,
            data,
            kill_privileges,
        } => write_inline::write_inline(view, *ino, *at, data, *kill_privileges),
        Op::BeginWrite {
            ino,
            kill_privileges,
        } => begin_write::begin_write(view, *ino, *kill_privileges),
        Op::Spilled { ino, written } => spilled::spilled(view, *ino, written),
        Op::EndWrite { ino, written, keep } => end_write::end_write(view, *ino, written, *keep),
        Op::KillPrivileges { ino } => kill_privileges::kill_privileges(view, *ino),
        Op::SetFlags { ino, flags } => set_flags::set_flags(view, *ino, *flags),
        Op::OpenSession { client } => sessions::open_session(view, client),
        Op::CloseSession => sessions::close_session(view),
        Op::Forgotten { inodes } => sessions::forgotten(view, inodes),
        // The driver waits until the log is durable, knows who lives, and signs; the records say nothing about it.
        Op::Sync { .. } => Ok(Answer::Synced),
        // Coming back is the driver's affair.
        Op::Renew | Op::Return { .. } | Op::Permit { .. } => Ok(Answer::Done),
        // Locks are in no record (`locks`); and the driver takes an operation out of its proofs.
        Op::Lock(_) | Op::Proven { .. } => Err(gupfs_proto::Refusal::NotSupported.into()),
    }
}

/// The inode in whose shard an operation's stored reply lies: the same for a repetition of the request.
pub(crate) fn home(op: &Op) -> InodeId {
    match op {
        Op::Lookup { dir, .. }
        | Op::LookupParent { dir }
        | Op::Readdir { dir, .. }
        | Op::Create { dir, .. }
        | Op::Mkdir { dir, .. }
        | Op::Mknod { dir, .. }
        | Op::Symlink { dir, .. }
        | Op::TmpFile { dir, .. }
        | Op::OpenTmpFile { dir, .. }
        | Op::Link { dir, .. }
        | Op::Unlink { dir, .. }
        | Op::Rmdir { dir, .. }
        | Op::Rename { from: dir, .. } => *dir,
        Op::GetAttr { ino }
        | Op::Access { ino, .. }
        | Op::Readlink { ino }
        | Op::GetXattr { ino, .. }
        | Op::ListXattr { ino }
        | Op::GetLayoutRule { ino }
        | Op::SetAttr { ino, .. }
        | Op::SetXattr { ino, .. }
        | Op::RemoveXattr { ino, .. }
        | Op::SetLayoutRule { ino, .. }
        | Op::Open { ino, .. }
        | Op::Truncate { ino, .. }
        | Op::WriteInline { ino, .. }
        | Op::BeginWrite { ino, .. }
        | Op::Spilled { ino, .. }
        | Op::EndWrite { ino, .. }
        | Op::KillPrivileges { ino }
        | Op::SetFlags { ino, .. }
        | Op::Permit { ino, .. } => *ino,
        Op::Forgotten { inodes } => inodes.first().copied().unwrap_or(InodeId::ROOT),
        Op::StatFs
        | Op::OpenSession { .. }
        | Op::CloseSession
        | Op::Sync { .. }
        | Op::Renew
        | Op::Return { .. }
        | Op::Proven { .. }
        | Op::Lock(_) => InodeId::ROOT,
    }
}

/// A file as its user gets it, when a cut that is under way is done: he has no answer before. What is no regular file has neither layout nor bytes.
pub(crate) fn opened(inode: &Inode, created: bool) -> Opened {
    let (layout, inline) = match inode.file() {
        Ok(file) if file.layout.is_empty() || !file.inline.is_empty() => {
            (file.layout.clone(), Some(file.inline.clone()))
        }
        Ok(file) => (file.layout.clone(), None),
        Err(_) => Default::default(),
    };
    let mut attr = inode.attr();
    if let Ok(file) = inode.file()
        && let Some(cutting) = file.cutting
    {
        attr.size = cutting.to;
    }
    Opened {
        attr,
        layout,
        inline,
        created,
        capability: None, // the driver's affair
    }
}
