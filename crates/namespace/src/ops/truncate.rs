use crate::key::{Key, PurgeId};
use crate::record::{Cutting, File, Inode, Writer};
use crate::step::{Need, Outcome};
use crate::view::View;
use crate::{held, may, ops, protected, purge};
use gupfs_proto::limits::FILE_SIZE_MAX;
use gupfs_proto::meta::{Access, Answer};
use gupfs_proto::{InodeId, Layout, Refusal};

/// truncate(2), ftruncate(2): the file ends at `to`; what it grows by reads as zeros. mtime and ctime are updated even if the
/// size stays. Needs write permission; `by_handle` only that the session has the file open for writing (`rights`).
pub(crate) fn truncate(
    view: &mut View,
    ino: InodeId,
    to: u64,
    by_handle: bool,
    kill_privileges: bool,
) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    held::must_be_known(view, &inode, !by_handle)?;
    if !by_handle {
        may::access(&inode, view.ctx.caller, Access::WRITE)?;
    }
    protected::size(&inode)?;
    if to > FILE_SIZE_MAX {
        return Err(Refusal::TooLarge.into());
    }
    held::must_be_given_back(view, &inode)?;
    must_not_be_cutting(file, ino)?;
    cut(view, ino, to)?;
    ops::kill_privileges::after_write(view, ino, kill_privileges)?;
    let opened = ops::opened(&*view.inode(ino)?, false);
    Ok(Answer::Opened(opened))
}

/// Any access to a file's bytes first finishes a cut that is under way.
pub(crate) fn must_not_be_cutting(file: &File, ino: InodeId) -> Outcome<()> {
    match file.cutting {
        None => Ok(()),
        Some(Cutting { number, .. }) => Err(Need::Cut(PurgeId { ino, number }).into()),
    }
}

/// The file ends at `to`. No cut is under way.
///
/// To nothing is one batch whatever the file's size: it forgets its layout, the objects go later, and the next write makes
/// objects of other generations; but not while others may have the file open, who would go on reading the old ones. To a
/// part, the objects are cut to their lengths before anybody reads or writes again:
/// or bytes from before would show when the file grows again.
pub(crate) fn cut(view: &mut View, ino: InodeId, to: u64) -> Outcome<()> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    let number = file.next_generation;
    let (mut forgets_layout, mut cutting) = (false, None);
    if to == 0 && view.ctx.alone && !file.layout.is_empty() {
        forgets_layout = true;
        purge::remove_objects(view, &inode, number, file.layout.clone());
    } else if is_to_be_cut(view, &inode, to)?
        && purge::cut_objects(view, &inode, number, &file.layout, to)
    {
        cutting = Some(Cutting { to, number });
    }
    let writer = Key::writer(ino, view.ctx.session);
    // Who wrote the old objects has nothing to report any more, and begins anew.
    let wrote = forgets_layout && file.writers > 0 && view.get::<Writer>(&writer)?.is_some();
    if wrote {
        view.remove(writer);
    }
    let now = view.ctx.now;
    view.change_file(ino, |inode, file| {
        inode.touch_contents(now);
        // Until the cut is done who looks sees the size of before: whoever knows where the bytes were still finds them.
        if cutting.is_none() {
            inode.size = to;
        }
        inode.data_version += 1;
        let keep = file
            .inline
            .len()
            .min(usize::try_from(to).unwrap_or(usize::MAX));
        file.inline.truncate(keep);
        if forgets_layout {
            file.layout = Layout::default();
            file.next_generation = number + 1;
            file.writers -= u32::from(wrote);
            inode.blocks = 0;
        }
        if cutting.is_some() {
            file.cutting = cutting;
            file.next_generation = number + 1;
        }
    })
}

/// Whether objects may hold bytes behind `to`. Where the file's size stays they may, if its writer says so: an OST took what was
/// written behind the end by a write that failed, and refused to cut it again.
fn is_to_be_cut(view: &View, inode: &Inode, to: u64) -> Outcome<bool> {
    if to != inode.size || inode.file()?.writers == 0 {
        return Ok(to < inode.size);
    }
    let writer = Key::writer(inode.ino, view.ctx.session);
    Ok(view.get::<Writer>(&writer)?.is_some())
}

#[cfg(test)]
mod tests {
    use crate::rights::Opens;
    use crate::testing::*;
    use crate::{ChoreOp, Kind, PurgeId, PurgeWhat, Work};
    use gupfs_proto::capability::Rights;
    use gupfs_proto::limits::FILE_SIZE_MAX;
    use gupfs_proto::meta::{Access, Op, OpenHow};
    use gupfs_proto::{Caller, InodeId, Refusal};

    fn striped(server: &mut Server, size: u64) -> InodeId {
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, written(size, &[(0, 0), (1, 0), (1, 1)]), false)
            .unwrap();
        file
    }

    #[test]
    fn to_nothing_is_one_batch_and_the_objects_go_later() {
        for shards in [1, 64] {
            let mut server = Server::new(shards);
            let file = striped(&mut server, 6 << 20);
            let old = server.file(file).layout;
            let cut = server.truncate(file, 0).unwrap();
            assert_eq!(
                (cut.attr.size, cut.attr.blocks, cut.layout.is_empty()),
                (0, 0, true)
            );
            assert_eq!(cut.inline.as_deref(), Some(&b""[..]));
            let [Work::Purge { id, objects }] = &server.work.clone()[..] else {
                panic!("{:?}", server.work)
            };
            assert_eq!(objects.len(), 3);
            assert_eq!(server.statfs().purging, 1);
            let new = server.begin_write(file).unwrap().layout;
            assert_ne!(new.components[0].generation, old.components[0].generation);
            server.assert_clean();
            server.chore(&ChoreOp::PurgeDone { id: *id }).unwrap();
            assert_eq!((server.statfs().purging, server.count(Kind::Purge)), (0, 0));
            server.assert_clean();
        }
    }

    #[test]
    fn to_a_part_nobody_sees_the_file_before_its_objects_are_cut() {
        let mut server = Server::new(2);
        let file = striped(&mut server, 6 << 20);
        server.cuts_at_once = false;
        let to = (4 << 20) + 5;
        assert_eq!(server.truncate(file, to).unwrap().attr.size, to);
        let [Work::Cut { id, objects }] = &server.work.clone()[..] else {
            panic!("{:?}", server.work)
        };
        let lengths: Vec<u64> = objects.iter().map(|(.., to)| *to).collect();
        assert_eq!(lengths, [4 << 20, 5, 0]);
        server.assert_clean();
        // Any of these waits for the cut (the test's driver finishes it when asked).
        server.open(&Caller::root(), file, Access::READ).unwrap();
        assert_eq!((server.cuts.len(), server.count(Kind::Purge)), (0, 0));
        assert_eq!(server.getattr(file).unwrap().blocks, 8);
        let after = PurgeId {
            number: id.number + 1,
            ..*id
        };
        server
            .chore(&ChoreOp::CutDone {
                id: *id,
                blocks: 99,
            })
            .unwrap();
        server.truncate(file, 1).unwrap();
        assert_eq!(server.cuts, [after]);
        server.truncate(file, 0).unwrap();
        server.assert_clean();
    }

    #[test]
    fn a_cut_outlives_its_file() {
        let mut server = Server::new(2);
        let file = striped(&mut server, 6 << 20);
        server.cuts_at_once = false;
        server.truncate(file, 7).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        server.forget(file);
        assert_eq!(
            (server.count(Kind::Purge), server.getattr(file)),
            (2, Err(Refusal::Stale))
        );
        server.finish_cut(server.cuts[0]);
        assert_eq!(server.count(Kind::Purge), 1);
        let what: Vec<PurgeWhat> = server
            .purges()
            .into_iter()
            .map(|(_, purge)| purge.what)
            .collect();
        assert_eq!(what, [PurgeWhat::Remove]);
        server.assert_clean();
    }

    #[test]
    fn who_wrote_the_old_bytes_begins_anew() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, written(100, &[(0, 0)]), true)
            .unwrap();
        let how = OpenHow {
            access: Access::empty(),
            truncate: true,
            kill_privileges: false,
        };
        let cut = opened(server.ask(
            &Caller::root(),
            &Op::Open {
                ino: file,
                open: how,
            },
        ))
        .unwrap();
        assert!(cut.layout.is_empty());
        assert_eq!(
            (server.count(Kind::Writer), server.file(file).writers),
            (0, 0)
        );
        let late = server.end_write(file, written(100, &[(0, 0)]), false);
        assert!(matches!(late, Err(Refusal::Malformed(_))));
        server.assert_clean();
    }

    #[test]
    fn growing_changes_the_size_alone() {
        let mut server = Server::new(1);
        let file = striped(&mut server, 6 << 20);
        let grown = server.truncate(file, FILE_SIZE_MAX).unwrap();
        assert_eq!((grown.attr.size, server.work.len()), (FILE_SIZE_MAX, 0));
        assert_eq!(
            server.truncate(file, FILE_SIZE_MAX + 1),
            Err(Refusal::TooLarge)
        );
    }

    #[test]
    fn by_path_it_needs_write_permission_and_by_handle_an_open_file() {
        let mut server = Server::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        let truncate = |by_handle| Op::Truncate {
            ino: file,
            to: 5,
            by_handle,
            kill_privileges: false,
        };
        assert_eq!(
            server.ask(&user(1000), &truncate(false)),
            Err(Refusal::Denied)
        );
        for rights in [Rights::empty(), Rights::READ] {
            server.opens = Opens::new(vec![(file, rights), (ROOT, Rights::all())]);
            let refused = server.ask(&user(1000), &truncate(true));
            assert_eq!(refused, Err(Refusal::Denied));
        }
        server.opens = Opens::new(vec![(file, Rights::all())]);
        server.ask(&user(1000), &truncate(true)).unwrap();
        assert_eq!(server.truncate(ROOT, 5), Err(Refusal::IsDirectory));
    }
}
