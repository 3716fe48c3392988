use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::record::{Unconfirmed, WriteLease, WriteLeaseMode};
use crate::steps::{attr_report, confirmation, truncation};
use crate::view::OpView;
use gupfs_proto::meta::{AttrReport, MetaReplyBody};
use gupfs_proto::{InodeId, SessionId};

/// The lease holder's attribute report: size, times, space, objects. With `keep_lease` the session keeps the write lease;
/// without, it releases the lease, and objects that it did not report do not exist (or an earlier lease holder reported them).
/// The reports of holders of concurrent leases are merged, and a background task finds out which objects exist after the last one.
///
/// An object that a power loss may still discard is not marked present: its loss would look like damage. It stays `Maybe` until a
/// background task has confirmed it.
pub(crate) fn end_write(
    view: &mut OpView,
    session: SessionId,
    ino: InodeId,
    report: &AttrReport,
    keep_lease: bool,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "end_write");
    let key = RecordKey::write_lease(ino, session);
    let lease = view.get::<WriteLease>(&key)?;
    let is_concurrent = lease.is_some_and(|lease| lease.mode == WriteLeaseMode::Concurrent);
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncation::check_no_unfinished_truncate(file, ino)?;
    attr_report::check(file, report)?;
    let last = file.write_leases <= 1;
    let mut has_unconfirmed = false;
    if !keep_lease {
        view.remove(key);
        // Objects that an earlier session left unconfirmed.
        has_unconfirmed = view
            .get::<Unconfirmed>(&RecordKey::unconfirmed(ino))?
            .is_some();
        if is_concurrent || attr_report::has_new_unsynced_objects(file, report) {
            confirmation::request_confirmation(view, ino);
        }
    }
    let now = view.now();
    view.change_file(ino, |inode, file| {
        match is_concurrent {
            true => attr_report::merge(inode, file, report, now),
            false => attr_report::apply(inode, file, report),
        }
        if !keep_lease {
            file.write_leases = file.write_leases.saturating_sub(1);
            if last && !has_unconfirmed && !is_concurrent {
                attr_report::mark_unreported_as_never(file, &report.unsynced);
            }
        }
    })?;
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}
