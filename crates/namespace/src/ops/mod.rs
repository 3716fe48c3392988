//! The operations of clients, one file each: what POSIX promises, the function, its tests.
//!
//! `gupfs_proto::operations` has the table of all operations, with the reply and the access rule of each. Checks that depend on the
//! inodes that an operation reaches (directories of a path, the owner of a replaced file) are in the operation, through
//! `permission`.

mod access;
mod acl_change;
mod begin_read;
mod begin_write;
mod begin_write_at;
mod convert_layout;
mod create;
mod default_layout;
mod downgrade_write;
mod end_write;
mod getattr;
mod kill_privileges;
mod link;
mod lookup;
mod mark_stale;
mod mkdir;
mod mknod;
mod open;
mod readdir;
mod readlink;
mod rename;
mod report_writes;
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
mod upgrade_write;
mod write_inline;
mod xattr_get;
mod xattr_list;
mod xattr_remove;
mod xattr_set;

use crate::context::OpContext;
use crate::driver::OpResult;
use crate::requester::Requester;
use crate::rights;
use crate::view::OpView;
use begin_write::PlacementContext;
use gupfs_proto::meta::{MetaOp, MetaReplyBody};

/// Executes an operation. Each gets the parts of the context that it may use.
pub(crate) fn dispatch(view: &mut OpView, ctx: &OpContext, op: &MetaOp) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "dispatch");
    let requester = &Requester::from_context(ctx);
    let (session, caller) = (&requester.session, requester.caller);
    rights::check(view, requester, op)?;
    match op {
        MetaOp::Lookup { dir, name } => lookup::lookup(view, session, caller, *dir, name),
        MetaOp::LookupParent { dir } => lookup::lookup_parent(view, *dir),
        MetaOp::GetAttr { ino } => getattr::getattr(view, session, *ino),
        MetaOp::Access { ino, want } => access::access(view, caller, *ino, *want),
        MetaOp::Readlink { ino } => readlink::readlink(view, *ino),
        MetaOp::Readdir {
            dir,
            after,
            limit,
            plus,
        } => readdir::readdir(view, session, *dir, *after, *limit, *plus),
        MetaOp::GetXattr { ino, name } => xattr_get::get_xattr(view, caller, *ino, name),
        MetaOp::ListXattr { ino } => xattr_list::list_xattr(view, caller, *ino),
        MetaOp::StatFs => statfs::statfs(view, ctx.shards),
        MetaOp::GetDefaultLayout { ino } => default_layout::get_default_layout(view, *ino),
        MetaOp::Create {
            dir,
            name,
            create_mode,
            exclusive,
            open,
        } => create::create(
            view,
            requester,
            *dir,
            name,
            *create_mode,
            *exclusive,
            *open,
            None,
        ),
        MetaOp::CreateForWriting {
            dir,
            name,
            create_mode,
            exclusive,
            open,
        } => create::create(
            view,
            requester,
            *dir,
            name,
            *create_mode,
            *exclusive,
            *open,
            Some(&PlacementContext::from_context(ctx)),
        ),
        MetaOp::Mkdir {
            dir,
            name,
            create_mode,
        } => mkdir::mkdir(view, caller, *dir, name, *create_mode),
        MetaOp::Mknod {
            dir,
            name,
            kind,
            rdev,
            create_mode,
        } => mknod::mknod(view, caller, *dir, name, *kind, *rdev, *create_mode),
        MetaOp::Symlink { dir, name, target } => symlink::symlink(view, caller, *dir, name, target),
        MetaOp::TmpFile { dir, create_mode } => {
            tmpfile::tmpfile(view, session.id, caller, *dir, *create_mode)
        }
        MetaOp::OpenTmpFile {
            dir, create_mode, ..
        } => tmpfile::open_tmpfile(view, session.id, caller, *dir, *create_mode),
        MetaOp::Link { ino, dir, name } => link::link(view, session, caller, *ino, *dir, name),
        MetaOp::Unlink { dir, name } => unlink::unlink(view, session, caller, *dir, name),
        MetaOp::Rmdir { dir, name } => rmdir::rmdir(view, session, caller, *dir, name),
        MetaOp::Rename {
            from,
            name,
            to,
            new_name,
            mode,
        } => rename::rename(view, session, caller, (*from, name), (*to, new_name), *mode),
        MetaOp::SetAttr { ino, set } => setattr::setattr(view, session, caller, *ino, set),
        MetaOp::SetXattr {
            ino,
            name,
            value,
            mode,
        } => xattr_set::set_xattr(view, session, caller, *ino, name, value, *mode),
        MetaOp::RemoveXattr { ino, name } => xattr_remove::remove_xattr(view, caller, *ino, name),
        MetaOp::SetDefaultLayout { ino, layout } => {
            default_layout::set_default_layout(view, caller, ctx.targets, *ino, layout.as_ref())
        }
        MetaOp::Open { ino, open } => open::open(view, requester, *ino, *open),
        MetaOp::Truncate {
            ino,
            to,
            by_handle,
            kill_privileges,
        } => truncate::truncate(
            view,
            session,
            caller,
            *ino,
            *to,
            *by_handle,
            *kill_privileges,
        ),
        MetaOp::WriteInline {
            ino,
            at,
            data,
            kill_privileges,
        } => write_inline::write_inline(view, session, caller, *ino, *at, data, *kill_privileges),
        MetaOp::BeginWrite {
            ino,
            kill_privileges,
        } => begin_write::begin_write(
            view,
            session,
            caller,
            &PlacementContext::from_context(ctx),
            *ino,
            *kill_privileges,
        ),
        MetaOp::BeginWriteAt {
            ino,
            kill_privileges,
            contended,
        } => begin_write_at::begin_write_at(
            view,
            session,
            caller,
            &PlacementContext::from_context(ctx),
            *ino,
            *kill_privileges,
            *contended,
        ),
        MetaOp::ConvertLayout { ino, change } => {
            convert_layout::convert_layout(view, session, caller, ctx.targets, *ino, change)
        }
        MetaOp::MarkStale { ino, objects } => mark_stale::mark_stale(view, *ino, objects),
        MetaOp::DowngradeWrite { ino, report } => {
            downgrade_write::downgrade_write(view, session.id, *ino, report)
        }
        MetaOp::UpgradeWrite { ino } => upgrade_write::upgrade_write(view, session, *ino),
        MetaOp::BeginRead { ino } => begin_read::begin_read(view, session, *ino),
        MetaOp::SpillInline { ino, report } => {
            spill_inline::spill_inline(view, spill_inline::may_lose_unsynced(ctx), *ino, report)
        }
        MetaOp::EndWrite {
            ino,
            report,
            keep_lease,
        } => end_write::end_write(view, session.id, *ino, report, *keep_lease),
        MetaOp::ReportWrites {
            ino,
            report,
            keep_lease,
            ctime,
            inline,
        } => report_writes::report_writes(
            view,
            session.id,
            *ino,
            report,
            *keep_lease,
            *ctime,
            inline.as_ref(),
        ),
        MetaOp::KillPrivileges { ino } => {
            kill_privileges::kill_privileges(view, session, caller, *ino)
        }
        MetaOp::SetFlags { ino, flags } => {
            set_flags::set_flags(view, session, caller, *ino, *flags)
        }
        MetaOp::OpenSession { client } => {
            sessions::open_session(view, session.id, ctx.owner_epoch, client)
        }
        MetaOp::CloseSession => sessions::close_session(view, session.id),
        MetaOp::Forget { inodes } => sessions::forget(view, session.id, inodes),
        // The driver waits until the log is durable; the machine has nothing to do.
        MetaOp::Sync { .. } => Ok(MetaReplyBody::Synced),
        // The driver renews sessions, reconnects them and issues capabilities; the machine has nothing to do.
        MetaOp::Renew | MetaOp::Replay { .. } | MetaOp::IssueCapability { .. } => {
            Ok(MetaReplyBody::Done)
        }
        // Locks and leases are in no record (`locks`, `leases`); and the driver unwraps operations with open capabilities.
        MetaOp::Lock(_)
        | MetaOp::WithOpenCapability { .. }
        | MetaOp::AcceptLeases
        | MetaOp::NameJobs { .. } => Err(gupfs_proto::FsError::NotSupported.into()),
    }
}
