//! Recording that a session has a write lease.

use crate::driver::{FollowUp, OpResult};
use crate::key::RecordKey;
use crate::record::{WriteLease, WriteLeaseMode};
use crate::steps::{stale_members, write_lease};
use crate::view::OpView;
use gupfs_proto::{InodeId, Layout, Presence, SessionId};

/// A write lease for a session, and the file's layout.
pub(crate) struct LeaseGrant {
    pub mode: WriteLeaseMode,
    pub layout: Layout,
    /// The record must be durable before the first object exists.
    pub must_be_durable: bool,
}

/// Records the lease. Every object may exist from now on, whatever happens to the session.
pub(crate) fn grant(
    view: &mut OpView,
    session: SessionId,
    ino: InodeId,
    grant: LeaseGrant,
) -> OpResult<()> {
    let LeaseGrant {
        mode,
        mut layout,
        must_be_durable,
    } = grant;
    let recorded = write_lease::mode_of(view, session, ino)?;
    let has_new_maybe = mark_never_as_maybe(&mut layout);
    let is_other_layout = layout != view.inode(ino)?.file()?.layout;
    if recorded.is_none() || has_new_maybe || is_other_layout {
        view.check_growth_allowed()?;
        if must_be_durable {
            view.add_follow_up(FollowUp::AwaitDurable);
        }
        let has_stale_member = layout.has_stale_member();
        view.change_file(ino, |inode, file| {
            let generations = layout
                .components
                .iter()
                .map(|component| component.generation.0 + 1);
            file.next_generation = generations.fold(file.next_generation, u32::max);
            file.layout = layout;
            file.write_leases += u32::from(recorded.is_none());
            inode.data_version += 1;
        })?;
        if has_stale_member {
            stale_members::request_resync(view, ino);
        }
    }
    if recorded != Some(mode) {
        put(view, session, ino, mode);
    }
    Ok(())
}

/// Records the mode of a session's lease.
pub(crate) fn put(view: &mut OpView, session: SessionId, ino: InodeId, mode: WriteLeaseMode) {
    let since = view.now();
    view.put(
        RecordKey::write_lease(ino, session),
        &WriteLease { since, mode },
    );
}

/// Marks every object that is known not to exist as one that may exist; returns whether there was one.
fn mark_never_as_maybe(layout: &mut Layout) -> bool {
    let mut has_new_maybe = false;
    for component in &mut layout.components {
        for stripe in 0..component.targets.len() {
            if component.presence.get(stripe) == Presence::Never {
                component.presence.set(stripe, Presence::Maybe);
                has_new_maybe = true;
            }
        }
    }
    has_new_maybe
}
