use crate::driver::{OpResult, Prerequisite};
use crate::ops::begin_write::{self, PlacementContext};
use crate::record::WriteLeaseMode;
use crate::requester::RequestingSession;
use crate::steps::write_lease_grant::{self, LeaseGrant};
use crate::steps::{orphan, privileges, truncation, write_lease};
use crate::view::OpView;
use crate::{flag_checks, record};
use gupfs_proto::meta::MetaReplyBody;
use gupfs_proto::{Caller, InodeId};

/// A session acquires a write lease for writes at given offsets: a concurrent one where other sessions write the file too, or else the
/// exclusive one, as `begin_write`. The record is durable before the session writes.
///
/// `contended`: the session has lost its lease a moment ago. So the holder of an exclusive lease keeps a concurrent one.
pub(crate) fn begin_write_at(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    context: &PlacementContext,
    ino: InodeId,
    kill_privileges: bool,
    contended: bool,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "begin_write_at");
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    let recorded = write_lease::mode_of(view, session.id, ino)?;
    let is_concurrent = match recorded {
        Some(mode) => mode == WriteLeaseMode::Concurrent,
        None => {
            may_have_several_writers(file)
                && write_lease::is_leased_by_other(view, session, &inode)?
                && (contended || write_lease::has_concurrent(view, session, &inode)?)
        }
    };
    if !is_concurrent {
        let opened =
            begin_write::begin_write(view, session, caller, context, ino, kill_privileges)?;
        return match opened {
            MetaReplyBody::Opened(opened) => Ok(MetaReplyBody::WriteBegun {
                opened,
                is_concurrent,
            }),
            other => Ok(other),
        };
    }
    orphan::check_orphan_user(view, session, &inode, false)?;
    flag_checks::check_contents(&inode)?;
    if recorded.is_none() {
        if session.must_queue {
            return Err(Prerequisite::LeaseQueue(ino).into());
        }
        write_lease::require_downgraded(view, session, &inode)?;
    }
    truncation::check_no_unfinished_truncate(file, ino)?;
    let grant = LeaseGrant {
        mode: WriteLeaseMode::Concurrent,
        layout: file.layout.clone(),
        must_be_durable: true,
    };
    write_lease_grant::grant(view, session.id, ino, grant)?;
    privileges::kill_after_client_write(view, caller, ino, kill_privileges)?;
    Ok(MetaReplyBody::WriteBegun {
        opened: view.inode(ino)?.open_info(false),
        is_concurrent,
    })
}

/// The first writer of a file moves its inline bytes to objects: until then there can be no other.
///
/// Of a mirrored file the session with the lease keeps the members equal: there is one at a time.
fn may_have_several_writers(file: &record::FileBody) -> bool {
    !file.layout.is_empty() && file.inline.is_empty() && !file.layout.is_mirrored()
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{FollowUp, LeaseCallback, Prerequisite, RecordKind};
    use gupfs_proto::meta::{AccessMode, AttrReport, MetaOp, MetaReplyBody, WritePosition};
    use gupfs_proto::{Caller, FsError, InodeId, Presence, SessionId, Timestamp};

    /// The holder of the lease in `leased_file`.
    const ONE: SessionId = SessionId(7);

    /// Whether the lease is concurrent, and the size in the reply.
    fn begin(
        server: &mut TestServer,
        ino: InodeId,
        contended: bool,
    ) -> Result<(bool, u64), FsError> {
        server.prerequisite = None;
        let op = MetaOp::BeginWriteAt {
            ino,
            kill_privileges: false,
            contended,
        };
        match server.request(&Caller::root(), &op)? {
            MetaReplyBody::WriteBegun {
                opened,
                is_concurrent,
            } => Ok((is_concurrent, opened.attr.size)),
            other => panic!("{other:?}"),
        }
    }

    fn downgrade(server: &mut TestServer, ino: InodeId, report: AttrReport) {
        let op = MetaOp::DowngradeWrite { ino, report };
        server.request(&Caller::root(), &op).unwrap();
    }

    fn upgrade(server: &mut TestServer, ino: InodeId) -> Result<MetaReplyBody, FsError> {
        let op = MetaOp::UpgradeWrite { ino };
        server.request(&Caller::root(), &op)
    }

    fn callback(server: &TestServer) -> Option<LeaseCallback> {
        match &server.prerequisite {
            Some(Prerequisite::Callback { callback, .. }) => Some(*callback),
            _ => None,
        }
    }

    /// A file that two sessions write; the first has reported 100 bytes.
    fn file_of_two_writers() -> (TestServer, InodeId) {
        let (mut server, file) = leased_file();
        server.session = OTHER_SESSION;
        assert_eq!(begin(&mut server, file, false), Err(FsError::Busy));
        assert_eq!(callback(&server), Some(LeaseCallback::Revoke));
        assert_eq!(begin(&mut server, file, true), Err(FsError::Busy));
        assert_eq!(callback(&server), Some(LeaseCallback::Downgrade));
        server.session = ONE;
        downgrade(&mut server, file, report(100, &[(0, 0)]));
        server.session = OTHER_SESSION;
        assert_eq!(begin(&mut server, file, true), Ok((true, 100)));
        assert!(server.follow_ups.contains(&FollowUp::AwaitDurable));
        assert_eq!(server.file(file).write_leases, 2);
        (server, file)
    }

    #[test]
    fn sessions_with_concurrent_leases_report_what_each_has_written() {
        let (mut server, file) = file_of_two_writers();
        let report = |size, mtime| AttrReport {
            mtime: Some(Timestamp::new(mtime, 0)),
            blocks: size / 512,
            ..report(size, &[])
        };
        server.now = Timestamp::new(9_000, 0);
        server.end_write(file, report(4096, 5_000), true).unwrap();
        server.session = ONE;
        let attr = server.end_write(file, report(1024, 6_000), true).unwrap();
        assert_eq!(
            (attr.size, attr.blocks, attr.mtime.secs),
            (4096, 8, 6_000),
            "the larger of each"
        );
        server.session = OTHER_SESSION;
        let attr = server.end_write(file, report(512, 5_500), false).unwrap();
        assert_eq!((attr.size, attr.mtime.secs), (4096, 6_000));
        assert_eq!(server.file(file).write_leases, 1);
        server.assert_clean();
    }

    #[test]
    fn the_last_of_several_writers_leaves_the_objects_to_be_confirmed() {
        let (mut server, file) = file_of_two_writers();
        let last = report(100, &[]);
        server.end_write(file, last.clone(), false).unwrap();
        server.session = ONE;
        server.end_write(file, last, false).unwrap();
        assert!(server.follow_ups.contains(&FollowUp::Confirm(file)));
        assert_eq!(server.presence(file)[0], Presence::Present);
        assert!(!server.presence(file).contains(&Presence::Never));
        assert_eq!(server.count(RecordKind::WriteLease), 0);
        server.assert_clean();
    }

    #[test]
    fn a_third_writer_needs_no_callback_and_a_change_of_the_file_all() {
        let (mut server, file) = file_of_two_writers();
        server.session = SessionId(9);
        assert_eq!(begin(&mut server, file, false), Ok((true, 100)));
        assert_eq!(server.file(file).write_leases, 3);
        server.session = SessionId(10);
        assert_eq!(server.begin_write(file), Err(FsError::Busy));
        assert_eq!(callback(&server), Some(LeaseCallback::Revoke));
        let _ = server.request(&Caller::root(), &MetaOp::GetAttr { ino: file });
        assert_eq!(callback(&server), Some(LeaseCallback::Glimpse));
    }

    #[test]
    fn a_session_upgrades_its_lease_only_when_no_other_writes() {
        let (mut server, file) = file_of_two_writers();
        server.prerequisite = None;
        assert_eq!(upgrade(&mut server, file), Err(FsError::Busy));
        assert_eq!(server.begin_write(file), Err(FsError::Busy));
        assert_eq!(server.prerequisite, None, "its own operation never waits");
        server.session = ONE;
        server
            .end_write(file, report(200, &[(0, 0)]), false)
            .unwrap();
        assert!(matches!(
            upgrade(&mut server, file),
            Err(FsError::Malformed(_))
        ));
        server.session = OTHER_SESSION;
        assert!(matches!(
            upgrade(&mut server, file),
            Ok(MetaReplyBody::Opened(opened)) if opened.attr.size == 200
        ));
        // Its reports are absolute again.
        let attr = server.end_write(file, report(50, &[]), true).unwrap();
        assert_eq!(attr.size, 50);
        server.session = ONE;
        assert_eq!(begin(&mut server, file, true), Err(FsError::Busy));
        assert_eq!(callback(&server), Some(LeaseCallback::Downgrade));
        server.assert_clean();
    }

    #[test]
    fn a_repeated_request_changes_nothing() {
        let (mut server, file) = file_of_two_writers();
        server.follow_ups.clear();
        assert_eq!(begin(&mut server, file, false), Ok((true, 100)));
        assert_eq!((server.batch.len(), server.file(file).write_leases), (0, 2));
        server.session = ONE;
        downgrade(&mut server, file, report(20, &[]));
        let opened = server.open(&Caller::root(), file, AccessMode::READ);
        assert_eq!(
            opened,
            Err(FsError::Busy),
            "the other one's report is missing"
        );
        assert_eq!(callback(&server), Some(LeaseCallback::Glimpse));
        server.callbacks.add_report(file, 1, 0);
        let opened = server.open(&Caller::root(), file, AccessMode::READ);
        assert_eq!(
            opened.unwrap().attr.size,
            100,
            "a report never makes it smaller"
        );
    }

    #[test]
    fn a_time_that_a_program_has_set_is_replaced_by_the_next_write() {
        let (mut server, file) = file_of_two_writers();
        let now = server.now;
        let later = Timestamp::new(now.secs + 1000, 0);
        server.edit(file, |inode| inode.mtime = later);
        let report = AttrReport {
            mtime: Some(now),
            ..report(100, &[])
        };
        let attr = server.end_write(file, report, true).unwrap();
        assert_eq!(attr.mtime, now);
    }

    #[test]
    fn the_only_writer_gets_the_exclusive_lease() {
        let mut server = TestServer::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        assert_eq!(begin(&mut server, file, true), Ok((false, 0)));
        server.session = OTHER_SESSION;
        assert_eq!(begin(&mut server, file, true), Err(FsError::Busy));
        assert_eq!(callback(&server), Some(LeaseCallback::Downgrade));
    }

    #[test]
    fn a_file_with_inline_bytes_has_one_writer() {
        let mut server = TestServer::new(2);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        server.begin_write(file).unwrap();
        server.session = OTHER_SESSION;
        assert_eq!(begin(&mut server, file, true), Err(FsError::Busy));
        assert_eq!(callback(&server), Some(LeaseCallback::Revoke));
    }
}
