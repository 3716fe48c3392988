//! Attribute reports of lease holders about files that they write.

use crate::record::{FileBody, Inode};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::AttrReport;
use gupfs_proto::{FsError, Presence, Timestamp};

/// # Errors
/// `TooLarge`; `Malformed` for an object that is not in the layout.
pub(crate) fn check(file: &FileBody, report: &AttrReport) -> Result<(), FsError> {
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

/// Applies the report. Its values are absolute, so applying it twice has the same result.
pub(crate) fn apply(inode: &mut Inode, file: &mut FileBody, report: &AttrReport) {
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
        // A stale member lacks a write of another session, or an answered one of this session.
        if component.presence.get(*stripe as usize) != Presence::Stale {
            component.presence.set(*stripe as usize, Presence::Present);
        }
    }
}

/// Merges the report of one of several sessions that write the file: each knows its own writes. The file never becomes smaller while they
/// write it, since a truncate revokes their leases.
pub(crate) fn merge(inode: &mut Inode, file: &mut FileBody, report: &AttrReport, now: Timestamp) {
    let merged = AttrReport {
        size: report.size.max(inode.size),
        blocks: report.blocks.max(inode.blocks),
        mtime: report.mtime.map(|mtime| match inode.mtime > now {
            // A program has set it (utimensat(2)) to a time that is still to come: every write replaces that.
            true => mtime,
            false => mtime.max(inode.mtime),
        }),
        ..report.clone()
    };
    apply(inode, file, &merged);
}

/// Whether the session created an object that a power loss may discard.
pub(crate) fn has_new_unsynced_objects(file: &FileBody, report: &AttrReport) -> bool {
    report.unsynced.iter().any(|(component, stripe)| {
        let component = &file.layout.components[*component as usize];
        // Of a mirrored stripe the record says which bytes a power loss may make different at its members.
        component.is_mirrored() || component.presence.get(*stripe as usize) != Presence::Present
    })
}

/// Records that `Maybe` objects which the lease holder did not report do not exist. Of a mirrored stripe all full members exist or none.
pub(crate) fn mark_unreported_as_never(file: &mut FileBody, unsynced: &[(u32, u32)]) {
    for (number, component) in file.layout.components.iter_mut().enumerate() {
        for stripe in 0..component.stripes() {
            let is_absent = |index: usize| {
                let is_reported = unsynced.contains(&(number as u32, index as u32));
                component.presence.get(index) == Presence::Maybe && !is_reported
            };
            let members: Vec<usize> = component.full_members(stripe).collect();
            if members.iter().all(|index| is_absent(*index)) {
                let never = |index: usize| component.presence.set(index, Presence::Never);
                members.into_iter().for_each(never);
            }
        }
    }
}
