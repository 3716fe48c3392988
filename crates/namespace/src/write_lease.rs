//! Files with a write lease of another session: the lease holder's attributes are newer than the record (docs/decisions,
//! "One session has the write lease of a file").
//!
//! At most one live session has the write lease of a file. An operation of another session that reads attributes which the lease
//! covers (size, times, presence) first needs the holder's attribute report; one that changes them needs the lease revoked.

use crate::driver::{OpResult, Prerequisite};
use crate::key::{KeyRange, ParsedKey, RecordKey};
use crate::record::{Inode, Orphan, WriteLease};
use crate::view::OpView;
use gupfs_proto::{FsError, InodeId, SessionId};
use std::collections::BTreeSet;

/// The session id under which an unlinked file is kept until all sessions were asked whether they have it open.
pub const UNASKED_SESSIONS: SessionId = SessionId(0);

/// The results of the callbacks that the driver made to lease holders for the current operation.
#[derive(Clone, Debug, Default)]
pub struct CallbackResults {
    reported: BTreeSet<InodeId>,
    unreachable: BTreeSet<(InodeId, SessionId)>,
}

impl CallbackResults {
    /// The file's lease holder has reported its attributes since the operation arrived. The operation need not see later writes.
    pub fn add_report(&mut self, ino: InodeId) {
        self.reported.insert(ino);
    }

    /// This lease holder is dead and the file's objects cannot be queried now: operations do not wait for its report.
    pub fn add_unreachable(&mut self, ino: InodeId, session: SessionId) {
        self.unreachable.insert((ino, session));
    }
}

/// Must be called before attributes of the file are returned.
pub(crate) fn require_attr_report(view: &mut OpView, inode: &Inode) -> OpResult<()> {
    // A replayed operation got its reply, with the holder's report, in its original execution.
    let is_reported = view.ctx.replay.is_some() || view.ctx.callbacks.reported.contains(&inode.ino);
    if is_reported || !is_leased_by_other(view, inode)? {
        return Ok(());
    }
    let revoke = false;
    Err(Prerequisite::Callback {
        ino: inode.ino,
        revoke,
    }
    .into())
}

/// Must be called before size, content or times of the file are changed.
pub(crate) fn require_revoked(view: &mut OpView, inode: &Inode) -> OpResult<()> {
    if !is_leased_by_other(view, inode)? {
        return Ok(());
    }
    let revoke = true;
    Err(Prerequisite::Callback {
        ino: inode.ino,
        revoke,
    }
    .into())
}

/// Whether a session other than the requesting one has the file's write lease.
pub(crate) fn is_leased_by_other(view: &mut OpView, inode: &Inode) -> OpResult<bool> {
    let ino = inode.ino;
    let leases = match inode.file() {
        Ok(file) => file.write_leases,
        Err(_) => 0,
    };
    // The common cases: no session has the lease, or only the requesting one.
    if leases == 0 {
        return Ok(false);
    }
    let session = view.ctx.session;
    let has_lease = view
        .get::<WriteLease>(&RecordKey::write_lease(ino, session))?
        .is_some();
    if leases == u32::from(has_lease) {
        return Ok(false);
    }
    let unreachable = &view.ctx.callbacks.unreachable;
    if !unreachable.iter().any(|(of, _)| *of == ino) {
        return Ok(true);
    }
    let records = view.scan(KeyRange::write_leases(ino), leases as usize)?;
    Ok(records.iter().any(|(key, _)| match key.parse() {
        Some(ParsedKey::WriteLease { session: by, .. }) => {
            by != session && !unreachable.contains(&(ino, by))
        }
        _ => false,
    }))
}

/// A file that has lost its last name may be used only by sessions that are recorded as having it open. `opens`: for a new open a
/// session that was not asked yet is refused, since its reply "not open" may be under way.
///
/// # Errors
/// `Stale`: the file's last name was removed.
pub(crate) fn check_orphan_user(view: &mut OpView, inode: &Inode, opens: bool) -> OpResult<()> {
    // With a single session, a session that knows the inode number is the one that has it open.
    if inode.names > 0 || view.ctx.is_only_session {
        return Ok(());
    }
    let (ino, session) = (inode.ino, view.ctx.session);
    let mut known = view
        .get::<Orphan>(&RecordKey::orphan(ino, session))?
        .is_some();
    if !known && !opens {
        known = view
            .get::<Orphan>(&RecordKey::orphan(ino, UNASKED_SESSIONS))?
            .is_some();
    }
    if known {
        Ok(())
    } else {
        Err(FsError::Stale.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use crate::{BackgroundOp, FollowUp, RecordKind};
    use gupfs_proto::meta::{
        AccessMode, MetaOp, MetaReplyBody, OpenMode, RenameMode, SetAttr, SetTime, WritePosition,
    };
    use gupfs_proto::{Caller, Timestamp};

    const OTHER: SessionId = SessionId(8);

    /// Two sessions, and a file with a write lease of the first.
    fn leased_file() -> (TestServer, InodeId) {
        let mut server = TestServer::new(2);
        let one = std::mem::replace(&mut server.session, OTHER);
        let client = "other".into();
        server
            .request(&Caller::root(), &MetaOp::OpenSession { client })
            .unwrap();
        (server.session, server.is_only_session) = (one, false);
        let created = server.create(&Caller::root(), ROOT, "f", 0o644);
        let file = created.unwrap().ino;
        server.begin_write(file).unwrap();
        (server, file)
    }

    fn open(ino: InodeId, access: AccessMode, truncate: bool) -> MetaOp {
        let open = OpenMode {
            access,
            truncate,
            kill_privileges: false,
        };
        MetaOp::Open { ino, open }
    }

    fn chmod(ino: InodeId) -> MetaOp {
        let set = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        MetaOp::SetAttr { ino, set }
    }

    /// The callback that the operation needs: Some(revoke), or None if it completes without one.
    fn needs(server: &mut TestServer, op: &MetaOp) -> Option<bool> {
        server.prerequisite = None;
        let reply = server.request(&Caller::root(), op);
        match server.prerequisite.take() {
            Some(Prerequisite::Callback { revoke, .. }) => Some(revoke),
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
            open(file, AccessMode::READ, false),
            link,
            rename(),
        ];
        server.session = OTHER;
        for op in &reading {
            assert_eq!(needs(&mut server, op), Some(false), "{op:?}");
        }
        let changing = [
            open(file, AccessMode::READ, true),
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
            assert_eq!(needs(&mut server, op), Some(true), "{op:?}");
        }
        server.callbacks.add_report(file);
        for op in &changing {
            assert_eq!(needs(&mut server, op), Some(true), "{op:?}, reported");
        }
        for op in &reading {
            assert_eq!(needs(&mut server, op), None, "{op:?}, reported");
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
            assert_eq!(needs(&mut server, op), None, "{op:?}, by the holder");
        }
        server.assert_clean();
    }

    #[test]
    fn atime_reports_readdir_and_outgrown_writes_need_no_callback() {
        let (mut server, file) = leased_file();
        // No retransmissions: their replies carry current attributes, which need the holder's report.
        (server.session, server.replays) = (OTHER, false);
        let set = SetAttr {
            atime: Some(SetTime::To(Timestamp::new(5, 0))),
            ctime: Some(Timestamp::new(1, 0)),
            ..SetAttr::default()
        };
        assert_eq!(
            needs(&mut server, &MetaOp::SetAttr { ino: file, set }),
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
        server.session = OTHER;
        server.callbacks.add_unreachable(file, SessionId(7));
        assert_eq!(needs(&mut server, &MetaOp::GetAttr { ino: file }), None);
        server.begin_write(file).unwrap();
        assert_eq!(server.file(file).write_leases, 2);
        server.session = SessionId(9);
        assert_eq!(
            needs(&mut server, &MetaOp::GetAttr { ino: file }),
            Some(false)
        );
    }

    #[test]
    fn begin_write_queues_behind_earlier_requests_except_for_the_lease_holder() {
        let (mut server, file) = leased_file();
        server.must_queue = true;
        server.begin_write(file).unwrap();
        server.session = OTHER;
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

    #[test]
    fn an_unlinked_file_is_kept_for_unasked_sessions_and_refuses_new_opens() {
        let (mut server, file) = leased_file();
        let (root, reads) = (Caller::root(), open(file, AccessMode::empty(), false));
        let written = report(9, &[(0, 0)]);
        server.end_write(file, written.clone(), false).unwrap();
        server.unlink(&root, ROOT, "f").unwrap();
        let find_openers = FollowUp::FindOpeners {
            ino: file,
            by: SessionId(7),
        };
        assert_eq!(server.follow_ups, [find_openers]);
        server.assert_clean();
        server.forget(file);
        server.session = OTHER;
        let by_path = MetaOp::Truncate {
            ino: file,
            to: 0,
            by_handle: false,
            kill_privileges: false,
        };
        let stale = Err(FsError::Stale);
        for op in [open(file, AccessMode::READ, false), by_path] {
            assert_eq!(server.request(&root, &op), stale, "{op:?}");
        }
        // A session that has it open continues to use it.
        server.request(&root, &reads).unwrap();
        server.begin_write(file).unwrap();
        server.end_write(file, written, false).unwrap();
        let hold = BackgroundOp::RecordOrphan {
            ino: file,
            session: OTHER,
        };
        server.run_background(&hold).unwrap();
        server.run_background(&hold).unwrap();
        let session = UNASKED_SESSIONS;
        server
            .run_background(&BackgroundOp::ForgetOrphan { ino: file, session })
            .unwrap();
        server.assert_clean();
        server
            .request(&root, &open(file, AccessMode::READ, false))
            .unwrap();
        server.session = SessionId(7);
        assert_eq!(server.request(&root, &reads), stale);
        server.session = OTHER;
        server.forget(file);
        assert_eq!(
            (
                server.count(RecordKind::Inode),
                server.count(RecordKind::Orphan)
            ),
            (1, 0)
        );
        server.run_background(&hold).unwrap();
        server.assert_clean();
    }

    #[test]
    fn with_a_single_session_no_other_session_is_asked() {
        let (mut server, file) = leased_file();
        server.is_only_session = true;
        server.end_write(file, report(9, &[(0, 0)]), false).unwrap();
        server.unlink(&Caller::root(), ROOT, "f").unwrap();
        assert_eq!(
            (server.follow_ups.len(), server.count(RecordKind::Orphan)),
            (0, 1)
        );
        let root = Caller::root();
        server.is_only_session = false;
        server.mkdir(&root, ROOT, "d", 0o755).unwrap();
        server.rmdir(&root, ROOT, "d").unwrap();
        assert_eq!(
            (server.follow_ups.len(), server.count(RecordKind::Orphan)),
            (0, 2)
        );
    }
}
