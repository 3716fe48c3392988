use crate::confirmation;
use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::purge;
use crate::record::WriteLease;
use crate::view::OpView;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{InodeId, Layout, Presence, SessionId};

/// A lease holder has ended without a final attribute report: size and times come from the objects. The same batch removes its
/// write lease. Objects that it created and did not sync are confirmed later: a start does not wait for disks.
///
/// A file with inline bytes and a layout was not spilled completely: the inline bytes are the file, because the record without
/// them is written only after the objects are durable, and the objects are removed.
pub(crate) fn recover_write_lease(
    view: &mut OpView,
    ino: InodeId,
    session: SessionId,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> OpResult<()> {
    let writer = RecordKey::write_lease(ino, session);
    if view.get::<WriteLease>(&writer)?.is_none() {
        return Ok(());
    }
    view.remove(writer);
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    if !file.inline.is_empty() && !file.layout.is_empty() {
        let number = file.next_generation;
        purge::remove_objects(view, &inode, number, file.layout.clone());
        return view.change_file(ino, |inode, file| {
            file.write_leases = file.write_leases.saturating_sub(1);
            file.layout = Layout::default();
            file.next_generation = number + 1;
            inode.blocks = 0;
        });
    }
    apply_object_stats(view, ino, found, 1)
}

/// The record is from an older copy of the store, and the objects are newer: size and times come from the objects. A file with a
/// write lease is skipped: its holder will report.
pub(crate) fn update_from_objects(
    view: &mut OpView,
    ino: InodeId,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> OpResult<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    if file.write_leases > 0 || file.truncating.is_some() || !file.inline.is_empty() {
        return Ok(());
    }
    apply_object_stats(view, ino, found, 0)
}

fn apply_object_stats(
    view: &mut OpView,
    ino: InodeId,
    found: &[(u32, u32, Option<ObjectStat>)],
    writers_gone: u32,
) -> OpResult<()> {
    let mut in_doubt = false;
    view.change_file(ino, |inode, file| {
        file.write_leases = file.write_leases.saturating_sub(writers_gone);
        for (component, stripe, stat) in found {
            let Some(component) = file.layout.components.get_mut(*component as usize) else {
                continue;
            };
            let stripe = *stripe as usize;
            match stat {
                Some(stat) => {
                    if component.presence.get(stripe) != Presence::Present {
                        component.presence.set(stripe, Presence::Maybe);
                        in_doubt = true;
                    }
                    inode.size = inode.size.max(component.file_size(stripe, stat.size));
                    if stat.mtime > inode.ctime {
                        inode.mtime = stat.mtime;
                        inode.ctime = stat.mtime;
                    }
                }
                // The object was never created, unless another lease holder is creating it now. An object that was present and is
                // missing stays `Present`, so that reads report it as lost.
                None if component.presence.get(stripe) == Presence::Maybe
                    && file.write_leases == 0 =>
                {
                    component.presence.set(stripe, Presence::Never);
                }
                None => {}
            }
        }
        inode.blocks = found
            .iter()
            .filter_map(|(.., stat)| *stat)
            .map(|stat| stat.blocks)
            .sum();
        inode.data_version += 1;
    })?;
    if in_doubt {
        confirmation::request_confirmation(view, ino);
    }
    Ok(())
}
