use crate::key::{Key, KeyRange, Kind, Parsed};
use crate::purge;
use crate::record::{Body, Inode, Orphan, Unconfirmed};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::limits::ATTRIBUTES_AT_ONCE;
use gupfs_proto::{InodeId, SessionId};

/// Records that forgetting one inode changes, besides its attributes and writers: the orphan's, the inode's, what is unconfirmed and what is to
/// be purged of it, its shard's usage; and one attribute, so that every step is one.
pub(crate) const FORGET_RECORDS: usize = 6;

/// The last use of a file without a name ends: its records go in one batch, with a purge record for its objects; of more
/// attributes than a batch holds some go first, and the rest when this is applied again. Of an inode that this session
/// does not hold as an orphan nothing changes.
pub(crate) fn forget(view: &mut View, ino: InodeId, session: SessionId) -> Outcome<()> {
    let orphan = Key::orphan(ino, session);
    if view.get::<Orphan>(&orphan)?.is_none() {
        return Ok(());
    }
    match view.find_inode(ino)? {
        Some(inode) if inode.names > 0 || inode.holders > 1 => {
            view.change(ino, |inode| inode.holders -= 1)?;
        }
        Some(_) => remove_all(view, ino)?,
        None => {}
    }
    // It is what finds the rest again.
    if !view.is_unfinished() {
        view.remove(orphan);
    }
    Ok(())
}

/// Every record of an inode that nobody holds; its objects go later. If they are more than this batch holds some go, and the view says that it
/// goes on.
pub(crate) fn remove_all(view: &mut View, ino: InodeId) -> Outcome<()> {
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    if inode.xattrs > 0 && !remove_attributes(view, &inode)? {
        view.goes_on();
        return Ok(());
    }
    if let Body::File(file) = &inode.body {
        if file.writers > 0 && !remove_writers(view, ino, file.writers)? {
            view.goes_on();
            return Ok(());
        }
        let unconfirmed = Key::unconfirmed(ino);
        let had_objects = file.next_generation > 0;
        if had_objects && view.get::<Unconfirmed>(&unconfirmed)?.is_some() {
            view.remove(unconfirmed);
        }
        purge::remove_objects(view, &inode, file.next_generation, file.layout.clone());
    }
    view.remove_inode(&inode);
    Ok(())
}

/// Removes as many attributes as this batch holds; whether those were all.
fn remove_attributes(view: &mut View, inode: &Inode) -> Outcome<bool> {
    let (ino, all) = (inode.ino, inode.xattrs as usize);
    let some = all.min(ATTRIBUTES_AT_ONCE).min(room(view));
    let found = view.scan(KeyRange::of_inode(ino, Kind::Xattr), some)?;
    let mut names = 0;
    for (key, _) in &found {
        if let Some(Parsed::Xattr { name, .. }) = key.parse() {
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

/// The same with sessions that are recorded as its writers.
fn remove_writers(view: &mut View, ino: InodeId, writers: u32) -> Outcome<bool> {
    let all = writers as usize;
    let some = all.min(room(view));
    let found = view.scan(KeyRange::of_inode(ino, Kind::Writer), some)?;
    let are_all = some == all || found.len() < some;
    for (key, _) in found {
        view.remove(key);
    }
    if !are_all {
        view.change_file(ino, |_, file| file.writers -= some as u32)?;
    }
    Ok(are_all)
}

/// How many records beside its own may go with an inode in this batch.
fn room(view: &View) -> usize {
    view.room().saturating_sub(FORGET_RECORDS).max(1)
}
