//! Stale members of mirrored stripes: a background task brings them up to date. A `Y` record requests it.

use crate::driver::{FollowUp, OpResult};
use crate::key::RecordKey;
use crate::record::StaleMembers;
use crate::view::OpView;
use gupfs_proto::meta::PlacementTarget;
use gupfs_proto::{FsError, InodeId, Layout, OstId};

/// Marks members of the file's stripes as stale, given as (component, object index). The record must survive a power loss: later writes are
/// answered without these members.
///
/// # Errors
/// `Invalid` for an object that is the last full member of its stripe; nothing has changed then.
pub(crate) fn mark(view: &mut OpView, ino: InodeId, objects: &[(u32, u32)]) -> OpResult<()> {
    let mut layout = view.inode(ino)?.file()?.layout.clone();
    let mut has_new = false;
    for (component, index) in objects {
        let component = layout.components.get_mut(*component as usize);
        let component = component.ok_or(FsError::Invalid)?;
        has_new |= component.mark_stale(*index as usize)?;
    }
    if has_new {
        view.change_file(ino, |inode, file| {
            file.layout = layout;
            inode.data_version += 1;
        })?;
        request_resync(view, ino);
    }
    // Also when an earlier batch has marked them.
    view.add_follow_up(FollowUp::AwaitDurable);
    Ok(())
}

/// Marks the members whose targets are not up, where another member's target is.
pub(crate) fn mark_members_down(layout: &mut Layout, targets: &[PlacementTarget]) -> bool {
    let is_up = |ost: OstId| {
        targets
            .iter()
            .any(|target| target.ost == ost && target.is_up)
    };
    let mut has_new = false;
    for component in &mut layout.components {
        if !component.is_mirrored() {
            continue;
        }
        for stripe in 0..component.stripes() {
            let (up, down): (Vec<usize>, Vec<usize>) = (component.full_members(stripe))
                .partition(|index| is_up(component.targets[*index]));
            if !up.is_empty() {
                for index in down {
                    // It has a full member: one that is up.
                    has_new |= component.mark_stale(index).is_ok();
                }
            }
        }
    }
    has_new
}

/// Records that a background task must bring members of this file up to date.
pub(crate) fn request_resync(view: &mut OpView, ino: InodeId) {
    let since = view.now();
    view.put(RecordKey::stale_members(ino), &StaleMembers { since });
    view.add_follow_up(FollowUp::Resync(ino));
}

/// The file does not use these objects any more.
pub(crate) fn forget(view: &mut OpView, ino: InodeId, layout: &Layout) {
    if layout.has_stale_member() {
        view.remove(RecordKey::stale_members(ino));
    }
}
