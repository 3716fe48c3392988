use crate::driver::{FollowUp, OpResult};
use crate::key::RecordKey;
use crate::record::{Orphan, SessionRecord};
use crate::steps::orphan;
use crate::view::OpView;
use gupfs_proto::limits::{FORGET_MAX, SLOTS};
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{FsError, InodeId, OwnerEpoch, SessionId};

/// Registers a client under the id that the driver chose; the driver replies when the record is durable, so no id is used twice.
pub(crate) fn open_session(
    view: &mut OpView,
    session: SessionId,
    owner_epoch: OwnerEpoch,
    client: &str,
) -> OpResult<MetaReplyBody> {
    let record = SessionRecord {
        client: client.to_owned(),
        created: view.now(),
        connection: 0,
        slots: SLOTS,
        holds_leases: false,
    };
    view.put(RecordKey::session(session), &record);
    Ok(MetaReplyBody::Session {
        session,
        instance: owner_epoch,
        session_capability: None,
    })
}

/// Ends a session. Background operations clean up its orphans and write leases.
pub(crate) fn close_session(view: &mut OpView, session: SessionId) -> OpResult<MetaReplyBody> {
    view.remove(RecordKey::session(session));
    view.add_follow_up(FollowUp::SessionEnded(session));
    Ok(MetaReplyBody::Done)
}

/// The session does not use these inodes any more: its orphans among them are removed. Other inodes do not change, so a client
/// may list every inode that its kernel forgets. What does not fit into one batch continues in the next.
pub(crate) fn forget(
    view: &mut OpView,
    session: SessionId,
    inodes: &[InodeId],
) -> OpResult<MetaReplyBody> {
    if inodes.len() > FORGET_MAX {
        let (count, most) = (inodes.len(), FORGET_MAX);
        let why = format!("{count} inodes in one forget request, at most {most} are allowed");
        return Err(FsError::Malformed(why).into());
    }
    view.prefetch(inodes.iter().map(|ino| RecordKey::orphan(*ino, session)))?;
    let mut orphans = Vec::new();
    for ino in inodes {
        if view
            .get::<Orphan>(&RecordKey::orphan(*ino, session))?
            .is_some()
        {
            orphans.push(*ino);
        }
    }
    view.prefetch(orphans.iter().map(|ino| RecordKey::inode(*ino)))?;
    for ino in orphans {
        if view.has_changes() && view.remaining_records() < orphan::FORGET_RECORDS {
            view.mark_unfinished();
        }
        if view.is_unfinished() {
            break;
        }
        orphan::forget_orphan(view, ino, session)?;
    }
    Ok(MetaReplyBody::Done)
}

#[cfg(test)]
mod tests {
    use crate::record::{Record, XattrRecord};
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKey, RecordKind};
    use bytes::Bytes;
    use gupfs_proto::meta::{MetaOp, MetaReplyBody, SlotSeq};
    use gupfs_proto::{Caller, FsError, InodeId, SessionId, Slot, VirtualShard};

    #[test]
    fn a_closed_session_leaves_no_records() {
        for shards in [1, 2, 64] {
            let mut server = TestServer::new(shards);
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
            assert_eq!(
                server.request(&root, &MetaOp::CloseSession),
                Ok(MetaReplyBody::Done)
            );
            assert_eq!(server.follow_ups, [FollowUp::SessionEnded(session)]);
            for ino in server.orphans() {
                server
                    .run_background(&BackgroundOp::ForgetOrphan { ino, session })
                    .unwrap();
            }
            for shard in (0..shards).map(VirtualShard) {
                server
                    .run_background(&BackgroundOp::DropSession { session, shard })
                    .unwrap();
            }
            for kind in [
                RecordKind::Session,
                RecordKind::Reply,
                RecordKind::Orphan,
                RecordKind::WriteLease,
            ] {
                assert_eq!(server.count(kind), 0, "{kind:?}");
            }
            assert_eq!(
                (server.count(RecordKind::Purge), server.statfs().inodes),
                (10, 11)
            );
            server.assert_clean();
        }
    }

    #[test]
    fn an_orphan_of_two_sessions_is_removed_when_the_second_forgets_it() {
        let mut server = TestServer::new(2);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.unlink(&root, ROOT, "f").unwrap();
        // Another session uses it too.
        let other = SessionId(8);
        let orphan = server.records[&crate::RecordKey::orphan(file, server.session)].clone();
        server
            .records
            .insert(crate::RecordKey::orphan(file, other), orphan);
        server.edit(file, |inode| inode.orphan_records = 2);
        server.forget(file);
        assert!(server.getattr(file).is_ok());
        server.forget(file);
        assert!(server.getattr(file).is_ok());
        server.session = other;
        server.forget(file);
        assert!(server.getattr(file).is_err());
    }

    /// Adds `count` extended attributes with the longest names to the file, as setxattr(2) would.
    fn give_attributes(server: &mut TestServer, ino: InodeId, count: usize) {
        let names: Vec<String> = (0..count).map(|n| format!("user.{n:0>250}")).collect();
        for name in &names {
            let key = RecordKey::xattr(ino, name.as_bytes());
            server
                .records
                .insert(key, XattrRecord(Bytes::from_static(b"v")).encode());
        }
        server.edit(ino, |inode| {
            inode.xattrs = count as u32;
            inode.xattr_names = names.iter().map(|name| name.len() as u32 + 1).sum();
        });
    }

    #[test]
    fn many_files_with_many_attributes_are_forgotten_in_batches_of_bounded_size() {
        let mut server = TestServer::new(4);
        let root = Caller::root();
        let mut inodes = Vec::new();
        for i in 0..80 {
            let text = format!("f{i}");
            let ino = server.create(&root, ROOT, &text, 0o644).unwrap().ino;
            give_attributes(&mut server, ino, 250);
            server.unlink(&root, ROOT, &text).unwrap();
            inodes.push(ino);
        }
        server.assert_clean();
        assert_eq!(
            server.request(&root, &MetaOp::Forget { inodes }),
            Ok(MetaReplyBody::Done)
        );
        // 5.4 MB of keys; `testing::server` checked the size of each batch.
        assert!(server.batches > 40, "{}", server.batches);
        for kind in [RecordKind::Xattr, RecordKind::Orphan] {
            assert_eq!(server.count(kind), 0, "{kind:?}");
        }
        assert_eq!(server.statfs().inodes, 1);
        server.assert_clean();
    }

    #[test]
    fn records_are_consistent_between_the_batches_of_one_request() {
        let mut server = TestServer::new(1);
        let root = Caller::root();
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        give_attributes(&mut server, file, 250);
        server.unlink(&root, ROOT, "f").unwrap();
        let op = MetaOp::Forget { inodes: vec![file] };
        let slot_seq = Some(SlotSeq {
            slot: Slot(3),
            sequence: 1,
        });
        let mut attributes = Vec::new();
        loop {
            let effects = server.apply(&root, slot_seq, crate::Operation::Client(&op));
            server.commit(effects.batch);
            attributes.push(server.count(RecordKind::Xattr));
            server.assert_clean();
            if !effects.unfinished {
                break;
            }
            // If the server stops here, the file is still an orphan of the session, whose end would complete the rest.
            assert_eq!(
                (server.orphans(), server.count(RecordKind::Reply)),
                (vec![file], 1)
            );
        }
        assert_eq!(attributes, [186, 122, 58, 0]);
        assert_eq!(
            (server.orphans(), server.count(RecordKind::Reply)),
            (vec![], 2)
        );
    }

    #[test]
    fn more_inodes_than_one_request_may_name_are_refused() {
        let mut server = TestServer::new(1);
        let inodes = vec![ROOT; gupfs_proto::limits::FORGET_MAX + 1];
        let refused = server.request(&Caller::root(), &MetaOp::Forget { inodes });
        assert!(matches!(refused, Err(FsError::Malformed(_))), "{refused:?}");
    }

    #[test]
    fn many_inodes_are_forgotten_in_one_batch() {
        let mut server = TestServer::new(64);
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
        (server.cold_cache, server.replays) = (true, false);
        assert_eq!(
            server.request(&root, &MetaOp::Forget { inodes }),
            Ok(MetaReplyBody::Done)
        );
        // The stored reply, the orphans, the inodes, the usage of their shard.
        assert_eq!(server.attempts, 5);
        assert_eq!(
            (
                server.count(RecordKind::Inode),
                server.count(RecordKind::Orphan)
            ),
            (1, 0)
        );
        server.assert_clean();
    }
}
