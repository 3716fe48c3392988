use crate::chores;
use crate::key::Key;
use crate::ops::truncate;
use crate::record::{File, Inode, Unconfirmed};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{Answer, Written};
use gupfs_proto::{InodeId, Presence, Refusal};

/// What the session wrote: size, times, space, objects. With `keep` it goes on writing; without, the file is nobody's, and
/// objects that it did not report do not exist (or whoever wrote them before reported them).
///
/// An object that a power cut may still take is not called present: its loss would look like damage. It stays in doubt until
/// a chore has confirmed it.
pub(crate) fn end_write(
    view: &mut View,
    ino: InodeId,
    written: &Written,
    keep: bool,
) -> Outcome<Answer> {
    let writer = Key::writer(ino, view.ctx.session);
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncate::must_not_be_cutting(file, ino)?;
    check(file, written)?;
    let last = file.writers <= 1;
    let mut others_in_doubt = false;
    if !keep {
        view.remove(writer);
        // Another session's, that ended before and did not say which.
        others_in_doubt = view.get::<Unconfirmed>(&Key::unconfirmed(ino))?.is_some();
        if may_vanish(file, written) {
            chores::expect_confirmation(view, ino);
        }
    }
    view.change_file(ino, |inode, file| {
        believe(inode, file, written);
        if !keep {
            file.writers = file.writers.saturating_sub(1);
            if last && !others_in_doubt {
                forget_unmade(file, &written.unsynced);
            }
        }
    })?;
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}

pub(crate) fn check(file: &File, written: &Written) -> Result<(), Refusal> {
    if written.size > FILE_SIZE_MAX {
        return Err(Refusal::TooLarge);
    }
    let known = |(component, stripe): &(u32, u32)| {
        let component = file.layout.components.get(*component as usize);
        component.is_some_and(|component| (*stripe as usize) < component.targets.len())
    };
    if written.present.iter().chain(&written.unsynced).all(known) {
        Ok(())
    } else {
        Err(Refusal::Malformed(
            "an object that the layout does not have".into(),
        ))
    }
}

/// The session's word is absolute: said twice it changes nothing more.
pub(crate) fn believe(inode: &mut Inode, file: &mut File, written: &Written) {
    inode.size = written.size;
    inode.blocks = written.blocks;
    if let Some(mtime) = written.mtime {
        inode.mtime = mtime;
        inode.ctime = inode.ctime.max(mtime);
        inode.data_version += 1;
    }
    if let Some(atime) = written.atime {
        inode.atime = atime;
    }
    for (component, stripe) in &written.present {
        let component = &mut file.layout.components[*component as usize];
        component.presence.set(*stripe as usize, Presence::Present);
    }
}

/// Whether it made an object that a power cut may leave nothing of.
fn may_vanish(file: &File, written: &Written) -> bool {
    written.unsynced.iter().any(|(component, stripe)| {
        let component = &file.layout.components[*component as usize];
        component.presence.get(*stripe as usize) != Presence::Present
    })
}

fn forget_unmade(file: &mut File, unsynced: &[(u32, u32)]) {
    for (index, component) in file.layout.components.iter_mut().enumerate() {
        for stripe in 0..component.targets.len() {
            let is_there = unsynced.contains(&(index as u32, stripe as u32));
            if component.presence.get(stripe) == Presence::Maybe && !is_there {
                component.presence.set(stripe, Presence::Never);
            }
        }
    }
}
