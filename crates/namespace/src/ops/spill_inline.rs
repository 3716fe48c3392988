use crate::context::OpContext;
use crate::driver::OpResult;
use crate::steps::{attr_report, truncation};
use crate::view::OpView;
use bytes::Bytes;
use gupfs_proto::meta::{AttrReport, MetaReplyBody};
use gupfs_proto::{FsError, InodeId};

/// The lease holder has written the inline bytes to the objects: removes the copy in the inode.
///
/// Objects before record: if power fails between, the inline bytes are still the file, and recovery removes the objects. In the
/// other order the bytes would be lost. An exception are files that no other session has opened: no program was promised that the
/// bytes survive a power loss, so they are like any other bytes that were written and not synced.
///
/// `may_lose_unsynced`: the exception applies.
///
/// # Errors
/// `NotSynced` if the objects are not synced and the exception does not apply.
pub(crate) fn spill_inline(
    view: &mut OpView,
    may_lose_unsynced: bool,
    ino: InodeId,
    report: &AttrReport,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncation::check_no_unfinished_truncate(file, ino)?;
    attr_report::check(file, report)?;
    if file.layout.is_empty() {
        return Err(FsError::Malformed(format!(
            "inode {:x} has no layout, so its inline bytes cannot be in objects",
            ino.0
        ))
        .into());
    }
    let may_be_lost = !report.unsynced.is_empty() && !file.inline.is_empty();
    if may_be_lost && !may_lose_unsynced {
        return Err(FsError::NotSynced.into());
    }
    view.change_file(ino, |inode, file| {
        file.inline = Bytes::new();
        attr_report::apply(inode, file, report);
    })?;
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

/// Whether a file's inline bytes may move to objects that a power loss may discard. A replayed operation was allowed in its
/// original execution.
pub(crate) fn may_lose_unsynced(ctx: &OpContext) -> bool {
    ctx.is_private_file || ctx.replay.is_some()
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{AccessMode, AttrReport, MetaOp, MetaReplyBody, WritePosition};
    use gupfs_proto::{Caller, FsError, InodeId};

    #[test]
    fn inline_bytes_that_other_sessions_may_have_read_stay_until_the_objects_are_synced() {
        let root = Caller::root();
        let mut server = TestServer::new(2);
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        server.begin_write(file).unwrap();
        server.is_private_file = false;
        let unsynced = AttrReport {
            unsynced: vec![(0, 0)],
            ..report(5, &[])
        };
        let spilled = |server: &mut TestServer, ino: InodeId, written: &AttrReport| {
            let written = written.clone();
            server.request(
                &root,
                &MetaOp::SpillInline {
                    ino,
                    report: written,
                },
            )
        };
        let refused = spilled(&mut server, file, &unsynced);
        assert_eq!(refused, Err(FsError::NotSynced));
        let opened = server.open(&root, file, AccessMode::READ).unwrap();
        assert_eq!(opened.inline.as_deref(), Some(&b"bytes"[..]));
        let synced = spilled(&mut server, file, &report(5, &[(0, 0)]));
        assert!(matches!(synced, Ok(MetaReplyBody::Attr(_))));
        // The inode has no inline bytes that could be lost.
        spilled(&mut server, file, &unsynced).unwrap();
        server.assert_clean();
    }

    #[test]
    fn inline_bytes_of_a_file_that_no_other_session_opened_are_removed_at_once() {
        let root = Caller::root();
        let mut server = TestServer::new(2);
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server
            .write_inline(file, WritePosition::End, b"bytes")
            .unwrap();
        server.begin_write(file).unwrap();
        let written = AttrReport {
            unsynced: vec![(0, 0)],
            ..report(5, &[])
        };
        let ino = file;
        server
            .request(
                &root,
                &MetaOp::SpillInline {
                    ino,
                    report: written,
                },
            )
            .unwrap();
        let opened = server.open(&root, file, AccessMode::READ).unwrap();
        assert_eq!((opened.inline, opened.attr.size), (None, 5));
        server.assert_clean();
    }
}
