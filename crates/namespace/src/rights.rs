//! # rights: the access right that each operation requires
//!
//! Owns   the table (`access_rule`) that says for every operation what gives the right to it, and the check of that rule.
//! Never  looks at the client's host or process: root squashing was applied when the request arrived.
//! Enter  at `check`, which runs before every operation; at `access_rule` for operations that the driver executes itself.
//!
//! Two things give a right: the credentials in a request, and what its session has open. POSIX checks permissions once, at
//! open(2): a program may write through a descriptor although the file's mode is 0444 by now, or was 0444 at creation. A session
//! proves that it has a file open with the open capability that the server issued for the open
//! (`gupfs_proto::capability::OpenCapability`). The server checks a request without an open capability by its credentials alone.

pub use crate::open_rights::OpenRights;

use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::permission;
use crate::record::{Inode, WriteLease};
use crate::requester::Requester;
use crate::view::ReadView;
use gupfs_proto::capability::Rights;
use gupfs_proto::lock::{AdvisoryLock, LockFamily, LockMode, LockRequest};
use gupfs_proto::meta::{AccessMode, MetaOp, OpenMode, SetAttr};
use gupfs_proto::{Caller, FsError, InodeId, SessionId};

/// The condition under which a session may execute an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessRule {
    /// Every session may: the operation concerns the session itself, or returns what every host with a session may know.
    Session,
    /// By the credentials. The operation checks them itself (`permission`) for each directory and file that it reaches, in the
    /// order of Linux.
    Credentials,
    /// The session has the inode open with this access, or the credentials give the right to open it with this access now.
    Open(InodeId, AccessMode),
    /// As `Open` with write access, or the credentials are those of the owner.
    WriteOrOwner(InodeId),
    /// The session has the file's write lease, according to the records.
    LeaseHolder(InodeId),
    /// Each operation and each lock that it contains is checked by its own rule.
    PerPart,
}

/// The rule of each operation.
pub fn access_rule(op: &MetaOp) -> AccessRule {
    match op {
        // Names. Every host may get an inode's attributes (fstat(2)) and a symbolic link's target by inode number.
        MetaOp::Lookup { .. } => AccessRule::Credentials,
        MetaOp::LookupParent { dir } => AccessRule::Open(*dir, AccessMode::EXECUTE),
        MetaOp::GetAttr { .. } => AccessRule::Session,
        MetaOp::Access { .. } => AccessRule::Credentials,
        MetaOp::Readlink { .. } => AccessRule::Session,
        MetaOp::Readdir { dir, .. } => AccessRule::Open(*dir, AccessMode::READ),
        MetaOp::GetXattr { .. } => AccessRule::Credentials,
        MetaOp::ListXattr { .. } => AccessRule::Session,
        MetaOp::StatFs => AccessRule::Session,
        MetaOp::GetDefaultLayout { .. } => AccessRule::Session,

        MetaOp::Create { .. }
        | MetaOp::Mkdir { .. }
        | MetaOp::Mknod { .. }
        | MetaOp::Symlink { .. }
        | MetaOp::TmpFile { .. }
        | MetaOp::OpenTmpFile { .. }
        | MetaOp::Link { .. }
        | MetaOp::Unlink { .. }
        | MetaOp::Rmdir { .. }
        | MetaOp::Rename { .. } => AccessRule::Credentials,

        // Files. A client reports a file's access time: that needs read access.
        MetaOp::SetAttr { ino, set } => match set {
            set if is_atime_report(set) => AccessRule::Open(*ino, AccessMode::READ),
            set if changes_no_attribute(set) => AccessRule::WriteOrOwner(*ino),
            _ => AccessRule::Credentials,
        },
        MetaOp::SetXattr { .. }
        | MetaOp::RemoveXattr { .. }
        | MetaOp::SetDefaultLayout { .. }
        | MetaOp::SetFlags { .. } => AccessRule::Credentials,
        // A client reopens a file that it has open without any access: to get the layout again, or the inline bytes.
        MetaOp::Open { ino, open } => match is_reopen(*open) {
            true => AccessRule::Open(*ino, AccessMode::READ),
            false => AccessRule::Credentials,
        },
        MetaOp::Truncate { ino, by_handle, .. } => match by_handle {
            true => AccessRule::Open(*ino, AccessMode::WRITE),
            false => AccessRule::Credentials,
        },
        MetaOp::WriteInline { ino, .. } => AccessRule::Open(*ino, AccessMode::WRITE),
        MetaOp::BeginWrite { ino, .. } => AccessRule::Open(*ino, AccessMode::WRITE),
        MetaOp::SpillInline { ino, .. } => AccessRule::LeaseHolder(*ino),
        MetaOp::EndWrite { ino, .. } => AccessRule::LeaseHolder(*ino),
        MetaOp::KillPrivileges { ino } => AccessRule::WriteOrOwner(*ino),
        MetaOp::IssueCapability { ino, rights } => match rights.contains(Rights::WRITE) {
            true => AccessRule::LeaseHolder(*ino),
            false => AccessRule::Open(*ino, AccessMode::READ),
        },

        // Operations on the session itself. `Forget` removes only orphans that are recorded for this session.
        MetaOp::OpenSession { .. }
        | MetaOp::CloseSession
        | MetaOp::Forget { .. }
        | MetaOp::Sync { .. }
        | MetaOp::Renew => AccessRule::Session,
        MetaOp::Replay { .. } | MetaOp::WithOpenCapability { .. } => AccessRule::PerPart,
        MetaOp::Lock(request) => access_rule_of_lock_request(request),
    }
}

/// Acquiring a lock blocks other sessions, so it needs access. A session releases only its own locks.
fn access_rule_of_lock_request(request: &LockRequest) -> AccessRule {
    match request {
        LockRequest::Acquire { lock, .. } | LockRequest::Test { lock } => {
            AccessRule::Open(lock.holder.ino, access_for_lock(lock))
        }
        LockRequest::Release { .. } | LockRequest::Cancel { .. } => AccessRule::Session,
    }
}

/// Whether the request is not an open(2) of a program but a client that gets the layout of a file that it has open.
pub(crate) fn is_reopen(open_mode: OpenMode) -> bool {
    Rights::for_open(open_mode.access).is_empty() && !open_mode.truncate
}

/// The access that fcntl(2) requires of the descriptor; flock(2) accepts any.
pub fn access_for_lock(lock: &AdvisoryLock) -> AccessMode {
    match (lock.holder.family, lock.mode) {
        (LockFamily::Record, LockMode::Exclusive) => AccessMode::WRITE,
        (LockFamily::Record, LockMode::Shared) | (LockFamily::Flock, _) => AccessMode::READ,
    }
}

/// Whether the request is a client's report of an access time: nothing else changes, so ctime stays. No system call sends a
/// ctime.
pub(crate) fn is_atime_report(set: &SetAttr) -> bool {
    set.ctime.is_some()
}

/// Whether the request clears at most setuid and setgid; it updates ctime all the same.
fn changes_no_attribute(set: &SetAttr) -> bool {
    let rest = SetAttr {
        kill_privileges: set.kill_privileges,
        ..SetAttr::default()
    };
    *set == rest
}

/// Checks `AccessRule::Open`.
///
/// # Errors
/// `Denied`.
pub fn check_use(
    inode: &Inode,
    caller: &Caller,
    opens: &OpenRights,
    access: AccessMode,
) -> Result<(), FsError> {
    match opens.allow_without_record(caller, inode.ino, access)
        || permission::has_access(inode, caller, access)
    {
        true => Ok(()),
        false => Err(FsError::Denied),
    }
}

/// Checks the operation's rule. `Credentials` and `PerPart` are checked later, by the operation or the driver.
pub(crate) fn check(view: &mut ReadView, requester: &Requester, op: &MetaOp) -> OpResult<()> {
    let (caller, open_rights) = (requester.caller, requester.open_rights);
    match access_rule(op) {
        AccessRule::Session | AccessRule::Credentials | AccessRule::PerPart => {}
        AccessRule::Open(ino, access) => {
            let inode = view.inode(ino)?;
            check_use(&inode, caller, open_rights, access)?;
        }
        AccessRule::WriteOrOwner(ino) => {
            let inode = view.inode(ino)?;
            if !permission::is_owner_or_root(&inode, caller) {
                check_use(&inode, caller, open_rights, AccessMode::WRITE)?;
            }
        }
        AccessRule::LeaseHolder(ino) => {
            view.inode(ino)?;
            check_lease_holder(view, requester.session.id, ino)?;
        }
    }
    Ok(())
}

fn check_lease_holder(view: &ReadView, session: SessionId, ino: InodeId) -> OpResult<()> {
    match view.get::<WriteLease>(&RecordKey::write_lease(ino, session))? {
        Some(_) => Ok(()),
        None => {
            let why = format!(
                "session {session} does not have the write lease of inode {:x}",
                ino.0
            );
            Err(FsError::Malformed(why).into())
        }
    }
}

#[cfg(test)]
mod tests;
