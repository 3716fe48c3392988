use crate::driver::OpResult;
use crate::permission;
use crate::record::Inode;
use crate::requester::RequestingSession;
use crate::steps::{dentry, write_lease};
use crate::view::{OpView, ReadView};
use gupfs_proto::meta::{AccessMode, MetaReplyBody, RemovedName, RenameMode};
use gupfs_proto::{Caller, FsError, InodeId, Name};

/// rename(2), renameat2(2): the new name refers to an existing inode at every moment; a crash leaves one of the two states. An
/// inode that had the new name loses it as by unlink or rmdir; two names of one file do not change. `Exchange` swaps two names.
/// Both directories' mtime and ctime are updated, and the ctime of the moved inodes.
pub(crate) fn rename(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    (from, name): (InodeId, &Name),
    (to, new_name): (InodeId, &Name),
    mode: RenameMode,
) -> OpResult<MetaReplyBody> {
    let source = dentry::lookup(view, caller, from, name)?;
    let target = dentry::lookup(view, caller, to, new_name)?;
    let moved = dentry::target_inode(view, source.entry()?)?;
    let existing = match target.entry {
        Some(entry) => Some(dentry::target_inode(view, entry)?),
        None => None,
    };
    match (mode, &existing) {
        (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists.into()),
        (RenameMode::Exchange, None) => return Err(FsError::NotFound.into()),
        _ => {}
    }
    check_no_cycle(view, from, &moved, to, existing.as_deref(), mode)?;
    if existing
        .as_ref()
        .is_some_and(|existing| existing.ino == moved.ino)
    {
        return Ok(MetaReplyBody::Removed(RemovedName::default()));
    }
    check_move(view, caller, from, &moved, to, existing.as_deref(), mode)?;
    write_lease::require_attr_report(view, session, &moved)?;

    let mut removed = RemovedName::default();
    match (mode, existing) {
        (RenameMode::Exchange, Some(existing)) => {
            dentry::exchange_names(view, &source, moved.ino, &target, existing.ino)?
        }
        (_, Some(existing)) => {
            if existing.directory().is_ok_and(|dir| dir.entries > 0) {
                return Err(FsError::NotEmpty.into());
            }
            removed.victim = Some(existing.ino);
            removed.is_orphan = dentry::remove_name(view, session, &target, existing.ino)?;
            dentry::move_name(view, &source, &target, moved.ino)?;
        }
        (_, None) => dentry::move_name(view, &source, &target, moved.ino)?,
    }
    removed.attr = Some(view.inode(moved.ino)?.attr());
    Ok(MetaReplyBody::Removed(removed))
}

/// A directory must not be moved below itself, and an inode must not replace a directory that contains it.
fn check_no_cycle(
    view: &mut ReadView,
    from: InodeId,
    moved: &Inode,
    to: InodeId,
    existing: Option<&Inode>,
    mode: RenameMode,
) -> OpResult<()> {
    if from == to {
        return Ok(());
    }
    if moved.is_dir() && is_same_or_below(view, to, moved.ino)? {
        return Err(FsError::IntoItself.into());
    }
    if let Some(existing) = existing
        && existing.is_dir()
        && is_same_or_below(view, from, existing.ino)?
    {
        let swapped = mode == RenameMode::Exchange;
        return Err(if swapped {
            FsError::IntoItself
        } else {
            FsError::NotEmpty
        }
        .into());
    }
    Ok(())
}

/// Whether `dir` is `above` or anywhere below it: reads one record for each level.
fn is_same_or_below(view: &mut ReadView, dir: InodeId, above: InodeId) -> OpResult<bool> {
    let mut at = dir;
    loop {
        if at == above {
            return Ok(true);
        }
        match view.inode(at)?.parent {
            Some(parent) => at = parent.dir,
            // The root, or a directory that was removed while it was open.
            None => return Ok(false),
        }
    }
}

fn check_move(
    view: &mut ReadView,
    caller: &Caller,
    from: InodeId,
    moved: &Inode,
    to: InodeId,
    existing: Option<&Inode>,
    mode: RenameMode,
) -> OpResult<()> {
    let (old_dir, new_dir) = (view.inode(from)?, view.inode(to)?);
    let exchange = mode == RenameMode::Exchange;
    permission::check_remove(&old_dir, moved, caller, moved.is_dir())?;
    match existing {
        None => permission::check_create(&new_dir, caller)?,
        Some(existing) => {
            let as_dir = if exchange {
                existing.is_dir()
            } else {
                moved.is_dir()
            };
            permission::check_remove(&new_dir, existing, caller, as_dir)?;
        }
    }
    if moved.volume != new_dir.volume
        || existing.is_some_and(|existing| existing.volume != old_dir.volume)
    {
        return Err(FsError::CrossVolume.into());
    }
    if from != to {
        // The ".." of a moved directory changes, so it must be writable.
        let others = existing.filter(|_| exchange);
        for inode in [Some(moved), others]
            .into_iter()
            .flatten()
            .filter(|inode| inode.is_dir())
        {
            permission::check_access(inode, caller, AccessMode::WRITE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::RenameMode::{Exchange, NoReplace, Replace};
    use gupfs_proto::{Caller, FsError};

    #[test]
    fn moving_a_directory_moves_its_link_count() {
        for shards in [1, 2, 64] {
            let mut server = TestServer::new(shards);
            let root = Caller::root();
            let a = server.mkdir(&root, ROOT, "a", 0o755).unwrap().ino;
            let b = server.mkdir(&root, ROOT, "b", 0o755).unwrap().ino;
            let moved = server.mkdir(&root, a, "m", 0o755).unwrap().ino;
            let reply = server.rename(&root, (a, "m"), (b, "n"), Replace).unwrap();
            assert_eq!(
                (
                    reply.victim,
                    reply.is_orphan,
                    reply.attr.map(|attr| attr.ino)
                ),
                (None, false, Some(moved))
            );
            let links = [a, b].map(|dir| server.getattr(dir).unwrap().nlink);
            assert_eq!(links, [2, 3]);
            assert_eq!(
                reply.attr.map(|attr| attr.ctime),
                Some(server.getattr(moved).unwrap().ctime)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn a_directory_cannot_be_moved_below_itself() {
        let mut server = TestServer::new(64);
        let root = Caller::root();
        let mut dirs = vec![ROOT];
        for _ in 0..5 {
            let below = server
                .mkdir(&root, *dirs.last().unwrap(), "d", 0o755)
                .unwrap()
                .ino;
            dirs.push(below);
        }
        for below in &dirs[1..] {
            assert_eq!(
                server.rename(&root, (ROOT, "d"), (*below, "x"), Replace),
                Err(FsError::IntoItself)
            );
        }
        server.create(&root, dirs[3], "f", 0o644).unwrap();
        // A file cannot replace a directory that contains it.
        assert_eq!(
            server.rename(&root, (dirs[3], "f"), (ROOT, "d"), Replace),
            Err(FsError::NotEmpty)
        );
        assert_eq!(
            server.rename(&root, (dirs[3], "f"), (ROOT, "d"), Exchange),
            Err(FsError::IntoItself)
        );
        server.assert_clean();
    }

    #[test]
    fn rename_replaces_only_what_posix_allows() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let full = server.mkdir(&root, ROOT, "full", 0o755).unwrap().ino;
        server.create(&root, full, "x", 0o644).unwrap();
        server.mkdir(&root, ROOT, "empty", 0o755).unwrap();
        server.create(&root, ROOT, "file", 0o644).unwrap();
        let mut rename = |from, to, mode| {
            server
                .rename(&root, (ROOT, from), (ROOT, to), mode)
                .map(|removed| removed.is_orphan)
        };
        assert_eq!(rename("empty", "full", Replace), Err(FsError::NotEmpty));
        assert_eq!(rename("file", "empty", Replace), Err(FsError::IsDirectory));
        assert_eq!(rename("empty", "file", Replace), Err(FsError::NotDirectory));
        assert_eq!(rename("none", "file", Replace), Err(FsError::NotFound));
        assert_eq!(rename("file", "empty", NoReplace), Err(FsError::Exists));
        assert_eq!(rename("file", "none", Exchange), Err(FsError::NotFound));
        assert_eq!(rename("file", "file", Replace), Ok(false));
        assert_eq!(rename("file", "full", Exchange), Ok(false));
        assert_eq!(rename("file", "empty", Replace), Ok(true));
        assert_eq!(rename("full", "other", NoReplace), Ok(false));
        server.assert_clean();
    }

    #[test]
    fn renaming_one_name_of_a_file_to_another_changes_nothing() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "a", 0o644).unwrap().ino;
        server.link(&root, file, ROOT, "b").unwrap();
        let reply = server
            .rename(&root, (ROOT, "a"), (ROOT, "b"), Replace)
            .unwrap();
        assert_eq!((reply.victim, server.batch.len()), (None, 0));
        assert_eq!(server.lookup(&root, ROOT, "a").unwrap().nlink, 2);
        server
            .rename(&root, (ROOT, "a"), (ROOT, "c"), Replace)
            .unwrap();
        server
            .rename(&root, (ROOT, "b"), (ROOT, "d"), Replace)
            .unwrap();
        assert_eq!(server.getattr(file).unwrap().nlink, 2);
        server.assert_clean();
    }

    #[test]
    fn a_directory_that_moves_to_another_must_be_writable_itself() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let a = server.mkdir(&root, ROOT, "a", 0o777).unwrap().ino;
        let b = server.mkdir(&root, ROOT, "b", 0o777).unwrap().ino;
        server.mkdir(&user(1000), a, "m", 0o555).unwrap();
        assert_eq!(
            server.rename(&user(1000), (a, "m"), (b, "m"), Replace),
            Err(FsError::Denied)
        );
        server
            .rename(&user(1000), (a, "m"), (a, "n"), Replace)
            .unwrap();
    }

    #[test]
    fn in_a_sticky_directory_only_owners_rename() {
        let mut server = TestServer::new(2);
        let tmp = server
            .mkdir(&Caller::root(), ROOT, "tmp", 0o1777)
            .unwrap()
            .ino;
        server.create(&user(1000), tmp, "a", 0o666).unwrap();
        server.create(&user(1001), tmp, "b", 0o666).unwrap();
        let denied = Err(FsError::NotPermitted);
        assert_eq!(
            server.rename(&user(1001), (tmp, "a"), (tmp, "x"), Replace),
            denied
        );
        assert_eq!(
            server.rename(&user(1001), (tmp, "b"), (tmp, "a"), Replace),
            denied
        );
        assert_eq!(
            server.rename(&user(1001), (tmp, "b"), (tmp, "a"), Exchange),
            denied
        );
        server
            .rename(&user(1001), (tmp, "b"), (tmp, "c"), Replace)
            .unwrap();
    }
}
