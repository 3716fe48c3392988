use crate::key::Key;
use crate::record::Writer;
use crate::step::{Need, Outcome, Work};
use crate::view::View;
use crate::{generations, held, ops, placement, protected};
use gupfs_proto::layout::Component;
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, Layout, Presence, Refusal};

/// A session starts to write a file's objects, alone: whoever held the file before gives it back. It gets the layout, made now if there is none, and from now on size, mtime
/// and which objects exist are its word. Every object may exist from now on, whatever happens to the session; that is
/// durable before the first of them is, unless nobody could ever give the new layout's generation again (`generations`). Inline bytes stay until `Spilled`.
pub(crate) fn begin_write(view: &mut View, ino: InodeId, kill_privileges: bool) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    held::must_be_known(view, &inode, false)?;
    protected::contents(&inode)?;
    let writer = Key::writer(ino, view.ctx.session);
    let held = view.get::<Writer>(&writer)?.is_some();
    // Who holds it already is never in his own way.
    if !held {
        if view.ctx.queues {
            return Err(Need::Turn(ino).into());
        }
        held::must_be_given_back(view, &inode)?;
    }
    ops::truncate::must_not_be_cutting(file, ino)?;
    let fresh = file.layout.is_empty();
    let told = view.ctx.again.and_then(|again| again.layout.as_ref());
    let mut layout = if fresh && let Some(told) = told {
        laid_out_before(told, file.next_generation)?
    } else if fresh {
        let (rule, _) = ops::layout_rule::rule_of(view, &inode)?;
        let first = generations::first(file.next_generation, view.ctx.owner_epoch);
        placement::lay_out(&rule, view.ctx.targets, ino, first)?
    } else {
        file.layout.clone()
    };
    let raised = expect_all_objects(&mut layout);
    if !held || raised {
        view.must_have_room()?;
        // That there is a writer, too: were it forgotten, nobody would ask the objects how long the file is, and bytes that
        // they have behind its end would come to light when it grows.
        if !fresh || !generations::are_owned(&layout, view.ctx.owner_epoch) {
            view.work(Work::Durable);
        }
        view.change_file(ino, |inode, file| {
            let generations = layout
                .components
                .iter()
                .map(|component| component.generation.0 + 1);
            file.next_generation = generations.fold(file.next_generation, u32::max);
            file.layout = layout;
            file.writers += u32::from(!held);
            inode.data_version += 1;
        })?;
    }
    if !held {
        view.put(
            writer,
            &Writer {
                since: view.ctx.now,
            },
        );
    }
    ops::kill_privileges::after_write_by_client(view, ino, kill_privileges)?;
    let opened = ops::opened(&*view.inode(ino)?, false);
    Ok(Answer::Opened(opened))
}

/// The layout that the file had got, as its writer knows it: objects of it lie at their targets.
fn laid_out_before(told: &Layout, next_generation: u32) -> Outcome<Layout> {
    let is_new = |component: &Component| component.generation.0 >= next_generation;
    told.check()?;
    if !told.components.iter().all(is_new) {
        let why = "a layout said again has generations that were given before";
        return Err(Refusal::Malformed(why.into()).into());
    }
    Ok(told.clone())
}

/// Every object that is known not to exist may exist now; whether there was one.
fn expect_all_objects(layout: &mut Layout) -> bool {
    let mut raised = false;
    for component in &mut layout.components {
        for stripe in 0..component.targets.len() {
            if component.presence.get(stripe) == Presence::Never {
                component.presence.set(stripe, Presence::Maybe);
                raised = true;
            }
        }
    }
    raised
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{ChoreOp, Kind, Work};
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::meta::{Access, Op, WriteAt};
    use gupfs_proto::{Caller, OstId, Presence, Refusal, Timestamp};

    fn presence(server: &Server, ino: gupfs_proto::InodeId) -> Vec<Presence> {
        server
            .file(ino)
            .layout
            .objects(ino)
            .map(|(.., presence)| presence)
            .collect()
    }

    #[test]
    fn the_first_writer_lays_the_file_out_and_the_next_finds_it_so() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        let begun = server.begin_write(file).unwrap();
        assert_eq!((begun.inline, begun.layout.components.len()), (None, 2));
        assert_eq!(presence(&server, file), [Presence::Maybe; 5]);
        assert_eq!(
            (server.count(Kind::Writer), server.file(file).writers),
            (1, 1)
        );
        let again = server.begin_write(file).unwrap();
        assert_eq!((again.layout, server.batch.len()), (begun.layout, 0));
        server.assert_clean();
    }

    #[test]
    fn the_last_word_says_which_objects_exist() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        let said = written(5 << 20, &[(0, 0), (1, 0)]);
        let attr = server.end_write(file, said.clone(), true).unwrap();
        assert_eq!((attr.size, attr.blocks), (5 << 20, 10 << 10));
        let (maybe, present, never) = (Presence::Maybe, Presence::Present, Presence::Never);
        assert_eq!(
            presence(&server, file),
            [present, present, maybe, maybe, maybe]
        );
        server.end_write(file, said.clone(), false).unwrap();
        assert_eq!(
            presence(&server, file),
            [present, present, never, never, never]
        );
        assert_eq!(server.count(Kind::Writer), 0);
        assert!(matches!(
            server.end_write(file, said, false),
            Err(Refusal::Malformed(_))
        ));
        // Who writes again may make any of them.
        server.begin_write(file).unwrap();
        assert_eq!(
            presence(&server, file),
            [present, present, maybe, maybe, maybe]
        );
        let bad = written(1, &[(2, 0)]);
        assert!(matches!(
            server.end_write(file, bad, false),
            Err(Refusal::Malformed(_))
        ));
        server.assert_clean();
    }

    #[test]
    fn inline_bytes_stay_until_they_are_safe_in_objects() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.write_inline(file, WriteAt::End, b"bytes").unwrap();
        let begun = server.begin_write(file).unwrap();
        assert_eq!(begun.inline.as_deref(), Some(&b"bytes"[..]));
        let spilled = Op::Spilled {
            ino: file,
            written: written(5, &[(0, 0)]),
        };
        assert_eq!(attr(server.ask(&Caller::root(), &spilled)).unwrap().size, 5);
        let opened = server.open(&Caller::root(), file, Access::READ).unwrap();
        assert_eq!(
            (opened.inline, presence(&server, file)[0]),
            (None, Presence::Present)
        );
        server.assert_clean();
    }

    #[test]
    fn a_writer_that_died_before_its_bytes_were_safe_leaves_the_inline_file() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.write_inline(file, WriteAt::End, b"bytes").unwrap();
        let old = server.begin_write(file).unwrap().layout;
        let recover = ChoreOp::RecoverWriter {
            ino: file,
            session: server.session,
            found: vec![],
        };
        server.chore(&recover).unwrap();
        let opened = server.open(&Caller::root(), file, Access::READ).unwrap();
        assert_eq!(
            (opened.inline.as_deref(), opened.layout.is_empty()),
            (Some(&b"bytes"[..]), true)
        );
        assert_eq!(
            (server.count(Kind::Purge), server.count(Kind::Writer)),
            (1, 0)
        );
        // Objects of the next layout are others than those to be purged.
        let new = server.begin_write(file).unwrap().layout;
        let most = old
            .components
            .iter()
            .map(|component| component.generation)
            .max();
        assert!(
            new.components
                .iter()
                .all(|component| Some(component.generation) > most)
        );
        server.assert_clean();
    }

    #[test]
    fn only_a_layout_that_could_be_forgotten_must_be_durable_first() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        assert!(!server.work.contains(&Work::Durable), "a new layout");
        server
            .end_write(file, written(100, &[(0, 0)]), false)
            .unwrap();
        // Its other objects were never made; from now on they may be, and that must not be forgotten.
        server.begin_write(file).unwrap();
        assert!(server.work.contains(&Work::Durable), "an old layout");
        // All objects are there, and somebody opens it to write again: that he does must not be forgotten either.
        server.begin_write(file).unwrap();
        assert!(!server.work.contains(&Work::Durable), "he is known");
        let all = [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)];
        server.end_write(file, written(100, &all), false).unwrap();
        server.begin_write(file).unwrap();
        assert!(server.work.contains(&Work::Durable), "a new writer");
    }

    #[test]
    fn after_a_writers_death_the_objects_say_what_it_wrote() {
        let mut server = Server::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, written(100, &[(0, 0)]), true)
            .unwrap();
        let late = Timestamp::new(9_000, 0);
        let stat = |size, mtime| {
            Some(ObjectStat {
                size,
                blocks: 8,
                mtime,
            })
        };
        let found = vec![
            (0, 0, stat(4 << 20, Timestamp::new(1, 0))),
            (1, 0, None),
            (1, 1, stat(7, late)),
            (1, 2, None),
            (1, 3, None),
        ];
        let recover = ChoreOp::RecoverWriter {
            ino: file,
            session: server.session,
            found,
        };
        server.chore(&recover).unwrap();
        let attr = server.getattr(file).unwrap();
        assert_eq!((attr.size, attr.blocks), ((5 << 20) + 7, 16));
        assert_eq!((attr.mtime, attr.ctime), (late, late));
        use Presence::{Maybe, Never, Present};
        assert_eq!(
            presence(&server, file),
            [Present, Never, Maybe, Never, Never]
        );
        server.assert_clean();
        server.chore(&recover).unwrap();
        assert_eq!(server.batch, vec![]);
    }

    #[test]
    fn a_lost_object_is_not_taken_for_a_hole() {
        let mut server = Server::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.begin_write(file).unwrap();
        server
            .end_write(file, written(100, &[(0, 0)]), true)
            .unwrap();
        let found = (0..1).map(|stripe| (0, stripe, None)).collect();
        server
            .chore(&ChoreOp::RecoverWriter {
                ino: file,
                session: server.session,
                found,
            })
            .unwrap();
        assert_eq!(presence(&server, file)[0], Presence::Present);
        assert_eq!(server.getattr(file).unwrap().size, 100);
    }

    #[test]
    fn without_a_target_there_is_no_space() {
        let mut server = Server::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server
            .targets
            .iter_mut()
            .for_each(|target| target.usable = target.ost == OstId(9));
        assert_eq!(server.begin_write(file), Err(Refusal::NoSpace));
    }
}
