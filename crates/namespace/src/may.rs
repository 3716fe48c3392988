//! Who may do what: decided here for every operation, whatever a kernel checked before. The order of the checks is Linux's,
//! because programs see which of two errors they get.

use crate::acl::classes;
use crate::record::Inode;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::Access;
use gupfs_proto::{Caller, Mode, Refusal};

/// Whether the mode or the access list grants `want`. Root may read and write everything, and execute what anybody may.
pub(crate) fn grants(inode: &Inode, caller: &Caller, want: Access) -> bool {
    if caller.is_root() {
        let executable = inode.is_dir() || inode.mode.0 & 0o111 != 0;
        return !want.contains(Access::EXECUTE) || executable;
    }
    match &inode.acl {
        Some(acl) => acl.grants(caller, inode.uid, inode.gid, want),
        None => {
            let [owner, group, other] = classes(inode.mode);
            let rights = match () {
                () if caller.uid == inode.uid => owner,
                () if caller.in_group(inode.gid) => group,
                () => other,
            };
            rights & want.bits() == want.bits()
        }
    }
}

/// # Errors
/// `Denied`; `NotPermitted` for writing what is immutable.
pub(crate) fn access(inode: &Inode, caller: &Caller, want: Access) -> Result<(), Refusal> {
    if want.contains(Access::WRITE) && inode.flags.contains(InodeFlags::IMMUTABLE) {
        return Err(Refusal::NotPermitted);
    }
    if grants(inode, caller, want) {
        Ok(())
    } else {
        Err(Refusal::Denied)
    }
}

pub(crate) fn search(dir: &Inode, caller: &Caller) -> Result<(), Refusal> {
    access(dir, caller, Access::EXECUTE)
}

/// Whether a name may be made in this directory.
pub(crate) fn create_in(dir: &Inode, caller: &Caller) -> Result<(), Refusal> {
    if dir.names == 0 {
        // A removed directory that somebody still stands in takes no new names.
        return Err(Refusal::NotFound);
    }
    access(dir, caller, Access::WRITE | Access::EXECUTE)
}

/// Whether `victim`'s name in `dir` may go. `is_dir`: by an operation that removes directories.
pub(crate) fn remove_from(
    dir: &Inode,
    victim: &Inode,
    caller: &Caller,
    is_dir: bool,
) -> Result<(), Refusal> {
    access(dir, caller, Access::WRITE | Access::EXECUTE)?;
    if dir.flags.contains(InodeFlags::APPEND_ONLY)
        || is_fixed(victim)
        || (dir.mode.has(Mode::STICKY) && !owns(victim, caller) && !owns(dir, caller))
    {
        return Err(Refusal::NotPermitted);
    }
    match (is_dir, victim.is_dir()) {
        (true, false) => Err(Refusal::NotDirectory),
        (false, true) => Err(Refusal::IsDirectory),
        (true, true) | (false, false) => Ok(()),
    }
}

/// Immutable and append-only files keep their names and status.
pub(crate) fn is_fixed(inode: &Inode) -> bool {
    inode
        .flags
        .intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND_ONLY)
}

/// The owner, or root in his place.
pub(crate) fn owns(inode: &Inode, caller: &Caller) -> bool {
    caller.is_root() || caller.uid == inode.uid
}

/// Whether the caller may set the setgid bit for this group.
pub(crate) fn in_group(gid: u32, caller: &Caller) -> bool {
    caller.is_root() || caller.in_group(gid)
}

/// The mode after somebody without privilege wrote: setuid goes; setgid goes where it means "run as the group", and where
/// the writer is not of the group.
pub(crate) fn without_privileges(inode: &Inode, caller: &Caller) -> Mode {
    let mode = without_privileges_of_any_group(inode);
    match inode.is_dir() || in_group(inode.gid, caller) {
        true => mode,
        false => mode.without(Mode::SETGID),
    }
}

/// The same if all that is known of the writer is that it has no privilege.
pub(crate) fn without_privileges_of_any_group(inode: &Inode) -> Mode {
    if inode.is_dir() {
        return inode.mode;
    }
    let mode = inode.mode.without(Mode::SETUID);
    match mode.has(0o010) {
        true => mode.without(Mode::SETGID),
        false => mode,
    }
}
