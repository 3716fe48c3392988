use crate::driver::OpResult;
use crate::key::RecordKey;
use crate::ops::end_write;
use crate::record::{FileBody, WriteLeaseMode};
use crate::steps::{attr_report, stale_members, truncation, write_lease};
use crate::view::OpView;
use bytes::Bytes;
use gupfs_proto::limits::INLINE_MAX;
use gupfs_proto::meta::{AttrReport, MetaReplyBody};
use gupfs_proto::{FsError, InodeId, Layout, Presence, SessionId, Timestamp};

/// The report of a session with the exclusive write lease, as `EndWrite`: with the time of its last change if a program has set times, and with
/// the bytes of a file that stays in its inode.
///
/// # Errors
/// `NoSpace` if the store has no space for the bytes: the session writes them to objects. `Malformed` if the session's lease is not exclusive, or
/// if an object of a file with inline bytes is known to exist.
pub(crate) fn report_writes(
    view: &mut OpView,
    session: SessionId,
    ino: InodeId,
    report: &AttrReport,
    keep_lease: bool,
    ctime: Option<Timestamp>,
    inline: Option<&Bytes>,
) -> OpResult<MetaReplyBody> {
    tracing::trace!(target: "walk", file = file!(), "report_writes");
    let mode = write_lease::mode_of(view, session, ino)?;
    if mode != Some(WriteLeaseMode::Exclusive) || (keep_lease && inline.is_some()) {
        return Err(malformed(ino, "its session's lease does not allow that"));
    }
    let ctime_before = view.inode(ino)?.ctime;
    match inline {
        None => drop(end_write::end_write(
            view, session, ino, report, keep_lease,
        )?),
        Some(bytes) => end_inline(view, session, ino, report, bytes)?,
    }
    if let Some(ctime) = ctime {
        // A program may set an mtime that is still to come; a ctime never is.
        view.change_file(ino, |inode, _| inode.ctime = ctime_before.max(ctime))?;
    }
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

/// Releases the lease of a file without objects: from then on its bytes are in its inode.
fn end_inline(
    view: &mut OpView,
    session: SessionId,
    ino: InodeId,
    report: &AttrReport,
    bytes: &Bytes,
) -> OpResult<()> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncation::check_no_unfinished_truncate(file, ino)?;
    attr_report::check(file, report)?;
    let len = bytes.len() as u64;
    let has_objects = !report.present.is_empty() || !report.unsynced.is_empty();
    if has_objects || may_have_bytes(file) || file.write_leases > 1 {
        return Err(malformed(ino, "its bytes may be elsewhere"));
    }
    if len > INLINE_MAX.get() || len > report.size {
        return Err(malformed(ino, "it has too many inline bytes"));
    }
    if len > 0 {
        view.check_growth_allowed()?;
    }
    let layout = file.layout.clone();
    view.remove(RecordKey::write_lease(ino, session));
    stale_members::forget(view, ino, &layout);
    view.change_file(ino, |inode, file| {
        attr_report::apply(inode, file, report);
        inode.blocks = 0;
        file.write_leases = 0;
        file.layout = Layout::default();
        file.inline = bytes.clone();
    })
}

/// Whether the file has bytes in its inode, or an object of which the record knows. A member that became stale before it was known to exist has none: the
/// lease holder knows what it has written.
fn may_have_bytes(file: &FileBody) -> bool {
    let components = file.layout.components.iter();
    let mut presences = components.flat_map(|component| {
        let stripes = 0..component.targets.len();
        stripes.map(|stripe| component.presence.get(stripe))
    });
    !file.inline.is_empty() || presences.any(|presence| presence == Presence::Present)
}

fn malformed(ino: InodeId, problem: &str) -> crate::driver::OpError {
    FsError::Malformed(format!("a report about inode {:x}: {problem}", ino.0)).into()
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::{BackgroundOp, RecordKind};
    use gupfs_proto::layout::{DefaultLayout, Redundancy};
    use gupfs_proto::meta::{AccessMode, MetaOp, MetaReplyBody};
    use gupfs_proto::{Caller, FsError, InodeId, Timestamp};

    /// A new file with the write lease of the session.
    fn new_file() -> (TestServer, InodeId) {
        let mut server = TestServer::new(2);
        let MetaReplyBody::WriteBegun { opened, .. } = server.create_for_writing("f") else {
            panic!()
        };
        (server, opened.attr.ino)
    }

    #[test]
    fn a_stale_member_that_was_never_written_does_not_keep_a_file_from_its_inode() {
        let mut server = TestServer::new(1);
        let mut layout = DefaultLayout::default();
        layout.components.remove(0);
        layout.components[0].count = 1;
        layout.components[0].redundancy = Redundancy::Mirror(2);
        let op = MetaOp::SetDefaultLayout {
            ino: ROOT,
            layout: Some(layout),
        };
        server.request(&Caller::root(), &op).unwrap();
        let MetaReplyBody::WriteBegun { opened, .. } = server.create_for_writing("f") else {
            panic!()
        };
        let ino = opened.attr.ino;
        let objects = vec![(0, 1)];
        let left_out = BackgroundOp::MarkStale { ino, objects };
        server.run_background(&left_out).unwrap();
        let written = report(4, &[]);
        let reported = server.report_writes(ino, written, None, Some(b"abcd"));
        assert_eq!(reported.unwrap().size, 4);
        assert_eq!(server.count(RecordKind::StaleMembers), 0);
        server.assert_clean();
    }

    #[test]
    fn the_bytes_of_a_small_file_go_into_its_inode_and_its_layout_goes() {
        let (mut server, ino) = new_file();
        let generation = server.file(ino).next_generation;
        let written = gupfs_proto::meta::AttrReport {
            mtime: Some(Timestamp::new(7, 0)),
            ..report(6, &[])
        };
        let attr = server
            .report_writes(ino, written, None, Some(b"abcd"))
            .unwrap();
        assert_eq!((attr.size, attr.blocks, attr.mtime.secs), (6, 1, 7));
        let file = server.file(ino);
        assert!(file.layout.is_empty() && &file.inline[..] == b"abcd");
        assert_eq!((file.write_leases, file.next_generation), (0, generation));
        assert_eq!(server.count(RecordKind::WriteLease), 0);
        server.assert_clean();
        let opened = server.open(&Caller::root(), ino, AccessMode::READ).unwrap();
        assert_eq!(opened.inline.as_deref(), Some(&b"abcd"[..]));
        // A later layout begins with another generation.
        let begun = server.begin_write(ino).unwrap();
        assert!(begun.layout.components[0].generation.0 >= generation);
        server.assert_clean();
    }

    #[test]
    fn bytes_that_may_be_elsewhere_too_are_refused() {
        let (mut server, ino) = new_file();
        for (written, bytes) in [
            (report(4, &[(0, 0)]), 4),
            (report(3, &[]), 4),
            (report(5_000, &[]), 5_000),
        ] {
            let refused = server.report_writes(ino, written, None, Some(&vec![1; bytes]));
            assert!(matches!(refused, Err(FsError::Malformed(_))), "{bytes}");
        }
        server.growth_allowed = false;
        let full = server.report_writes(ino, report(4, &[]), None, Some(b"abcd"));
        assert_eq!(full, Err(FsError::NoSpace));
        server.end_write(ino, report(4, &[(0, 0)]), true).unwrap();
        let known = server.report_writes(ino, report(4, &[]), None, Some(b""));
        assert!(matches!(known, Err(FsError::Malformed(_))));
        server.end_write(ino, report(4, &[(0, 0)]), false).unwrap();
        let released = server.report_writes(ino, report(4, &[]), None, None);
        assert!(released.is_err(), "without the lease");
        server.assert_clean();
    }

    #[test]
    fn an_mtime_that_a_program_has_set_leaves_the_ctime_its_own() {
        for (mtime, ctime) in [(1, 5_000_000_000), (9_000_000_000, 5_000_000_000)] {
            let (mut server, ino) = new_file();
            let set = gupfs_proto::meta::AttrReport {
                mtime: Some(Timestamp::new(mtime, 0)),
                ..report(0, &[])
            };
            let when = Some(Timestamp::new(ctime, 0));
            let attr = server.report_writes(ino, set, when, None).unwrap();
            assert_eq!((attr.mtime.secs, attr.ctime.secs), (mtime, ctime));
            let older = Some(Timestamp::new(1, 0));
            server.begin_write(ino).unwrap();
            let attr = server.report_writes(ino, report(0, &[]), older, None);
            assert_eq!(attr.unwrap().ctime.secs, ctime, "it never goes back");
        }
    }
}
