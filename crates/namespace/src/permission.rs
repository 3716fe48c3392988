//! Permission checks of every operation, independent of what a client's kernel checked before. The order of the checks is
//! that of Linux, because programs see which of two errors they get.

use crate::acl::{Acl, permission_classes};
use crate::record::Inode;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::AccessMode;
use gupfs_proto::{Caller, FileKind, FileMode, FsError};

/// What the access checks read of an inode. A client with a lease on an inode's attributes checks with it, and so decides as the
/// server does.
#[derive(Clone, Copy, Debug)]
pub struct Protection<'a> {
    pub kind: FileKind,
    pub mode: FileMode,
    pub uid: u32,
    pub gid: u32,
    pub flags: InodeFlags,
    /// The access ACL; None if the inode has none.
    pub acl: Option<&'a Acl>,
}

impl Protection<'_> {
    /// Whether the mode or the ACL grants `want`. Root may read and write everything, and execute a file that has any execute bit.
    pub fn grants(&self, caller: &Caller, want: AccessMode) -> bool {
        if caller.is_root() {
            let executable = self.kind == FileKind::Directory || self.mode.0 & 0o111 != 0;
            return !want.contains(AccessMode::EXECUTE) || executable;
        }
        match self.acl {
            Some(acl) => acl.grants(caller, self.uid, self.gid, want),
            None => {
                let [owner, group, other] = permission_classes(self.mode);
                let rights = match () {
                    () if caller.uid == self.uid => owner,
                    () if caller.in_group(self.gid) => group,
                    () => other,
                };
                rights & want.bits() == want.bits()
            }
        }
    }

    /// # Errors
    /// `Denied`; `NotPermitted` for writing an immutable inode.
    pub fn check(&self, caller: &Caller, want: AccessMode) -> Result<(), FsError> {
        if want.contains(AccessMode::WRITE) && self.flags.contains(InodeFlags::IMMUTABLE) {
            return Err(FsError::NotPermitted);
        }
        match self.grants(caller, want) {
            true => Ok(()),
            false => Err(FsError::Denied),
        }
    }
}

impl<'a> From<&'a Inode> for Protection<'a> {
    fn from(inode: &'a Inode) -> Protection<'a> {
        Protection {
            kind: inode.kind,
            mode: inode.mode,
            uid: inode.uid,
            gid: inode.gid,
            flags: inode.flags,
            acl: inode.acl.as_ref(),
        }
    }
}

/// Whether the mode or the ACL grants `want` (`Protection::grants`).
pub(crate) fn has_access(inode: &Inode, caller: &Caller, want: AccessMode) -> bool {
    Protection::from(inode).grants(caller, want)
}

/// # Errors
/// `Denied`; `NotPermitted` for writing an immutable inode.
pub(crate) fn check_access(
    inode: &Inode,
    caller: &Caller,
    want: AccessMode,
) -> Result<(), FsError> {
    Protection::from(inode).check(caller, want)
}

pub(crate) fn check_search(dir: &Inode, caller: &Caller) -> Result<(), FsError> {
    check_access(dir, caller, AccessMode::EXECUTE)
}

/// Whether the caller may create a name in this directory.
pub(crate) fn check_create(dir: &Inode, caller: &Caller) -> Result<(), FsError> {
    if dir.names == 0 {
        // A removed directory that is still open, or is a working directory, gets no new names.
        return Err(FsError::NotFound);
    }
    check_access(dir, caller, AccessMode::WRITE | AccessMode::EXECUTE)
}

/// Whether the caller may remove `victim`'s name from `dir`. `is_dir`: the operation removes directories.
pub(crate) fn check_remove(
    dir: &Inode,
    victim: &Inode,
    caller: &Caller,
    is_dir: bool,
) -> Result<(), FsError> {
    check_access(dir, caller, AccessMode::WRITE | AccessMode::EXECUTE)?;
    if dir.flags.contains(InodeFlags::APPEND_ONLY)
        || is_immutable_or_append_only(victim)
        || (dir.mode.has(FileMode::STICKY)
            && !is_owner_or_root(victim, caller)
            && !is_owner_or_root(dir, caller))
    {
        return Err(FsError::NotPermitted);
    }
    match (is_dir, victim.is_dir()) {
        (true, false) => Err(FsError::NotDirectory),
        (false, true) => Err(FsError::IsDirectory),
        (true, true) | (false, false) => Ok(()),
    }
}

/// Immutable and append-only files keep their names and status.
pub(crate) fn is_immutable_or_append_only(inode: &Inode) -> bool {
    inode
        .flags
        .intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND_ONLY)
}

/// Whether the caller is the owner or root.
pub(crate) fn is_owner_or_root(inode: &Inode, caller: &Caller) -> bool {
    caller.is_root() || caller.uid == inode.uid
}

/// Whether the caller may set the setgid bit for this group.
pub(crate) fn is_in_group_or_root(gid: u32, caller: &Caller) -> bool {
    caller.is_root() || caller.in_group(gid)
}

/// chmod(2): sets the permission bits and updates the access ACL; clears setgid if the caller may not set it.
pub(crate) fn set_mode(inode: &mut Inode, mode: FileMode, caller: &Caller) {
    inode.mode = if is_in_group_or_root(inode.gid, caller) {
        mode
    } else {
        mode.without(FileMode::SETGID)
    };
    if let Some(acl) = &mut inode.acl {
        acl.apply_mode(mode);
    }
}

/// The mode after a write by an unprivileged caller: setuid is cleared; setgid is cleared if the group may execute the file, or
/// if the caller is not in the group.
pub(crate) fn mode_after_write(inode: &Inode, caller: &Caller) -> FileMode {
    let mode = mode_after_write_by_any_group(inode);
    match inode.is_dir() || is_in_group_or_root(inode.gid, caller) {
        true => mode,
        false => mode.without(FileMode::SETGID),
    }
}

/// The mode after a write by an unprivileged caller whose groups are not known.
pub(crate) fn mode_after_write_by_any_group(inode: &Inode) -> FileMode {
    if inode.is_dir() {
        return inode.mode;
    }
    let mode = inode.mode.without(FileMode::SETUID);
    match mode.has(0o010) {
        true => mode.without(FileMode::SETGID),
        false => mode,
    }
}
