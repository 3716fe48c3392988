//! The changes that the flags "immutable" and "append only" forbid, to root too (ioctl_iflags(2)): each operation calls the
//! function for the change that it makes. `permission::is_immutable_or_append_only` is for changes that both forbid: names,
//! status, removal.
//!
//! An immutable file keeps its bytes, names and status; its access time may change. An append-only file may grow at its end and
//! have its times set to now. An immutable directory keeps its entries, an append-only one only gains some. The OSTs need no
//! check of their own: no session gets the write lease of an immutable file, and an earlier holder releases the lease before the
//! flag is set.

use crate::permission;
use crate::record::Inode;
use gupfs_proto::FsError;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::{AccessMode, OpenMode, SetAttr, SetTime};

/// Whether the file's bytes may change at all.
pub(crate) fn check_contents(inode: &Inode) -> Result<(), FsError> {
    forbid_if(inode.flags.contains(InodeFlags::IMMUTABLE))
}

/// Whether bytes at `offset` may change: before the end of an append-only file none may.
pub(crate) fn check_contents_at(inode: &Inode, offset: u64) -> Result<(), FsError> {
    check_contents(inode)?;
    forbid_if(inode.flags.contains(InodeFlags::APPEND_ONLY) && offset < inode.size)
}

/// Whether truncate(2) may change the file's size.
pub(crate) fn check_size(inode: &Inode) -> Result<(), FsError> {
    forbid_if(permission::is_immutable_or_append_only(inode))
}

/// Whether the file may be opened this way; an append-only file may be opened for writing only with O_APPEND.
pub(crate) fn check_open(inode: &Inode, open_mode: OpenMode) -> Result<(), FsError> {
    if open_mode.truncate {
        check_size(inode)?;
    }
    if open_mode.access.contains(AccessMode::WRITE) {
        check_contents(inode)?;
        let appends = open_mode.access.contains(AccessMode::APPEND);
        return forbid_if(inode.flags.contains(InodeFlags::APPEND_ONLY) && !appends);
    }
    Ok(())
}

/// Whether mode, owner and times may be set this way.
pub(crate) fn check_status(inode: &Inode, set: &SetAttr) -> Result<(), FsError> {
    let sets_owner = set.uid.is_some() || set.gid.is_some();
    let times = set.atime.is_some() || set.mtime.is_some();
    let both_to_now = set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now);
    if set.mode.is_some() || sets_owner || times && !both_to_now {
        return forbid_if(permission::is_immutable_or_append_only(inode));
    }
    if times {
        return check_contents(inode);
    }
    Ok(())
}

fn forbid_if(forbidden: bool) -> Result<(), FsError> {
    match forbidden {
        true => Err(FsError::NotPermitted),
        false => Ok(()),
    }
}
