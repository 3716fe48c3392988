use crate::key::Key;
use crate::record::Unconfirmed;
use crate::step::{Outcome, Work};
use crate::view::View;
use gupfs_proto::{InodeId, Presence};

/// Which objects of a file that was closed without a sync are there for good. Those that are not were never made, or a power
/// cut took them before anybody synced them: they are holes, unless somebody writes the file and may be making one.
pub(crate) fn confirmed(view: &mut View, ino: InodeId, found: &[(u32, u32, bool)]) -> Outcome<()> {
    view.remove(Key::unconfirmed(ino));
    let Some(inode) = view.find_inode(ino)? else {
        return Ok(());
    };
    let mut layout = inode.file()?.layout.clone();
    let is_written = inode.file()?.writers > 0;
    for (component, stripe, there) in found {
        let Some(component) = layout.components.get_mut(*component as usize) else {
            continue;
        };
        let stripe = *stripe as usize;
        match (component.presence.get(stripe), there) {
            (Presence::Maybe, true) => component.presence.set(stripe, Presence::Present),
            (Presence::Maybe, false) if !is_written => {
                component.presence.set(stripe, Presence::Never);
            }
            _ => {}
        }
    }
    if layout != inode.file()?.layout {
        view.change_file(ino, |_, file| file.layout = layout)?;
    }
    Ok(())
}

/// Lets the chore know that objects of this file are to be confirmed.
pub(crate) fn expect(view: &mut View, ino: InodeId) {
    let since = view.ctx.now;
    view.put(Key::unconfirmed(ino), &Unconfirmed { since });
    view.work(Work::Confirm(ino));
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{ChoreOp, Kind, Work};
    use gupfs_proto::data::ObjectStat;
    use gupfs_proto::meta::{Op, Written};
    use gupfs_proto::{Caller, InodeId, Presence, Timestamp};

    fn presence(server: &Server, ino: InodeId) -> Vec<Presence> {
        let layout = server.file(ino).layout;
        layout.objects(ino).map(|(.., presence)| presence).collect()
    }

    fn unsynced(size: u64, objects: &[(u32, u32)]) -> Written {
        Written {
            unsynced: objects.to_vec(),
            ..written(size, &[])
        }
    }

    /// A file that was closed without a sync: two of its objects are there.
    fn closed(server: &mut Server) -> InodeId {
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server.begin_write(file).unwrap();
        let said = unsynced(5 << 20, &[(0, 0), (1, 0)]);
        server.end_write(file, said, false).unwrap();
        assert!(server.work.contains(&Work::Confirm(file)));
        file
    }

    #[test]
    fn what_was_not_synced_is_in_doubt_until_it_is_confirmed() {
        let mut server = Server::new(2);
        let file = closed(&mut server);
        let (maybe, present, never) = (Presence::Maybe, Presence::Present, Presence::Never);
        assert_eq!(presence(&server, file), [maybe, maybe, never, never, never]);
        assert_eq!(server.count(Kind::Unconfirmed), 1);
        server.assert_clean();
        // A power cut has taken one of them.
        let found = vec![(0, 0, true), (1, 0, false)];
        let confirmed = ChoreOp::Confirmed { ino: file, found };
        server.chore(&confirmed).unwrap();
        assert_eq!(
            presence(&server, file),
            [present, never, never, never, never]
        );
        assert_eq!(server.count(Kind::Unconfirmed), 0);
        server.assert_clean();
        server.chore(&confirmed).unwrap();
    }

    #[test]
    fn an_object_that_somebody_may_be_making_stays_in_doubt() {
        let mut server = Server::new(2);
        let file = closed(&mut server);
        server.begin_write(file).unwrap();
        let found = vec![(0, 0, true), (1, 0, false)];
        server
            .chore(&ChoreOp::Confirmed { ino: file, found })
            .unwrap();
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Present, Presence::Maybe]
        );
    }

    #[test]
    fn who_ends_last_does_not_forget_what_another_left_in_doubt() {
        let mut server = Server::new(2);
        let file = closed(&mut server);
        server.begin_write(file).unwrap();
        server
            .end_write(file, written(5 << 20, &[(0, 0)]), false)
            .unwrap();
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Present, Presence::Maybe]
        );
        assert_eq!(server.count(Kind::Unconfirmed), 1);
    }

    #[test]
    fn an_object_that_was_there_before_is_not_in_doubt_again() {
        let mut server = Server::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        for said in [written(9, &[(0, 0)]), unsynced(9, &[(0, 0)])] {
            server.begin_write(file).unwrap();
            server.end_write(file, said, false).unwrap();
        }
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Present, Presence::Never]
        );
        assert_eq!(server.count(Kind::Unconfirmed), 0);
    }

    #[test]
    fn a_file_that_is_removed_leaves_no_doubt() {
        let mut server = Server::new(2);
        let file = closed(&mut server);
        server.truncate(file, 0).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        let op = Op::Forgotten { inodes: vec![file] };
        server.ask(&Caller::root(), &op).unwrap();
        assert_eq!(
            (server.count(Kind::Unconfirmed), server.count(Kind::Inode)),
            (0, 1)
        );
        server.assert_clean();
        let gone = ChoreOp::Confirmed {
            ino: file,
            found: vec![],
        };
        server.chore(&gone).unwrap();
    }

    #[test]
    fn after_a_writers_death_its_objects_are_in_doubt() {
        let mut server = Server::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server.begin_write(file).unwrap();
        let stat = ObjectStat {
            size: 9,
            blocks: 8,
            mtime: Timestamp::new(1, 0),
        };
        let recover = ChoreOp::RecoverWriter {
            ino: file,
            session: server.session,
            found: vec![(0, 0, Some(stat)), (1, 0, None)],
        };
        server.chore(&recover).unwrap();
        assert_eq!(
            presence(&server, file)[..2],
            [Presence::Maybe, Presence::Never]
        );
        assert!(server.work.contains(&Work::Confirm(file)));
        server.assert_clean();
    }
}
