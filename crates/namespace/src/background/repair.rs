use crate::check::Problem;
use crate::driver::OpResult;
use crate::hash::name_hash;
use crate::key::{KeyRange, RecordKey, RecordKind};
use crate::record::{BackLink, EntryRecord, InodeCounter};
use crate::steps::dentry::{self, Dentry};
use crate::steps::orphan;
use crate::view::OpView;
use gupfs_proto::limits::BACKGROUND_BATCH;
use gupfs_proto::{Caller, FileKind, FsError, InodeId, Name};

/// Repairs one problem that `check` found, if it still exists.
pub(crate) fn repair(view: &mut OpView, caller: &Caller, problem: &Problem) -> OpResult<()> {
    match problem {
        Problem::Dangling(key) => view.remove(key.clone()),
        Problem::EntryWithoutInode {
            dir,
            hash,
            name,
            ino,
        } => remove_entry_without_inode(view, *dir, *hash, name, *ino)?,
        Problem::WrongHash { dir, hash, name } => move_to_correct_hash(view, *dir, *hash, name)?,
        Problem::WrongKind {
            dir,
            hash,
            name,
            actual,
            ..
        } => correct_kind(view, RecordKey::entry(*dir, *hash, name), *actual)?,
        Problem::InodeWithoutEntry { ino } => link_in_root(view, caller, *ino)?,
        Problem::Leaked { ino } => orphan::remove_inode_records(view, *ino)?,
        Problem::WrongNames { .. }
        | Problem::WrongEntries { .. }
        | Problem::WrongUsers { .. }
        | Problem::WrongXattrs { .. } => correct_counts(view, problem)?,
        Problem::OrphanWithoutSession { ino, session } => {
            orphan::forget_orphan(view, *ino, *session)?
        }
        Problem::WrongUsage {
            shard,
            volume,
            actual,
            ..
        } => view.put(RecordKey::usage(*shard, *volume), actual),
        Problem::NumberNotReserved { shard, largest, .. } => {
            let next = largest + 1;
            view.put(RecordKey::inode_counter(*shard), &InodeCounter { next });
        }
        Problem::UnknownKey(_)
        | Problem::Undecodable { .. }
        | Problem::DirectoryWithTwoNames { .. }
        | Problem::WrongLinks { .. }
        | Problem::Loop { .. }
        | Problem::CutWithoutRecord { .. }
        | Problem::BadLayout { .. }
        | Problem::WriterWithoutSession { .. } => return Err(FsError::NotSupported.into()),
    }
    Ok(())
}

fn remove_entry_without_inode(
    view: &mut OpView,
    dir: InodeId,
    hash: u64,
    name: &Name,
    ino: InodeId,
) -> OpResult<()> {
    if view.find_inode(ino)?.is_none() {
        view.remove(RecordKey::entry(dir, hash, name));
        view.change_dir(dir, |_, dir| dir.entries = dir.entries.saturating_sub(1))?;
    }
    Ok(())
}

fn correct_kind(view: &mut OpView, key: RecordKey, kind: FileKind) -> OpResult<()> {
    if let Some(entry) = view.get::<EntryRecord>(&key)? {
        view.put(key, &EntryRecord { kind, ..entry });
    }
    Ok(())
}

/// Sets the counts in an inode's record to the numbers of its other records.
fn correct_counts(view: &mut OpView, problem: &Problem) -> OpResult<()> {
    match *problem {
        Problem::WrongNames { ino, names, .. } => view.change(ino, |inode| inode.names = names),
        Problem::WrongEntries {
            dir,
            entries,
            subdirs,
        } => view.change_dir(dir, |_, dir| {
            (dir.entries, dir.subdirs) = (entries, subdirs)
        }),
        Problem::WrongUsers {
            ino,
            orphan_records,
            write_leases,
        } => view.change(ino, |inode| {
            inode.orphan_records = orphan_records;
            if let Ok(file) = inode.file_mut() {
                file.write_leases = write_leases;
            }
        }),
        Problem::WrongXattrs { ino, xattrs, names } => view.change(ino, |inode| {
            inode.xattrs = xattrs;
            inode.xattr_names = names;
        }),
        ref other => unreachable!("{other:?} is not a wrong count of an inode"),
    }
}

/// Moves the entry and its back link to the correct hash, where lookups find them. If that key has an entry, removes the
/// misplaced one.
fn move_to_correct_hash(view: &mut OpView, dir: InodeId, hash: u64, name: &Name) -> OpResult<()> {
    let key = RecordKey::entry(dir, hash, name);
    let Some(entry) = view.get::<EntryRecord>(&key)? else {
        return Ok(());
    };
    let correct_hash = name_hash(view.inode(dir)?.directory()?.salt, name);
    let correct_key = RecordKey::entry(dir, correct_hash, name);
    view.remove(key);
    if view.get::<EntryRecord>(&correct_key)?.is_some() {
        return view.change_dir(dir, |_, dir| dir.entries = dir.entries.saturating_sub(1));
    }
    view.put(correct_key, &entry);
    let back_link = RecordKey::back_link(entry.ino, dir, hash, name);
    if view.get::<BackLink>(&back_link)?.is_some() {
        view.remove(back_link);
        view.put(
            RecordKey::back_link(entry.ino, dir, correct_hash, name),
            &BackLink,
        );
    }
    if view.find_inode(entry.ino)?.is_none() {
        return Ok(());
    }
    view.change(entry.ino, |inode| {
        if let Some(parent) = &mut inode.parent
            && parent.dir == dir
            && parent.hash == hash
        {
            parent.hash = correct_hash;
        }
    })
}

/// Links an inode without a name in the root directory: "lost-" and its number.
fn link_in_root(view: &mut OpView, caller: &Caller, ino: InodeId) -> OpResult<()> {
    let name = Name::new(format!("lost-{:x}", ino.0).as_bytes())?;
    let dentry: Dentry = dentry::lookup(view, caller, InodeId::ROOT, &name)?;
    dentry.check_negative()?;
    // There may be as many back links as a file can have names.
    let links = view.scan(
        KeyRange::of_inode(ino, RecordKind::BackLink),
        BACKGROUND_BATCH,
    )?;
    let has_more = links.len() == BACKGROUND_BATCH;
    for (key, _) in links {
        view.remove(key);
    }
    if has_more {
        view.mark_unfinished();
        return Ok(());
    }
    view.change(ino, |inode| {
        inode.names = 0;
        inode.parent = None;
    })?;
    dentry::add_name(view, &dentry, ino)
}
