//! The truncate of a file, by truncate(2) or by an open with O_TRUNC: the changes of the record, and the truncate of the objects.

use crate::driver::{OpResult, Prerequisite};
use crate::key::{PurgeId, RecordKey};
use crate::record::{FileBody, Inode, UnfinishedTruncate, WriteLease};
use crate::requester::RequestingSession;
use crate::steps::purge;
use crate::view::{OpView, ReadView};
use gupfs_proto::{InodeId, Layout, SessionId};

/// Any access to a file's bytes waits until an unfinished truncate of its objects is done.
pub(crate) fn check_no_unfinished_truncate(file: &FileBody, ino: InodeId) -> OpResult<()> {
    match file.truncating {
        None => Ok(()),
        Some(UnfinishedTruncate { number, .. }) => {
            Err(Prerequisite::Truncate(PurgeId { ino, number }).into())
        }
    }
}

/// Truncates the file to `to`. No truncate of its objects is unfinished.
///
/// A truncate to zero is one batch whatever the file's size: the file loses its layout, the objects are removed later, and the
/// next write creates objects of other generations. This is not possible while other sessions may have the file open, because
/// they would continue to read the old objects. In a truncate to another size, the objects are truncated to their lengths before
/// any session reads or writes again: otherwise old bytes would become visible when the file grows again.
pub(crate) fn truncate_file(
    view: &mut OpView,
    session: &RequestingSession,
    ino: InodeId,
    to: u64,
) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    let number = file.next_generation;
    let (mut drops_layout, mut unfinished) = (false, None);
    if to == 0 && session.is_only && !file.layout.is_empty() {
        drops_layout = true;
        purge::remove_objects(view, &inode, number, file.layout.clone());
    } else if needs_object_truncate(view, session.id, &inode, to)?
        && purge::truncate_objects(view, &inode, number, &file.layout, to)
    {
        unfinished = Some(UnfinishedTruncate { to, number });
    }
    let lease = RecordKey::write_lease(ino, session.id);
    // A lease holder of the old objects has nothing to report any more: its lease ends, and its next write acquires a new one.
    let ends_lease =
        drops_layout && file.write_leases > 0 && view.get::<WriteLease>(&lease)?.is_some();
    if ends_lease {
        view.remove(lease);
    }
    let now = view.now();
    view.change_file(ino, |inode, file| {
        inode.touch_mtime(now);
        // Until the objects are truncated, other sessions see the old size: those that have the layout can still read the bytes.
        if unfinished.is_none() {
            inode.size = to;
        }
        inode.data_version += 1;
        let keep = file
            .inline
            .len()
            .min(usize::try_from(to).unwrap_or(usize::MAX));
        file.inline.truncate(keep);
        if drops_layout {
            file.layout = Layout::default();
            file.next_generation = number + 1;
            file.write_leases -= u32::from(ends_lease);
            inode.blocks = 0;
        }
        if unfinished.is_some() {
            file.truncating = unfinished;
            file.next_generation = number + 1;
        }
    })
}

/// Whether objects may hold bytes beyond `to`. If `to` is the file's size, they may when the request comes from the lease holder:
/// an OST stored bytes beyond the end of file in a write that failed, and then failed to truncate them.
fn needs_object_truncate(
    view: &ReadView,
    session: SessionId,
    inode: &Inode,
    to: u64,
) -> OpResult<bool> {
    if to != inode.size || inode.file()?.write_leases == 0 {
        return Ok(to < inode.size);
    }
    let lease = RecordKey::write_lease(inode.ino, session);
    Ok(view.get::<WriteLease>(&lease)?.is_some())
}
