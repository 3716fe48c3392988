//! Orphans: inodes without a name that sessions still have open. An `O` record says so for each such session.

use crate::driver::OpResult;
use crate::key::{KeyRange, ParsedKey, RecordKey, RecordKind};
use crate::record::{Inode, InodeBody, Orphan, UNASKED_SESSIONS, Unconfirmed};
use crate::requester::RequestingSession;
use crate::steps::{purge, stale_members};
use crate::view::{OpView, ReadView};
use gupfs_proto::limits::XATTRS_PER_BATCH;
use gupfs_proto::{FsError, InodeId, SessionId};

/// A file that has lost its last name may be used only by sessions that are recorded as having it open. `opens`: for a new open a
/// session that was not asked yet is refused, since its reply "not open" may be under way.
///
/// # Errors
/// `Stale`: the file's last name was removed.
pub(crate) fn check_orphan_user(
    view: &ReadView,
    session: &RequestingSession,
    inode: &Inode,
    opens: bool,
) -> OpResult<()> {
    // With a single session, a session that knows the inode number is the one that has it open.
    if inode.names > 0 || session.is_only {
        return Ok(());
    }
    let (ino, session) = (inode.ino, session.id);
    let mut known = view
        .get::<Orphan>(&RecordKey::orphan(ino, session))?
        .is_some();
    if !known && !opens {
        known = view
            .get::<Orphan>(&RecordKey::orphan(ino, UNASKED_SESSIONS))?
            .is_some();
    }
    if known {
        Ok(())
    } else {
        Err(FsError::Stale.into())
    }
}

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
        stale_members::forget(view, ino, &file.layout);
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

/// The number of extended attributes or write leases of an inode that this batch may remove besides the inode's other records.
fn remaining_records(view: &OpView) -> usize {
    view.remaining_records()
        .saturating_sub(FORGET_RECORDS)
        .max(1)
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKind, UNASKED_SESSIONS};
    use gupfs_proto::meta::{AccessMode, MetaOp};
    use gupfs_proto::{Caller, FsError, SessionId};

    #[test]
    fn an_unlinked_file_is_kept_for_unasked_sessions_and_refuses_new_opens() {
        let (mut server, file) = leased_file();
        let (root, reads) = (Caller::root(), open_op(file, AccessMode::empty(), false));
        let written = report(9, &[(0, 0)]);
        server.end_write(file, written.clone(), false).unwrap();
        server.unlink(&root, ROOT, "f").unwrap();
        let find_openers = FollowUp::FindOpeners {
            ino: file,
            by: SessionId(7),
        };
        assert_eq!(server.follow_ups, [find_openers]);
        server.assert_clean();
        server.forget(file);
        server.session = OTHER_SESSION;
        let by_path = MetaOp::Truncate {
            ino: file,
            to: 0,
            by_handle: false,
            kill_privileges: false,
        };
        let stale = Err(FsError::Stale);
        for op in [open_op(file, AccessMode::READ, false), by_path] {
            assert_eq!(server.request(&root, &op), stale, "{op:?}");
        }
        // A session that has it open continues to use it.
        server.request(&root, &reads).unwrap();
        server.begin_write(file).unwrap();
        server.end_write(file, written, false).unwrap();
        let hold = BackgroundOp::RecordOrphan {
            ino: file,
            session: OTHER_SESSION,
        };
        server.run_background(&hold).unwrap();
        server.run_background(&hold).unwrap();
        let session = UNASKED_SESSIONS;
        server
            .run_background(&BackgroundOp::ForgetOrphan { ino: file, session })
            .unwrap();
        server.assert_clean();
        server
            .request(&root, &open_op(file, AccessMode::READ, false))
            .unwrap();
        server.session = SessionId(7);
        assert_eq!(server.request(&root, &reads), stale);
        server.session = OTHER_SESSION;
        server.forget(file);
        assert_eq!(
            (
                server.count(RecordKind::Inode),
                server.count(RecordKind::Orphan)
            ),
            (1, 0)
        );
        server.run_background(&hold).unwrap();
        server.assert_clean();
    }

    #[test]
    fn with_a_single_session_no_other_session_is_asked() {
        let (mut server, file) = leased_file();
        server.is_only_session = true;
        server.end_write(file, report(9, &[(0, 0)]), false).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        assert_eq!(
            (server.follow_ups.len(), server.count(RecordKind::Orphan)),
            (0, 1)
        );
        let root = Caller::root();
        server.is_only_session = false;
        server.mkdir(&root, ROOT, "d", 0o755).unwrap();
        server.rmdir(&root, ROOT, "d").unwrap();
        assert_eq!(
            (server.follow_ups.len(), server.count(RecordKind::Orphan)),
            (0, 2)
        );
    }
}
