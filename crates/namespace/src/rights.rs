//! # rights: the access right that each operation requires
//!
//! Owns   the check of an operation's rule; the table of rules is `gupfs_proto::operations`.
//! Never  looks at the client's host or process: root squashing was applied when the request arrived.
//! Enter  at `check`, which runs before every operation; the driver checks the operations that it executes itself.
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
use gupfs_proto::meta::{AccessMode, MetaOp};
use gupfs_proto::operations::AccessRule;
use gupfs_proto::{Caller, FsError, InodeId, SessionId};

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
    tracing::trace!(target: "walk", file = file!(), "check");
    let (caller, open_rights) = (requester.caller, requester.open_rights);
    match op.operation().rule {
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
