//! What the flags "immutable" and "append only" forbid, to root too (ioctl_iflags(2)): each operation asks the function that
//! names what it does. `may::is_fixed` is for what both forbid: other names, other status, removal.
//!
//! An immutable file keeps its bytes, names and status; its access time may move. An append-only file may grow at its end and have
//! its times set to now. A directory keeps its entries, or only gets more. What a file's data servers hold is safe with them: no session is
//! made a writer of an immutable file, and the writer of before gives it back first.

use crate::may;
use crate::record::Inode;
use gupfs_proto::Refusal;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::{Access, OpenHow, SetAttr, SetTime};

/// Whether the file's bytes may change at all.
pub(crate) fn contents(inode: &Inode) -> Result<(), Refusal> {
    unless(inode.flags.contains(InodeFlags::IMMUTABLE))
}

/// Whether bytes at `offset` may change: before the end of an append-only file none may.
pub(crate) fn contents_at(inode: &Inode, offset: u64) -> Result<(), Refusal> {
    contents(inode)?;
    unless(inode.flags.contains(InodeFlags::APPEND_ONLY) && offset < inode.size)
}

/// Whether the file may be cut or grow without a write.
pub(crate) fn size(inode: &Inode) -> Result<(), Refusal> {
    unless(may::is_fixed(inode))
}

/// Whether it may be opened so; an append-only file to write only with O_APPEND.
pub(crate) fn open(inode: &Inode, how: OpenHow) -> Result<(), Refusal> {
    if how.truncate {
        size(inode)?;
    }
    if how.access.contains(Access::WRITE) {
        contents(inode)?;
        let appends = how.access.contains(Access::APPEND);
        return unless(inode.flags.contains(InodeFlags::APPEND_ONLY) && !appends);
    }
    Ok(())
}

/// Whether mode, owner and times may be set so.
pub(crate) fn status(inode: &Inode, set: &SetAttr) -> Result<(), Refusal> {
    let sets_owner = set.uid.is_some() || set.gid.is_some();
    let times = set.atime.is_some() || set.mtime.is_some();
    let both_to_now = set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now);
    if set.mode.is_some() || sets_owner || times && !both_to_now {
        return unless(may::is_fixed(inode));
    }
    if times {
        return contents(inode);
    }
    Ok(())
}

fn unless(forbidden: bool) -> Result<(), Refusal> {
    match forbidden {
        true => Err(Refusal::NotPermitted),
        false => Ok(()),
    }
}
