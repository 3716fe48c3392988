use crate::driver::OpResult;
use crate::flag_checks;
use crate::requester::RequestingSession;
use crate::steps::{orphan, privileges, write_lease};
use crate::view::OpView;
use bytes::{Bytes, BytesMut};
use gupfs_proto::limits::{FILE_SIZE_MAX, INLINE_MAX};
use gupfs_proto::meta::{MetaReplyBody, WritePosition};
use gupfs_proto::{Caller, FsError, InodeId};

/// write(2) to a file whose bytes are in its inode: other sessions see the bytes when the client gets the reply. A gap before
/// them reads as zeros. `WriteAt::End` is the end of file now, so appends neither overlap nor leave gaps. mtime and ctime are
/// updated, but not by a write of no bytes. `InlineTooLarge`, and nothing is written, if the bytes are not in the inode or would
/// not fit.
pub(crate) fn write_inline(
    view: &mut OpView,
    session: &RequestingSession,
    caller: &Caller,
    ino: InodeId,
    at: WritePosition,
    data: &Bytes,
    kill_privileges: bool,
) -> OpResult<MetaReplyBody> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    orphan::check_orphan_user(view, session, &inode, false)?;
    // A lease holder writes to objects, and so must all other sessions.
    if write_lease::is_leased_by_other(view, session, &inode)? {
        return Ok(MetaReplyBody::InlineTooLarge);
    }
    let offset = match at {
        WritePosition::Offset(offset) => offset,
        WritePosition::End => inode.size,
    };
    flag_checks::check_contents_at(&inode, offset)?;
    if data.is_empty() {
        return Ok(MetaReplyBody::Attr(inode.attr()));
    }
    let end = offset
        .checked_add(data.len() as u64)
        .filter(|end| *end <= FILE_SIZE_MAX)
        .ok_or(FsError::TooLarge)?;
    if !file.layout.is_empty() || end > INLINE_MAX.get() {
        return Ok(MetaReplyBody::InlineTooLarge);
    }
    if end > file.inline.len() as u64 {
        view.check_growth_allowed()?;
    }
    let inline = overwrite_at(&file.inline, offset as usize, data);
    let now = view.now();
    view.change_file(ino, |inode, file| {
        inode.touch_mtime(now);
        inode.size = inode.size.max(end);
        inode.data_version += 1;
        file.inline = inline;
    })?;
    privileges::kill_after_client_write(view, caller, ino, kill_privileges)?;
    Ok(MetaReplyBody::Attr(view.inode(ino)?.attr()))
}

fn overwrite_at(old: &Bytes, offset: usize, data: &Bytes) -> Bytes {
    let mut new = BytesMut::from(old.as_ref());
    let end = offset + data.len();
    new.resize(new.len().max(end), 0);
    new[offset..end].copy_from_slice(data);
    new.freeze()
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::attr::InodeFlags;
    use gupfs_proto::limits::FILE_SIZE_MAX;
    use gupfs_proto::meta::AccessMode;
    use gupfs_proto::meta::MetaReplyBody::{Attr, InlineTooLarge};
    use gupfs_proto::meta::WritePosition::{End, Offset};
    use gupfs_proto::{Caller, FsError};

    #[test]
    fn inline_bytes_are_stored_at_their_offset_and_gaps_are_zeros() {
        let mut server = TestServer::new(2);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.write_inline(file, Offset(3), b"def").unwrap();
        server.write_inline(file, End, b"gh").unwrap();
        let Ok(Attr(attr)) = server.write_inline(file, Offset(4), b"E") else {
            panic!()
        };
        assert_eq!(
            (attr.size, attr.blocks, attr.mtime, attr.ctime),
            (8, 1, server.now, server.now)
        );
        let opened = server
            .open(&Caller::root(), file, AccessMode::READ)
            .unwrap();
        assert_eq!(opened.inline.as_deref(), Some(&b"\0\0\0dEfgh"[..]));
        let before = server.getattr(file).unwrap();
        server.write_inline(file, End, b"").unwrap();
        assert_eq!(server.getattr(file).unwrap(), before);
        server.assert_clean();
    }

    #[test]
    fn a_write_that_does_not_fit_is_outgrown_and_writes_nothing() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        assert!(matches!(
            server.write_inline(file, Offset(4095), b"x"),
            Ok(Attr(_))
        ));
        assert_eq!(
            server.write_inline(file, Offset(4095), b"xy"),
            Ok(InlineTooLarge)
        );
        assert_eq!(server.write_inline(file, End, b"y"), Ok(InlineTooLarge));
        assert_eq!(server.batch, vec![]);
        let large = Err(FsError::TooLarge);
        assert_eq!(
            server.write_inline(file, Offset(FILE_SIZE_MAX), b"x"),
            large
        );
        assert_eq!(server.write_inline(file, Offset(u64::MAX), b"x"), large);
        server.truncate(file, 1 << 30).unwrap();
        // A large hole after the bytes does not move them out of the inode.
        assert!(
            matches!(server.write_inline(file, Offset(0), b"x"), Ok(Attr(attr)) if attr.size == 1 << 30)
        );
        assert_eq!(server.write_inline(file, End, b"x"), Ok(InlineTooLarge));
    }

    #[test]
    fn an_append_only_file_takes_bytes_at_its_end_only() {
        let mut server = TestServer::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.write_inline(file, End, b"abc").unwrap();
        server.edit(file, |inode| inode.flags = InodeFlags::APPEND_ONLY);
        assert_eq!(
            server.write_inline(file, Offset(1), b"x"),
            Err(FsError::NotPermitted)
        );
        assert_eq!(server.truncate(file, 0), Err(FsError::NotPermitted));
        server.write_inline(file, End, b"d").unwrap();
    }
}
