use crate::chores;
use crate::key::Key;
use crate::record::{Orphan, Session};
use crate::step::{Outcome, Work};
use crate::view::View;
use gupfs_proto::limits::{FORGOTTEN_MAX, SLOTS};
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, Refusal};

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
/// every inode that its kernel forgets. What does not fit into one batch goes on in the next.
pub(crate) fn forgotten(view: &mut View, inodes: &[InodeId]) -> Outcome<Answer> {
    if inodes.len() > FORGOTTEN_MAX {
        let (count, most) = (inodes.len(), FORGOTTEN_MAX);
        let why = format!("{count} inodes forgotten at once, at most {most} may be");
        return Err(Refusal::Malformed(why).into());
    }
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
        if view.has_changes() && view.room() < chores::FORGET_RECORDS {
            view.goes_on();
        }
        if view.is_unfinished() {
            break;
        }
        chores::forget(view, ino, session)?;
    }
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests {
    use crate::record::{Record, Xattr};
    use crate::testing::*;
    use crate::{ChoreOp, Key, Kind, Work};
    use bytes::Bytes;
    use gupfs_proto::meta::{Answer, Lane, Op};
    use gupfs_proto::{Caller, InodeId, Refusal, SessionId, Slot, VirtualShard};

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

    /// Gives the file `count` attributes with the longest names, as setxattr(2) would.
    fn give_attributes(server: &mut Server, ino: InodeId, count: usize) {
        let names: Vec<String> = (0..count).map(|n| format!("user.{n:0>250}")).collect();
        for name in &names {
            let key = Key::xattr(ino, name.as_bytes());
            server
                .records
                .insert(key, Xattr(Bytes::from_static(b"v")).encode());
        }
        server.edit(ino, |inode| {
            inode.xattrs = count as u32;
            inode.xattr_names = names.iter().map(|name| name.len() as u32 + 1).sum();
        });
    }

    #[test]
    fn many_files_with_many_attributes_are_forgotten_in_batches_of_bounded_size() {
        let mut server = Server::new(4);
        let root = Caller::root();
        let mut inodes = Vec::new();
        for i in 0..80 {
            let what = format!("f{i}");
            let ino = server.create(&root, ROOT, &what, 0o644).unwrap().ino;
            give_attributes(&mut server, ino, 250);
            server.unlink(&root, ROOT, &what).unwrap();
            inodes.push(ino);
        }
        server.assert_clean();
        assert_eq!(
            server.ask(&root, &Op::Forgotten { inodes }),
            Ok(Answer::Done)
        );
        // 5.4 MB of keys; each batch was looked at when it was made (`testing::server`).
        assert!(server.batches > 40, "{}", server.batches);
        for kind in [Kind::Xattr, Kind::Orphan] {
            assert_eq!(server.count(kind), 0, "{kind:?}");
        }
        assert_eq!(server.statfs().inodes, 1);
        server.assert_clean();
    }

    #[test]
    fn between_the_batches_of_one_request_all_fits_together_and_what_is_left_can_be_asked_again() {
        let mut server = Server::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        give_attributes(&mut server, file, 250);
        server.unlink(&root, ROOT, "f").unwrap();
        let op = Op::Forgotten { inodes: vec![file] };
        let lane = Some(Lane {
            slot: Slot(3),
            sequence: 1,
        });
        let mut attributes = Vec::new();
        loop {
            let effects = server.apply(&root, lane, crate::Op::Client(&op));
            server.commit(effects.batch);
            attributes.push(server.count(Kind::Xattr));
            server.assert_clean();
            if !effects.unfinished {
                break;
            }
            // The server may end here: the file is still the session's, whose end would do the rest.
            assert_eq!(
                (server.orphans(), server.count(Kind::Reply)),
                (vec![file], 1)
            );
        }
        assert_eq!(attributes, [186, 122, 58, 0]);
        assert_eq!((server.orphans(), server.count(Kind::Reply)), (vec![], 2));
    }

    #[test]
    fn more_inodes_than_one_request_may_name_are_refused() {
        let mut server = Server::new(1);
        let inodes = vec![ROOT; gupfs_proto::limits::FORGOTTEN_MAX + 1];
        let refused = server.ask(&Caller::root(), &Op::Forgotten { inodes });
        assert!(matches!(refused, Err(Refusal::Malformed(_))), "{refused:?}");
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
