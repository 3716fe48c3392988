//! Privileges of a program file (setuid, setgid, file capabilities): a write removes them, so that no program runs changed
//! bytes with another user's rights.

use crate::driver::OpResult;
use crate::permission;
use crate::view::OpView;
use gupfs_proto::meta::XattrName;
use gupfs_proto::{Caller, FileMode, InodeId};

/// Removes file capabilities after a write of any caller; clears the mode's bits if the caller is unprivileged: if the client's
/// kernel says so (`kill`), and always if the caller is not root on this server, whatever its host says.
pub(crate) fn kill_after_write(
    view: &mut OpView,
    caller: &Caller,
    ino: InodeId,
    kill: bool,
) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let mode = match kill || !caller.is_root() {
        true => permission::mode_after_write(&inode, caller),
        false => inode.mode,
    };
    set_mode_without_privileges(view, ino, mode)
}

/// As `kill_after_write`, for a client that writes on behalf of an open file: the groups of the writing process are not known
/// here, so setgid is cleared only if the group may execute the file.
pub(crate) fn kill_after_client_write(
    view: &mut OpView,
    caller: &Caller,
    ino: InodeId,
    kill: bool,
) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let mode = match kill || !caller.is_root() {
        true => permission::mode_after_write_by_any_group(&inode),
        false => inode.mode,
    };
    set_mode_without_privileges(view, ino, mode)
}

/// Sets the mode, and removes file capabilities.
fn set_mode_without_privileges(view: &mut OpView, ino: InodeId, mode: FileMode) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let has_capability = inode
        .security
        .iter()
        .any(|(name, _)| name.as_bytes() == XattrName::CAPABILITY);
    if mode == inode.mode && !has_capability {
        return Ok(());
    }
    let now = view.now();
    view.change(ino, |inode| {
        inode.touch_ctime(now);
        inode.mode = mode;
        inode
            .security
            .retain(|(name, _)| name.as_bytes() != XattrName::CAPABILITY);
    })
}
