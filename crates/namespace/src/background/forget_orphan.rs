use crate::driver::OpResult;
use crate::key::{KeyRange, ParsedKey, RecordKey, RecordKind};
use crate::purge;
use crate::record::{Inode, InodeBody, Orphan, Unconfirmed};
use crate::view::OpView;
use gupfs_proto::limits::XATTRS_PER_BATCH;
use gupfs_proto::{InodeId, SessionId};

/// Number of records that forgetting one inode changes, besides its extended attributes and write leases: its `O`, `I`, `L` and
/// `P` records and its shard's usage; and one extended attribute, so that every batch removes at least one.
pub(crate) const FORGET_RECORDS: usize = 6;

/// A session stops using an orphan. If it was the last one, all records of the inode are removed in one batch, with a `P` record
/// for its objects; if there are more extended attributes than a batch holds, some are removed first, and the rest when this is
/// applied again. Changes nothing if the inode is not an orphan of this session.
pub(crate) fn forget_orphan(view: &mut OpView, ino: InodeId, session: SessionId) -> OpResult<()> {
    let orphan = RecordKey::orphan(ino, session);
    if view.get::<Orphan>(&orphan)?.is_none() {
        return Ok(());
    }
    match view.find_inode(ino)? {
        Some(inode) if inode.names > 0 || inode.orphan_records > 1 => {
            view.change(ino, |inode| inode.orphan_records -= 1)?;
        }
        Some(_) => remove_inode_records(view, ino)?,
        None => {}
    }
    // While the `O` record exists, the rest is found again.
    if !view.is_unfinished() {
        view.remove(orphan);
    }
    Ok(())
}

/// Removes every record of an inode that no session uses; its objects are removed later. If this batch does not hold all of them,
/// it removes some and marks the view as unfinished.
pub(crate) fn remove_inode_records(view: &mut OpView, ino: InodeId) -> OpResult<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    if inode.xattrs > 0 && !remove_xattrs(view, &inode)? {
        view.mark_unfinished();
        return Ok(());
    }
    if let InodeBody::File(file) = &inode.body {
        if file.write_leases > 0 && !remove_write_leases(view, ino, file.write_leases)? {
            view.mark_unfinished();
            return Ok(());
        }
        let unconfirmed = RecordKey::unconfirmed(ino);
        let had_objects = file.next_generation > 0;
        if had_objects && view.get::<Unconfirmed>(&unconfirmed)?.is_some() {
            view.remove(unconfirmed);
        }
        purge::remove_objects(view, &inode, file.next_generation, file.layout.clone());
    }
    view.remove_inode(&inode);
    Ok(())
}

/// Removes as many extended attributes as this batch holds; returns whether those were all.
fn remove_xattrs(view: &mut OpView, inode: &Inode) -> OpResult<bool> {
    let (ino, all) = (inode.ino, inode.xattrs as usize);
    let some = all.min(XATTRS_PER_BATCH).min(remaining_records(view));
    let found = view.scan(KeyRange::of_inode(ino, RecordKind::Xattr), some)?;
    let mut names = 0;
    for (key, _) in &found {
        if let Some(ParsedKey::Xattr { name, .. }) = key.parse() {
            names += name.len() as u32 + 1;
        }
        view.remove(key.clone());
    }
    let are_all = some == all || found.len() < some;
    if !are_all {
        view.change(ino, |inode| {
            inode.xattrs -= some as u32;
            inode.xattr_names = inode.xattr_names.saturating_sub(names);
        })?;
    }
    Ok(are_all)
}

/// Removes as many write leases as this batch holds; returns whether those were all.
fn remove_write_leases(view: &mut OpView, ino: InodeId, write_leases: u32) -> OpResult<bool> {
    let all = write_leases as usize;
    let some = all.min(remaining_records(view));
    let found = view.scan(KeyRange::of_inode(ino, RecordKind::WriteLease), some)?;
    let are_all = some == all || found.len() < some;
    for (key, _) in found {
        view.remove(key);
    }
    if !are_all {
        view.change_file(ino, |_, file| file.write_leases -= some as u32)?;
    }
    Ok(are_all)
}

/// How many extended attributes or write leases of an inode this batch may remove besides the inode's other records.
fn remaining_records(view: &OpView) -> usize {
    view.remaining_records()
        .saturating_sub(FORGET_RECORDS)
        .max(1)
}
