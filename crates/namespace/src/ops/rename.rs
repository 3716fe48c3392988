use crate::record::Inode;
use crate::step::Outcome;
use crate::view::View;
use crate::{held, may, place};
use gupfs_proto::meta::{Access, Answer, Removed, RenameHow};
use gupfs_proto::{InodeId, Name, Refusal};

/// rename(2), renameat2(2): the new name refers to the old file at every moment; a crash leaves one of the two states. What
/// had the new name loses it as by unlink or rmdir; two names of one file stay as they are. `Exchange` swaps two names.
/// Both directories' mtime and ctime are updated, and the ctime of what moved.
pub(crate) fn rename(
    view: &mut View,
    from: InodeId,
    name: &Name,
    to: InodeId,
    new_name: &Name,
    how: RenameHow,
) -> Outcome<Answer> {
    let source = place::find(view, from, name)?;
    let target = place::find(view, to, new_name)?;
    let moved = place::target(view, source.entry()?)?;
    let existing = match target.entry {
        Some(entry) => Some(place::target(view, entry)?),
        None => None,
    };
    match (how, &existing) {
        (RenameHow::NoReplace, Some(_)) => return Err(Refusal::Exists.into()),
        (RenameHow::Exchange, None) => return Err(Refusal::NotFound.into()),
        _ => {}
    }
    stays_a_tree(view, from, &moved, to, existing.as_deref(), how)?;
    if existing
        .as_ref()
        .is_some_and(|existing| existing.ino == moved.ino)
    {
        return Ok(Answer::Removed(Removed::default()));
    }
    may_move(view, from, &moved, to, existing.as_deref(), how)?;
    held::must_have_told(view, &moved)?;

    let mut removed = Removed::default();
    match (how, existing) {
        (RenameHow::Exchange, Some(existing)) => {
            place::exchange_names(view, &source, moved.ino, &target, existing.ino)?
        }
        (_, Some(existing)) => {
            if existing.directory().is_ok_and(|dir| dir.entries > 0) {
                return Err(Refusal::NotEmpty.into());
            }
            removed.victim = Some(existing.ino);
            removed.orphan = place::remove_name(view, &target, existing.ino)?;
            place::move_name(view, &source, &target, moved.ino)?;
        }
        (_, None) => place::move_name(view, &source, &target, moved.ino)?,
    }
    removed.attr = Some(view.inode(moved.ino)?.attr());
    Ok(Answer::Removed(removed))
}

/// A directory must not come to lie below itself, nor replace one that it lies in.
fn stays_a_tree(
    view: &mut View,
    from: InodeId,
    moved: &Inode,
    to: InodeId,
    existing: Option<&Inode>,
    how: RenameHow,
) -> Outcome<()> {
    if from == to {
        return Ok(());
    }
    if moved.is_dir() && lies_in(view, to, moved.ino)? {
        return Err(Refusal::IntoItself.into());
    }
    if let Some(existing) = existing
        && existing.is_dir()
        && lies_in(view, from, existing.ino)?
    {
        let swapped = how == RenameHow::Exchange;
        return Err(if swapped {
            Refusal::IntoItself
        } else {
            Refusal::NotEmpty
        }
        .into());
    }
    Ok(())
}

/// Whether `dir` is `above` or lies anywhere below it: one record for each step up.
fn lies_in(view: &mut View, dir: InodeId, above: InodeId) -> Outcome<bool> {
    let mut at = dir;
    loop {
        if at == above {
            return Ok(true);
        }
        match view.inode(at)?.parent {
            Some(parent) => at = parent.dir,
            // The root, or a directory that was removed while somebody stood in it.
            None => return Ok(false),
        }
    }
}

fn may_move(
    view: &mut View,
    from: InodeId,
    moved: &Inode,
    to: InodeId,
    existing: Option<&Inode>,
    how: RenameHow,
) -> Outcome<()> {
    let caller = view.ctx.caller;
    let (old_dir, new_dir) = (view.inode(from)?, view.inode(to)?);
    let exchange = how == RenameHow::Exchange;
    may::remove_from(&old_dir, moved, caller, moved.is_dir())?;
    match existing {
        None => may::create_in(&new_dir, caller)?,
        Some(existing) => {
            let as_dir = if exchange {
                existing.is_dir()
            } else {
                moved.is_dir()
            };
            may::remove_from(&new_dir, existing, caller, as_dir)?;
        }
    }
    if moved.volume != new_dir.volume
        || existing.is_some_and(|existing| existing.volume != old_dir.volume)
    {
        return Err(Refusal::CrossVolume.into());
    }
    if from != to {
        // Its ".." changes, and that is a write to it.
        let others = existing.filter(|_| exchange);
        for inode in [Some(moved), others]
            .into_iter()
            .flatten()
            .filter(|inode| inode.is_dir())
        {
            may::access(inode, caller, Access::WRITE)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::RenameHow::{Exchange, NoReplace, Replace};
    use gupfs_proto::{Caller, Refusal};

    #[test]
    fn a_directory_that_moves_takes_its_link_along() {
        for shards in [1, 2, 64] {
            let mut server = Server::new(shards);
            let root = Caller::root();
            let a = server.mkdir(&root, ROOT, "a", 0o755).unwrap().ino;
            let b = server.mkdir(&root, ROOT, "b", 0o755).unwrap().ino;
            let moved = server.mkdir(&root, a, "m", 0o755).unwrap().ino;
            let answer = server.rename(&root, (a, "m"), (b, "n"), Replace).unwrap();
            assert_eq!(
                (
                    answer.victim,
                    answer.orphan,
                    answer.attr.map(|attr| attr.ino)
                ),
                (None, false, Some(moved))
            );
            let links = [a, b].map(|dir| server.getattr(dir).unwrap().nlink);
            assert_eq!(links, [2, 3]);
            assert_eq!(
                answer.attr.map(|attr| attr.ctime),
                Some(server.getattr(moved).unwrap().ctime)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn a_directory_never_comes_to_lie_below_itself() {
        let mut server = Server::new(64);
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
                Err(Refusal::IntoItself)
            );
        }
        server.create(&root, dirs[3], "f", 0o644).unwrap();
        // What the moved file lies in cannot be replaced by it.
        assert_eq!(
            server.rename(&root, (dirs[3], "f"), (ROOT, "d"), Replace),
            Err(Refusal::NotEmpty)
        );
        assert_eq!(
            server.rename(&root, (dirs[3], "f"), (ROOT, "d"), Exchange),
            Err(Refusal::IntoItself)
        );
        server.assert_clean();
    }

    #[test]
    fn what_replaces_what_is_as_posix_says() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let full = server.mkdir(&root, ROOT, "full", 0o755).unwrap().ino;
        server.create(&root, full, "x", 0o644).unwrap();
        server.mkdir(&root, ROOT, "empty", 0o755).unwrap();
        server.create(&root, ROOT, "file", 0o644).unwrap();
        let mut rename = |from, to, how| {
            server
                .rename(&root, (ROOT, from), (ROOT, to), how)
                .map(|removed| removed.orphan)
        };
        assert_eq!(rename("empty", "full", Replace), Err(Refusal::NotEmpty));
        assert_eq!(rename("file", "empty", Replace), Err(Refusal::IsDirectory));
        assert_eq!(rename("empty", "file", Replace), Err(Refusal::NotDirectory));
        assert_eq!(rename("none", "file", Replace), Err(Refusal::NotFound));
        assert_eq!(rename("file", "empty", NoReplace), Err(Refusal::Exists));
        assert_eq!(rename("file", "none", Exchange), Err(Refusal::NotFound));
        assert_eq!(rename("file", "file", Replace), Ok(false));
        assert_eq!(rename("file", "full", Exchange), Ok(false));
        assert_eq!(rename("file", "empty", Replace), Ok(true));
        assert_eq!(rename("full", "other", NoReplace), Ok(false));
        server.assert_clean();
    }

    #[test]
    fn two_names_of_one_file_stay_both() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "a", 0o644).unwrap().ino;
        server.link(&root, file, ROOT, "b").unwrap();
        let answer = server
            .rename(&root, (ROOT, "a"), (ROOT, "b"), Replace)
            .unwrap();
        assert_eq!((answer.victim, server.batch.len()), (None, 0));
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
        let mut server = Server::new(2);
        let root = Caller::root();
        let a = server.mkdir(&root, ROOT, "a", 0o777).unwrap().ino;
        let b = server.mkdir(&root, ROOT, "b", 0o777).unwrap().ino;
        server.mkdir(&user(1000), a, "m", 0o555).unwrap();
        assert_eq!(
            server.rename(&user(1000), (a, "m"), (b, "m"), Replace),
            Err(Refusal::Denied)
        );
        server
            .rename(&user(1000), (a, "m"), (a, "n"), Replace)
            .unwrap();
    }

    #[test]
    fn in_a_sticky_directory_one_renames_ones_own() {
        let mut server = Server::new(2);
        let tmp = server
            .mkdir(&Caller::root(), ROOT, "tmp", 0o1777)
            .unwrap()
            .ino;
        server.create(&user(1000), tmp, "mine", 0o666).unwrap();
        server.create(&user(1001), tmp, "his", 0o666).unwrap();
        let denied = Err(Refusal::NotPermitted);
        assert_eq!(
            server.rename(&user(1001), (tmp, "mine"), (tmp, "x"), Replace),
            denied
        );
        assert_eq!(
            server.rename(&user(1001), (tmp, "his"), (tmp, "mine"), Replace),
            denied
        );
        assert_eq!(
            server.rename(&user(1001), (tmp, "his"), (tmp, "mine"), Exchange),
            denied
        );
        server
            .rename(&user(1001), (tmp, "his"), (tmp, "ours"), Replace)
            .unwrap();
    }
}
