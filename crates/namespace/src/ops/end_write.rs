use crate::confirmation;
use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::ops::truncate;
use crate::record::{FileBody, Inode, Unconfirmed};
use crate::view::OpView;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{AttrReport, MetaReplyBody};
use gupfs_proto::{FsError, InodeId, Presence};

/// The lease holder's attribute report: size, times, space, objects. With `keep_lease` the session keeps the write lease;
/// without, it releases the lease, and objects that it did not report do not exist (or an earlier lease holder reported them).
///
/// An object that a power loss may still discard is not marked present: its loss would look like damage. It stays `Maybe` until a
/// background task has confirmed it.
pub(crate) fn end_write(
    view: &mut OpView,
    ino: InodeId,
    report: &AttrReport,
    keep_lease: bool,
) -> OpResult<MetaReplyBody> {
    let lease = RecordKey::write_lease(ino, view.ctx.session);
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncate::check_no_unfinished_truncate(file, ino)?;
    check_report(file, report)?;
    let last = file.write_leases <= 1;
    let mut has_unconfirmed = false;
    if !keep_lease {
        view.remove(lease);
        // Objects that an earlier session left unconfirmed.
        has_unconfirmed = view
            .get::<Unconfirmed>(&RecordKey::unconfirmed(ino))?
            .is_some();
        if has_new_unsynced_objects(file, report) {
            confirmation::request_confirmation(view, ino);
        }
    }
    view.change_file(ino, |inode, file| {
        apply_report(inode, file, report);
        if !keep_lease {
            file.write_leases = file.write_leases.saturating_sub(1);
            if last && !has_unconfirmed {
                mark_unreported_as_never(file, &report.unsynced);
            }
        }
    })?;
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

pub(crate) fn check_report(file: &FileBody, report: &AttrReport) -> Result<(), FsError> {
    if report.size > FILE_SIZE_MAX {
        return Err(FsError::TooLarge);
    }
    let known = |(component, stripe): &(u32, u32)| {
        let component = file.layout.components.get(*component as usize);
        component.is_some_and(|component| (*stripe as usize) < component.targets.len())
    };
    if report.present.iter().chain(&report.unsynced).all(known) {
        Ok(())
    } else {
        Err(FsError::Malformed(
            "the report has an object that is not in the layout".into(),
        ))
    }
}

/// Applies an attribute report. Its values are absolute, so applying it twice has the same result.
pub(crate) fn apply_report(inode: &mut Inode, file: &mut FileBody, report: &AttrReport) {
    inode.size = report.size;
    inode.blocks = report.blocks;
    if let Some(mtime) = report.mtime {
        inode.mtime = mtime;
        inode.ctime = inode.ctime.max(mtime);
        inode.data_version += 1;
    }
    if let Some(atime) = report.atime {
        inode.atime = atime;
    }
    for (component, stripe) in &report.present {
        let component = &mut file.layout.components[*component as usize];
        component.presence.set(*stripe as usize, Presence::Present);
    }
}

/// Whether the session created an object that a power loss may discard.
fn has_new_unsynced_objects(file: &FileBody, report: &AttrReport) -> bool {
    report.unsynced.iter().any(|(component, stripe)| {
        let component = &file.layout.components[*component as usize];
        component.presence.get(*stripe as usize) != Presence::Present
    })
}

fn mark_unreported_as_never(file: &mut FileBody, unsynced: &[(u32, u32)]) {
    for (index, component) in file.layout.components.iter_mut().enumerate() {
        for stripe in 0..component.targets.len() {
            let is_reported = unsynced.contains(&(index as u32, stripe as u32));
            if component.presence.get(stripe) == Presence::Maybe && !is_reported {
                component.presence.set(stripe, Presence::Never);
            }
        }
    }
}
