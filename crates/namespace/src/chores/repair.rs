use crate::check::Problem;
use crate::chores::{self, forget_orphan};
use crate::hash::name_hash;
use crate::key::{Key, KeyRange, Kind};
use crate::place::{self, Place};
use crate::record::{BackLink, Entry, Numbers};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::limits::CHORE_BATCH;
use gupfs_proto::{InodeId, Name, Refusal};

/// Mends one problem that `check` found, as it is now: what was mended meanwhile is left alone.
pub(crate) fn repair(view: &mut View, problem: &Problem) -> Outcome<()> {
    match problem {
        Problem::Dangling(key) => view.remove(key.clone()),
        Problem::EntryWithoutInode {
            dir,
            hash,
            name,
            ino,
        } => {
            if view.find_inode(*ino)?.is_none() {
                view.remove(Key::entry(*dir, *hash, name));
                view.change_dir(*dir, |_, dir| dir.entries = dir.entries.saturating_sub(1))?;
            }
        }
        Problem::WrongHash { dir, hash, name } => move_to_its_hash(view, *dir, *hash, name)?,
        Problem::WrongKind {
            dir,
            hash,
            name,
            actual,
            ..
        } => {
            let key = Key::entry(*dir, *hash, name);
            if let Some(entry) = view.get::<Entry>(&key)? {
                view.put(
                    key,
                    &Entry {
                        kind: *actual,
                        ..entry
                    },
                );
            }
        }
        Problem::InodeWithoutEntry { ino } => name_in_root(view, *ino)?,
        Problem::Leaked { ino } => forget_orphan::remove_all(view, *ino)?,
        Problem::WrongNames { ino, names, .. } => {
            view.change(*ino, |inode| inode.names = *names)?
        }
        Problem::WrongEntries {
            dir,
            entries,
            subdirs,
        } => view.change_dir(*dir, |_, dir| {
            dir.entries = *entries;
            dir.subdirs = *subdirs;
        })?,
        Problem::WrongUsers {
            ino,
            holders,
            writers,
        } => {
            view.change(*ino, |inode| {
                inode.holders = *holders;
                if let Ok(file) = inode.file_mut() {
                    file.writers = *writers;
                }
            })?;
        }
        Problem::WrongXattrs { ino, xattrs, names } => view.change(*ino, |inode| {
            inode.xattrs = *xattrs;
            inode.xattr_names = *names;
        })?,
        Problem::OrphanWithoutSession { ino, session } => chores::forget(view, *ino, *session)?,
        Problem::WrongUsage {
            shard,
            volume,
            found,
            ..
        } => view.put(Key::usage(*shard, *volume), found),
        Problem::NumberNotReserved { shard, largest, .. } => {
            view.put(Key::numbers(*shard), &Numbers { next: largest + 1 });
        }
        Problem::UnknownKey(_)
        | Problem::Undecodable { .. }
        | Problem::DirectoryWithTwoNames { .. }
        | Problem::WrongLinks { .. }
        | Problem::Loop { .. }
        | Problem::CutWithoutRecord { .. }
        | Problem::BadLayout { .. }
        | Problem::WriterWithoutSession { .. } => return Err(Refusal::NotSupported.into()),
    }
    Ok(())
}

/// The entry, and what points back to it, go where a lookup finds them. If that place is taken, the lost one goes.
fn move_to_its_hash(view: &mut View, dir: InodeId, hash: u64, name: &Name) -> Outcome<()> {
    let key = Key::entry(dir, hash, name);
    let Some(entry) = view.get::<Entry>(&key)? else {
        return Ok(());
    };
    let right = name_hash(view.inode(dir)?.directory()?.salt, name);
    let place = Key::entry(dir, right, name);
    view.remove(key);
    if view.get::<Entry>(&place)?.is_some() {
        return view.change_dir(dir, |_, dir| dir.entries = dir.entries.saturating_sub(1));
    }
    view.put(place, &entry);
    let back_link = Key::back_link(entry.ino, dir, hash, name);
    if view.get::<BackLink>(&back_link)?.is_some() {
        view.remove(back_link);
        view.put(Key::back_link(entry.ino, dir, right, name), &BackLink);
    }
    if view.find_inode(entry.ino)?.is_none() {
        return Ok(());
    }
    view.change(entry.ino, |inode| {
        if let Some(parent) = &mut inode.parent
            && parent.dir == dir
            && parent.hash == hash
        {
            parent.hash = right;
        }
    })
}

/// What nothing leads to gets a name in the root directory: "lost-" and its number.
fn name_in_root(view: &mut View, ino: InodeId) -> Outcome<()> {
    let name = Name::new(format!("lost-{:x}", ino.0).as_bytes())?;
    let place: Place = place::find(view, InodeId::ROOT, &name)?;
    place.must_be_free()?;
    // There may be as many as a file can have names.
    let links = view.scan(KeyRange::of_inode(ino, Kind::BackLink), CHORE_BATCH)?;
    let goes_on = links.len() == CHORE_BATCH;
    for (key, _) in links {
        view.remove(key);
    }
    if goes_on {
        view.goes_on();
        return Ok(());
    }
    view.change(ino, |inode| {
        inode.names = 0;
        inode.parent = None;
    })?;
    place::add_name(view, &place, ino)
}
