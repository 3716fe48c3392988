use crate::chores;
use crate::key::Key;
use crate::record::{Orphan, Session};
use crate::step::{Outcome, Work};
use crate::view::View;
use gupfs_proto::InodeId;
use gupfs_proto::limits::SLOTS;
use gupfs_proto::meta::Answer;

/// Registers a client under the id that the driver chose; the driver answers when that is durable, so no id is given twice.
pub(crate) fn open_session(view: &mut View, client: &str) -> Outcome<Answer> {
    let session = view.ctx.session;
    let record = Session {
        client: client.to_owned(),
        created: view.ctx.now,
        connection: 0,
        slots: SLOTS,
        holds_leases: false,
    };
    view.put(Key::session(session), &record);
    let life = view.ctx.owner_epoch;
    Ok(Answer::Session {
        session,
        life,
        pass: None,
    })
}

/// The client leaves. What it still held is cleared up by chores.
pub(crate) fn close_session(view: &mut View) -> Outcome<Answer> {
    let session = view.ctx.session;
    view.remove(Key::session(session));
    view.work(Work::SessionEnded(session));
    Ok(Answer::Done)
}

/// Nobody of this session uses these inodes any more: those without a name go. Others are left alone, so a client may name
/// every inode that its kernel forgets.
pub(crate) fn forgotten(view: &mut View, inodes: &[InodeId]) -> Outcome<Answer> {
    let session = view.ctx.session;
    view.want(inodes.iter().map(|ino| Key::orphan(*ino, session)))?;
    let mut held = Vec::new();
    for ino in inodes {
        if view.get::<Orphan>(&Key::orphan(*ino, session))?.is_some() {
            held.push(*ino);
        }
    }
    view.want(held.iter().map(|ino| Key::inode(*ino)))?;
    for ino in held {
        chores::forget(view, ino, session)?;
    }
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{ChoreOp, Kind, Work};
    use gupfs_proto::meta::{Answer, Op};
    use gupfs_proto::{Caller, SessionId, VirtualShard};

    #[test]
    fn a_session_that_ends_leaves_nothing_behind() {
        for shards in [1, 2, 64] {
            let mut server = Server::new(shards);
            let root = Caller::root();
            for i in 0..10 {
                let dir = server
                    .mkdir(&root, ROOT, &format!("d{i}"), 0o755)
                    .unwrap()
                    .ino;
                let file = server.create(&root, dir, "f", 0o644).unwrap().ino;
                server.begin_write(file).unwrap();
                server.unlink(&root, dir, "f").unwrap();
            }
            let session = server.session;
            assert_eq!(server.ask(&root, &Op::CloseSession), Ok(Answer::Done));
            assert_eq!(server.work, [Work::SessionEnded(session)]);
            for ino in server.orphans() {
                server
                    .chore(&ChoreOp::ForgetOrphan { ino, session })
                    .unwrap();
            }
            for shard in (0..shards).map(VirtualShard) {
                server
                    .chore(&ChoreOp::DropSession { session, shard })
                    .unwrap();
            }
            for kind in [Kind::Session, Kind::Reply, Kind::Orphan, Kind::Writer] {
                assert_eq!(server.count(kind), 0, "{kind:?}");
            }
            assert_eq!(
                (server.count(Kind::Purge), server.statfs().inodes),
                (10, 11)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn what_two_sessions_hold_goes_with_the_second() {
        let mut server = Server::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.unlink(&root, ROOT, "f").unwrap();
        // Another session holds it too.
        let other = SessionId(8);
        let orphan = server.records[&crate::Key::orphan(file, server.session)].clone();
        server
            .records
            .insert(crate::Key::orphan(file, other), orphan);
        server.edit(file, |inode| inode.holders = 2);
        server.forget(file);
        assert!(server.getattr(file).is_ok());
        server.forget(file);
        assert!(server.getattr(file).is_ok());
        server.session = other;
        server.forget(file);
        assert!(server.getattr(file).is_err());
    }

    #[test]
    fn many_are_forgotten_in_one_batch() {
        let mut server = Server::new(64);
        let root = Caller::root();
        let mut inodes = vec![ROOT];
        for i in 0..100 {
            inodes.push(
                server
                    .create(&root, ROOT, &format!("f{i}"), 0o644)
                    .unwrap()
                    .ino,
            );
            server.unlink(&root, ROOT, &format!("f{i}")).unwrap();
        }
        (server.forgetful, server.repeats) = (true, false);
        assert_eq!(
            server.ask(&root, &Op::Forgotten { inodes }),
            Ok(Answer::Done)
        );
        // The lane, the orphans, the inodes, the usage of their shard.
        assert_eq!(server.attempts, 5);
        assert_eq!(
            (server.count(Kind::Inode), server.count(Kind::Orphan)),
            (1, 0)
        );
        server.assert_clean();
    }
}
