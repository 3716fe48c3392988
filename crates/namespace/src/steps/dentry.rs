//! Directory entries, and the bookkeeping that all changes of names share: entry, counts, back links, orphans.

use crate::driver::{FollowUp, OpResult};
use crate::hash::name_hash;
use crate::key::RecordKey;
use crate::permission;
use crate::record::{
    BackLink, DentryPosition, EntryRecord, Inode, InodeBody, Orphan, UNASKED_SESSIONS,
};
use crate::requester::RequestingSession;
use crate::view::{OpView, ReadView};
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Name};
use std::rc::Rc;

/// A looked-up name in a directory; without an entry it is a negative dentry.
pub(crate) struct Dentry {
    pub dir: InodeId,
    pub hash: u64,
    pub name: Name,
    pub entry: Option<EntryRecord>,
}

impl Dentry {
    fn key(&self) -> RecordKey {
        RecordKey::entry(self.dir, self.hash, &self.name)
    }

    fn position(&self) -> DentryPosition {
        DentryPosition {
            dir: self.dir,
            hash: self.hash,
        }
    }

    /// The entry; `NotFound` for a negative dentry.
    pub fn entry(&self) -> Result<EntryRecord, FsError> {
        self.entry.ok_or(FsError::NotFound)
    }

    pub fn check_negative(&self) -> Result<(), FsError> {
        match self.entry {
            None => Ok(()),
            Some(_) => Err(FsError::Exists),
        }
    }
}

/// Looks up a name as path resolution does: `dir` must be a directory that the caller may search.
pub(crate) fn lookup(
    view: &mut ReadView,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
) -> OpResult<Dentry> {
    let inode = view.inode(dir)?;
    let salt = inode.directory()?.salt;
    permission::check_search(&inode, caller)?;
    let mut dentry = Dentry {
        dir,
        hash: name_hash(salt, name),
        name: name.clone(),
        entry: None,
    };
    dentry.entry = view.get(&dentry.key())?;
    Ok(dentry)
}

/// Looks up a name that an operation is going to create: it must not exist, and the caller may create it in the directory.
pub(crate) fn lookup_for_create(
    view: &mut ReadView,
    caller: &Caller,
    dir: InodeId,
    name: &Name,
) -> OpResult<(Dentry, Rc<Inode>)> {
    let dentry = lookup(view, caller, dir, name)?;
    dentry.check_negative()?;
    let parent = view.inode(dir)?;
    permission::check_create(&parent, caller)?;
    Ok((dentry, parent))
}

/// The inode of an entry. A missing inode is damage, not a stale handle.
pub(crate) fn target_inode(view: &mut ReadView, entry: EntryRecord) -> OpResult<Rc<Inode>> {
    match view.find_inode(entry.ino)? {
        Some(inode) => Ok(inode),
        None => Err(FsError::StoreFailed(format!(
            "a directory entry refers to inode {:x}, which does not exist: run gupfs check",
            entry.ino.0
        ))
        .into()),
    }
}

/// Adds the first name of a new inode.
pub(crate) fn add_first_name(
    view: &mut OpView,
    dentry: &Dentry,
    inode: &mut Inode,
) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "add_first_name");
    inode.names = 1;
    inode.parent = Some(dentry.position());
    add_entry(view, dentry, inode.ino, inode.kind)
}

/// Adds one more name to an inode.
pub(crate) fn add_name(view: &mut OpView, dentry: &Dentry, ino: InodeId) -> OpResult<()> {
    let kind = view.inode(ino)?.kind;
    let back_link = RecordKey::back_link(ino, dentry.dir, dentry.hash, &dentry.name);
    let first = view.change(ino, |inode| {
        inode.names += 1;
        let first = inode.parent.is_none();
        inode.parent.get_or_insert(dentry.position());
        first
    })?;
    if !first {
        view.put(back_link, &BackLink);
    }
    add_entry(view, dentry, ino, kind)
}

/// Removes a name of the inode; `Ok(true)` if it was the last one. The inode is then an orphan of the requesting session, and of
/// the other sessions that have it open: it is kept for them until all were asked. (Only regular files are open at other
/// clients.)
pub(crate) fn remove_name(
    view: &mut OpView,
    session: &RequestingSession,
    dentry: &Dentry,
    victim: InodeId,
) -> OpResult<bool> {
    copy_default_layout(view, dentry, victim)?;
    remove_link(view, dentry, victim)?;
    let now = view.now();
    let (orphan, is_open_elsewhere) = view.change(victim, |inode| {
        inode.touch_ctime(now);
        let orphan = inode.names == 0;
        let is_open_elsewhere = orphan && !session.is_only && inode.kind == FileKind::Regular;
        inode.orphan_records += u32::from(orphan) + u32::from(is_open_elsewhere);
        (orphan, is_open_elsewhere)
    })?;
    if orphan {
        view.put(
            RecordKey::orphan(victim, session.id),
            &Orphan { since: now },
        );
    }
    if is_open_elsewhere {
        view.put(
            RecordKey::orphan(victim, UNASKED_SESSIONS),
            &Orphan { since: now },
        );
        view.add_follow_up(FollowUp::FindOpeners {
            ino: victim,
            by: session.id,
        });
    }
    Ok(orphan)
}

/// Moves an inode's name; `to` does not exist. The moved inode's ctime changes, as on most file systems.
pub(crate) fn move_name(
    view: &mut OpView,
    from: &Dentry,
    to: &Dentry,
    ino: InodeId,
) -> OpResult<()> {
    remove_link(view, from, ino)?;
    add_name(view, to, ino)?;
    let now = view.now();
    view.change(ino, |inode| inode.touch_ctime(now))
}

/// Exchanges the inodes of two names.
pub(crate) fn exchange_names(
    view: &mut OpView,
    one: &Dentry,
    first: InodeId,
    other: &Dentry,
    second: InodeId,
) -> OpResult<()> {
    remove_link(view, one, first)?;
    remove_link(view, other, second)?;
    add_name(view, other, first)?;
    add_name(view, one, second)?;
    let now = view.now();
    view.change(first, |inode| inode.touch_ctime(now))?;
    view.change(second, |inode| inode.touch_ctime(now))
}

/// Removes the entry and the inode's link to it.
fn remove_link(view: &mut OpView, dentry: &Dentry, ino: InodeId) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let back_link = RecordKey::back_link(ino, dentry.dir, dentry.hash, &dentry.name);
    // The back link is checked first: two names of one inode in one directory may have equal hashes, and only the back link
    // distinguishes them. An inode with only its first name has no back links, so the usual unlink reads none.
    let only_first = inode.names == 1 && inode.parent.is_some();
    if !only_first && view.get::<BackLink>(&back_link)?.is_some() {
        view.remove(back_link);
        view.change(ino, |inode| inode.names -= 1)?;
    } else {
        view.change(ino, |inode| {
            inode.names -= 1;
            inode.parent = None;
        })?;
    }
    remove_entry(view, dentry, inode.kind)
}

/// A file whose first name is removed can no longer find its directory's default layout. It gets a copy: other names or open descriptors may
/// remain, through which the file is truncated to nothing and then needs a new layout.
fn copy_default_layout(view: &mut OpView, removed: &Dentry, ino: InodeId) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let InodeBody::File(file) = &inode.body else {
        return Ok(());
    };
    if inode.parent != Some(removed.position()) || file.default_layout.is_some() {
        return Ok(());
    }
    let layout = view.inode(removed.dir)?.directory()?.layout_of_new_files();
    if layout.is_some() {
        view.change_file(ino, |_, file| file.default_layout = layout)?;
    }
    Ok(())
}

fn add_entry(view: &mut OpView, dentry: &Dentry, ino: InodeId, kind: FileKind) -> OpResult<()> {
    let now = view.now();
    view.put(
        dentry.key(),
        &EntryRecord {
            ino,
            kind,
            birth_snapshot: 0,
        },
    );
    view.change_dir(dentry.dir, |inode, dir| {
        inode.touch_mtime(now);
        dir.entries += 1;
        dir.subdirs += u32::from(kind == FileKind::Directory);
    })
}

fn remove_entry(view: &mut OpView, dentry: &Dentry, kind: FileKind) -> OpResult<()> {
    let now = view.now();
    view.remove(dentry.key());
    view.change_dir(dentry.dir, |inode, dir| {
        inode.touch_mtime(now);
        // A count that is too low is damage for `gupfs check`; it must not take the server down.
        dir.entries = dir.entries.saturating_sub(1);
        dir.subdirs = dir
            .subdirs
            .saturating_sub(u32::from(kind == FileKind::Directory));
    })
}
