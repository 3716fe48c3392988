use super::expect_confirmation;
use crate::key::Key;
use crate::purge;
use crate::record::Writer;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::data::ObjectStat;
use gupfs_proto::{InodeId, Layout, Presence, SessionId};

/// A writer is gone without a last word: the objects say what it wrote. Its right to write ends in the same batch. What it made
/// and did not sync is confirmed later: a start does not wait for disks.
///
/// Inline bytes beside a layout are a file whose move into objects did not end: the inline bytes are the file, because the
/// record that forgets them is written after the objects are safe, and the objects go.
pub(crate) fn recover_writer(
    view: &mut View,
    ino: InodeId,
    session: SessionId,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> Outcome<()> {
    let writer = Key::writer(ino, session);
    if view.get::<Writer>(&writer)?.is_none() {
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
            file.writers = file.writers.saturating_sub(1);
            file.layout = Layout::default();
            file.next_generation = number + 1;
            inode.blocks = 0;
        });
    }
    objects_say(view, ino, found, 1)
}

/// The record is of an older copy of the store, and the objects know more: the file is as they say. One that somebody writes is
/// told of by its writer.
pub(crate) fn as_found(
    view: &mut View,
    ino: InodeId,
    found: &[(u32, u32, Option<ObjectStat>)],
) -> Outcome<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let file = inode.file()?;
    if file.writers > 0 || file.cutting.is_some() || !file.inline.is_empty() {
        return Ok(());
    }
    objects_say(view, ino, found, 0)
}

fn objects_say(
    view: &mut View,
    ino: InodeId,
    found: &[(u32, u32, Option<ObjectStat>)],
    writers_gone: u32,
) -> Outcome<()> {
    let mut in_doubt = false;
    view.change_file(ino, |inode, file| {
        file.writers = file.writers.saturating_sub(writers_gone);
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
                // Nobody has made it, unless another writer does just now; one that was there and is not stays known as
                // lost.
                None if component.presence.get(stripe) == Presence::Maybe && file.writers == 0 => {
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
        expect_confirmation(view, ino);
    }
    Ok(())
}
