//! Files with a write lease of another session: the lease holder's attributes are newer than the record (docs/decisions,
//! "One session has the write lease of a file").
//!
//! At most one live session has an exclusive write lease of a file, or any number have concurrent ones. An operation of another session
//! that reads attributes which the leases cover (size, times, presence) first needs the holders' attribute reports; one that changes them
//! needs the leases revoked.

use crate::driver::{LeaseCallback, OpError, OpResult, Prerequisite};
use crate::key::{KeyRange, ParsedKey, RecordKey};
use crate::record::{Inode, WriteLease, WriteLeaseMode};
use crate::requester::RequestingSession;
use crate::view::{ReadView, decode};
use gupfs_proto::{InodeId, SessionId};

/// Requires the attribute report of another session that has the write lease. An operation calls this before it returns
/// attributes of the file.
pub(crate) fn require_attr_report(
    view: &mut ReadView,
    session: &RequestingSession,
    inode: &Inode,
) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "require_attr_report");
    // A replayed operation got its reply, with the holder's report, in its original execution.
    let is_reported = session.is_replay || session.callbacks.has_report(inode.ino, inode.size);
    if is_reported || !is_leased_by_other(view, session, inode)? {
        return Ok(());
    }
    Err(required(inode, LeaseCallback::Glimpse))
}

/// Requires that no other session has the write lease. An operation calls this before it changes size, contents or times of the
/// file.
pub(crate) fn require_revoked(
    view: &mut ReadView,
    session: &RequestingSession,
    inode: &Inode,
) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "require_revoked");
    if !is_leased_by_other(view, session, inode)? {
        return Ok(());
    }
    Err(required(inode, LeaseCallback::Revoke))
}

/// Requires that no other session has an exclusive write lease.
pub(crate) fn require_downgraded(
    view: &mut ReadView,
    session: &RequestingSession,
    inode: &Inode,
) -> OpResult<()> {
    let modes = modes_of_others(view, session, inode)?;
    match modes.contains(&WriteLeaseMode::Exclusive) {
        true => Err(required(inode, LeaseCallback::Downgrade)),
        false => Ok(()),
    }
}

/// Whether another session has a concurrent write lease.
pub(crate) fn has_concurrent(
    view: &mut ReadView,
    session: &RequestingSession,
    inode: &Inode,
) -> OpResult<bool> {
    let modes = modes_of_others(view, session, inode)?;
    Ok(modes.contains(&WriteLeaseMode::Concurrent))
}

/// The modes of the write leases of some other sessions. The holder of an exclusive lease is the only one, but for dead ones that are
/// unreachable: so two records beside those show it.
fn modes_of_others(
    view: &mut ReadView,
    session: &RequestingSession,
    inode: &Inode,
) -> OpResult<Vec<WriteLeaseMode>> {
    let ino = inode.ino;
    let some = match session.callbacks.has_unreachable(ino) {
        true => inode.file()?.write_leases as usize,
        false => 2,
    };
    let mut modes = Vec::new();
    for (key, value) in view.scan(KeyRange::write_leases(ino), some)? {
        let Some(ParsedKey::WriteLease { session: by, .. }) = key.parse() else {
            continue;
        };
        if by != session.id && !session.callbacks.is_unreachable(ino, by) {
            modes.push(decode::<WriteLease>(&key, &value)?.mode);
        }
    }
    Ok(modes)
}

/// The mode of the session's own write lease, if it has one.
pub(crate) fn mode_of(
    view: &ReadView,
    session: SessionId,
    ino: InodeId,
) -> OpResult<Option<WriteLeaseMode>> {
    let lease = view.get::<WriteLease>(&RecordKey::write_lease(ino, session))?;
    Ok(lease.map(|lease| lease.mode))
}

fn required(inode: &Inode, callback: LeaseCallback) -> OpError {
    let ino = inode.ino;
    Prerequisite::Callback { ino, callback }.into()
}

/// Whether a session other than the requesting one has the file's write lease.
pub(crate) fn is_leased_by_other(
    view: &mut ReadView,
    session: &RequestingSession,
    inode: &Inode,
) -> OpResult<bool> {
    let ino = inode.ino;
    let leases = match inode.file() {
        Ok(file) => file.write_leases,
        Err(_) => 0,
    };
    // The common cases: no session has the lease, or only the requesting one.
    if leases == 0 {
        return Ok(false);
    }
    let has_lease = view
        .get::<WriteLease>(&RecordKey::write_lease(ino, session.id))?
        .is_some();
    if leases == u32::from(has_lease) {
        return Ok(false);
    }
    if !session.callbacks.has_unreachable(ino) {
        return Ok(true);
    }
    let records = view.scan(KeyRange::write_leases(ino), leases as usize)?;
    Ok(records.iter().any(|(key, _)| match key.parse() {
        Some(ParsedKey::WriteLease { session: by, .. }) => {
            by != session.id && !session.callbacks.is_unreachable(ino, by)
        }
        _ => false,
    }))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{CallbackResults, FollowUp, LeaseCallback, Prerequisite};
    use gupfs_proto::meta::{
        AccessMode, MetaOp, MetaReplyBody, RenameMode, SetAttr, SetTime, WritePosition,
    };
    use gupfs_proto::{Caller, FsError, InodeId, SessionId, Timestamp};

    fn chmod(ino: InodeId) -> MetaOp {
        let set = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        MetaOp::SetAttr { ino, set }
    }

    /// The callback that the operation needs; None if it completes without one.
    fn needed_callback(server: &mut TestServer, op: &MetaOp) -> Option<LeaseCallback> {
        server.prerequisite = None;
        let reply = server.request(&Caller::root(), op);
        match server.prerequisite.take() {
            Some(Prerequisite::Callback { callback, .. }) => Some(callback),
            Some(other) => panic!("{other:?}"),
            None => {
                reply.unwrap();
                None
            }
        }
    }

    fn lookup() -> MetaOp {
        MetaOp::Lookup {
            dir: ROOT,
            name: name("f"),
        }
    }

    fn rename() -> MetaOp {
        MetaOp::Rename {
            from: ROOT,
            name: name("f"),
            to: ROOT,
            new_name: name("g"),
            mode: RenameMode::Replace,
        }
    }

    #[test]
    fn operations_of_others_need_a_callback_and_the_lease_holders_own_never_do() {
        let (mut server, file) = leased_file();
        let link = MetaOp::Link {
            ino: file,
            dir: ROOT,
            name: name("l"),
        };
        let getattr = MetaOp::GetAttr { ino: file };
        let reading = [
            getattr,
            lookup(),
            open_op(file, AccessMode::READ, false),
            link,
            rename(),
        ];
        server.session = OTHER_SESSION;
        for op in &reading {
            assert_eq!(
                needed_callback(&mut server, op),
                Some(LeaseCallback::Glimpse),
                "{op:?}"
            );
        }
        let changing = [
            open_op(file, AccessMode::READ, true),
            chmod(file),
            MetaOp::Truncate {
                ino: file,
                to: 0,
                by_handle: true,
                kill_privileges: false,
            },
            MetaOp::BeginWrite {
                ino: file,
                kill_privileges: false,
            },
        ];
        for op in &changing {
            assert_eq!(
                needed_callback(&mut server, op),
                Some(LeaseCallback::Revoke),
                "{op:?}"
            );
        }
        server.callbacks.add_report(file, 1, 0);
        for op in &changing {
            assert_eq!(
                needed_callback(&mut server, op),
                Some(LeaseCallback::Revoke),
                "{op:?}, reported"
            );
        }
        for op in &reading {
            assert_eq!(needed_callback(&mut server, op), None, "{op:?}, reported");
        }
        server.callbacks = CallbackResults::default();
        server.session = SessionId(7);
        server
            .rename(
                &Caller::root(),
                (ROOT, "g"),
                (ROOT, "f"),
                RenameMode::Replace,
            )
            .unwrap();
        for op in [lookup(), rename(), chmod(file)].iter().chain(&changing) {
            assert_eq!(
                needed_callback(&mut server, op),
                None,
                "{op:?}, by the holder"
            );
        }
        server.assert_clean();
    }

    #[test]
    fn atime_reports_readdir_and_outgrown_writes_need_no_callback() {
        let (mut server, file) = leased_file();
        // No retransmissions: their replies carry current attributes, which need the holder's report.
        (server.session, server.replays) = (OTHER_SESSION, false);
        let set = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(5, 0))),
            ctime: Some(Timestamp::new(1, 0)),
            ..SetAttr::default()
        };
        assert_eq!(
            needed_callback(&mut server, &MetaOp::SetAttr { ino: file, set }),
            None
        );
        let outgrown = server.write_inline(file, WritePosition::End, b"x");
        assert_eq!(outgrown, Ok(MetaReplyBody::InlineTooLarge));
        let list = MetaOp::Readdir {
            dir: ROOT,
            after: 0,
            limit: 9,
            plus: true,
        };
        let Ok(MetaReplyBody::Entries { entries, .. }) = server.request(&Caller::root(), &list)
        else {
            panic!()
        };
        assert_eq!((entries.len(), entries[0].attr), (1, None));
    }

    #[test]
    fn a_dead_lease_holder_with_unreachable_objects_blocks_no_operation_and_hides_no_other_holder()
    {
        let (mut server, file) = leased_file();
        server.session = OTHER_SESSION;
        server.callbacks.add_unreachable(file, SessionId(7));
        assert_eq!(
            needed_callback(&mut server, &MetaOp::GetAttr { ino: file }),
            None
        );
        server.begin_write(file).unwrap();
        assert_eq!(server.file(file).write_leases, 2);
        server.session = SessionId(9);
        assert_eq!(
            needed_callback(&mut server, &MetaOp::GetAttr { ino: file }),
            Some(LeaseCallback::Glimpse)
        );
    }

    #[test]
    fn begin_write_queues_behind_earlier_requests_except_for_the_lease_holder() {
        let (mut server, file) = leased_file();
        server.must_queue = true;
        server.begin_write(file).unwrap();
        server.session = OTHER_SESSION;
        assert_eq!(server.begin_write(file), Err(FsError::Busy));
        assert_eq!(server.prerequisite, Some(Prerequisite::LeaseQueue(file)));
    }

    #[test]
    fn with_other_sessions_a_truncate_to_zero_truncates_the_objects_in_place() {
        let (mut server, file) = leased_file();
        server
            .end_write(file, report(6 << 20, &[(0, 0), (1, 0)]), false)
            .unwrap();
        let before = server.file(file).layout;
        let truncated = server.truncate(file, 0).unwrap();
        assert_eq!((truncated.attr.size, truncated.layout), (0, before));
        assert!(
            matches!(&server.follow_ups[..], [FollowUp::Truncate { objects, .. }]
            if objects.iter().all(|(.., to)| *to == 0))
        );
        server.assert_clean();
    }
}
