//! A name in a directory, and the bookkeeping that every change of names shares: entry, counts, links, orphans.

use crate::hash::name_hash;
use crate::held::NOT_ASKED;
use crate::key::Key;
use crate::may;
use crate::record::{BackLink, Body, Entry, Inode, Link, Orphan};
use crate::step::{Outcome, Work};
use crate::view::View;
use gupfs_proto::{FileKind, InodeId, Name, Refusal};
use std::rc::Rc;

/// Where a name stands, and what stood there when it was looked up.
pub(crate) struct Place {
    pub dir: InodeId,
    pub hash: u64,
    pub name: Name,
    pub entry: Option<Entry>,
}

impl Place {
    fn key(&self) -> Key {
        Key::entry(self.dir, self.hash, &self.name)
    }

    fn link(&self) -> Link {
        Link {
            dir: self.dir,
            hash: self.hash,
        }
    }

    /// What the name refers to.
    pub fn entry(&self) -> Result<Entry, Refusal> {
        self.entry.ok_or(Refusal::NotFound)
    }

    pub fn must_be_free(&self) -> Result<(), Refusal> {
        match self.entry {
            None => Ok(()),
            Some(_) => Err(Refusal::Exists),
        }
    }
}

/// Looks a name up, as path resolution does: the directory must be one and be searchable.
pub(crate) fn find(view: &mut View, dir: InodeId, name: &Name) -> Outcome<Place> {
    let inode = view.inode(dir)?;
    let salt = inode.directory()?.salt;
    may::search(&inode, view.ctx.caller)?;
    let mut place = Place {
        dir,
        hash: name_hash(salt, name),
        name: name.clone(),
        entry: None,
    };
    place.entry = view.get(&place.key())?;
    Ok(place)
}

/// A place where a new name is to be made: free, in a directory that takes it.
pub(crate) fn find_free(view: &mut View, dir: InodeId, name: &Name) -> Outcome<(Place, Rc<Inode>)> {
    let place = find(view, dir, name)?;
    place.must_be_free()?;
    let parent = view.inode(dir)?;
    may::create_in(&parent, view.ctx.caller)?;
    Ok((place, parent))
}

/// The inode that an entry names. An entry without one is damage, not a stale handle.
pub(crate) fn target(view: &mut View, entry: Entry) -> Outcome<Rc<Inode>> {
    match view.find_inode(entry.ino)? {
        Some(inode) => Ok(inode),
        None => Err(Refusal::StoreFailed(format!(
            "an entry names inode {:x}, which is not there: run gupfs check",
            entry.ino.0
        ))
        .into()),
    }
}

/// Makes a new inode's first name.
pub(crate) fn add_first(view: &mut View, place: &Place, inode: &mut Inode) -> Outcome<()> {
    inode.names = 1;
    inode.parent = Some(place.link());
    add_entry(view, place, inode.ino, inode.kind)
}

/// Gives an inode one more name.
pub(crate) fn add_name(view: &mut View, place: &Place, ino: InodeId) -> Outcome<()> {
    let kind = view.inode(ino)?.kind;
    let back_link = Key::back_link(ino, place.dir, place.hash, &place.name);
    let first = view.change(ino, |inode| {
        inode.names += 1;
        let first = inode.parent.is_none();
        inode.parent.get_or_insert(place.link());
        first
    })?;
    if !first {
        view.put(back_link, &BackLink);
    }
    add_entry(view, place, ino, kind)
}

/// Takes the name from the inode; `Ok(true)` if that was its last: it is the asking session's orphan now, and of whoever else
/// has it open: until all were asked, it is kept for them. (What is no regular file nobody has open with a client.)
pub(crate) fn remove_name(view: &mut View, place: &Place, victim: InodeId) -> Outcome<bool> {
    detach(view, place, victim)?;
    let (now, session) = (view.ctx.now, view.ctx.session);
    let alone = view.ctx.alone;
    let (orphan, asked) = view.change(victim, |inode| {
        inode.touch(now);
        let orphan = inode.names == 0;
        let asked = orphan && !alone && inode.kind == FileKind::Regular;
        inode.holders += u32::from(orphan) + u32::from(asked);
        (orphan, asked)
    })?;
    if orphan {
        view.put(Key::orphan(victim, session), &Orphan { since: now });
    }
    if asked {
        view.put(Key::orphan(victim, NOT_ASKED), &Orphan { since: now });
        view.work(Work::AskEverybody {
            ino: victim,
            by: session,
        });
    }
    Ok(orphan)
}

/// Moves an inode's name; `to` is free. The moved inode's status changes, as on most file systems.
pub(crate) fn move_name(view: &mut View, from: &Place, to: &Place, ino: InodeId) -> Outcome<()> {
    detach(view, from, ino)?;
    add_name(view, to, ino)?;
    let now = view.ctx.now;
    view.change(ino, |inode| inode.touch(now))
}

/// Swaps what two names refer to.
pub(crate) fn exchange_names(
    view: &mut View,
    one: &Place,
    first: InodeId,
    other: &Place,
    second: InodeId,
) -> Outcome<()> {
    detach(view, one, first)?;
    detach(view, other, second)?;
    add_name(view, other, first)?;
    add_name(view, one, second)?;
    let now = view.ctx.now;
    view.change(first, |inode| inode.touch(now))?;
    view.change(second, |inode| inode.touch(now))
}

/// Takes the entry and the link behind it away.
fn detach(view: &mut View, place: &Place, ino: InodeId) -> Outcome<()> {
    let inode = view.inode(ino)?;
    let back_link = Key::back_link(ino, place.dir, place.hash, &place.name);
    // Asked first: two names of one inode in one directory may have equal hashes, and only the back link tells them apart.
    // An inode with its first name only has no back links, so the usual unlink does not look.
    let only_first = inode.names == 1 && inode.parent.is_some();
    if !only_first && view.get::<BackLink>(&back_link)?.is_some() {
        view.remove(back_link);
        view.change(ino, |inode| inode.names -= 1)?;
    } else {
        keep_rule(view, place.dir, &inode)?;
        view.change(ino, |inode| {
            inode.names -= 1;
            inode.parent = None;
        })?;
    }
    remove_entry(view, place, inode.kind)
}

/// A file that loses its first name and keeps others no longer finds its directory's layout rule: it takes it along.
fn keep_rule(view: &mut View, dir: InodeId, inode: &Inode) -> Outcome<()> {
    let Body::File(file) = &inode.body else {
        return Ok(());
    };
    if inode.names == 1 || file.rule.is_some() || !file.layout.is_empty() {
        return Ok(());
    }
    let rule = view
        .inode(dir)?
        .directory()?
        .rule
        .as_ref()
        .map(|ruled| ruled.rule.clone());
    if rule.is_some() {
        view.change_file(inode.ino, |_, file| file.rule = rule)?;
    }
    Ok(())
}

fn add_entry(view: &mut View, place: &Place, ino: InodeId, kind: FileKind) -> Outcome<()> {
    let now = view.ctx.now;
    view.put(place.key(), &Entry { ino, kind, born: 0 });
    view.change_dir(place.dir, |inode, dir| {
        inode.touch_contents(now);
        dir.entries += 1;
        dir.subdirs += u32::from(kind == FileKind::Directory);
    })
}

fn remove_entry(view: &mut View, place: &Place, kind: FileKind) -> Outcome<()> {
    let now = view.ctx.now;
    view.remove(place.key());
    view.change_dir(place.dir, |inode, dir| {
        inode.touch_contents(now);
        // A count that is too low is damage for `gupfs check`; it must not take the server down.
        dir.entries = dir.entries.saturating_sub(1);
        dir.subdirs = dir
            .subdirs
            .saturating_sub(u32::from(kind == FileKind::Directory));
    })
}
