use crate::step::Outcome;
use crate::view::View;
use crate::{held, ops, protected};
use bytes::{Bytes, BytesMut};
use gupfs_proto::limits::{FILE_SIZE_MAX, INLINE_MAX};
use gupfs_proto::meta::{Answer, WriteAt};
use gupfs_proto::{InodeId, Refusal};

/// write(2) to a file that lives in its inode: the bytes are there when this is answered. A gap before them reads as zeros.
/// At the end means the end at this moment, so appends neither overlap nor leave gaps. mtime and ctime are updated, but not
/// by a write of nothing. `Outgrown`, and nothing is written, if the file would not or does not live in its inode.
pub(crate) fn write_inline(
    view: &mut View,
    ino: InodeId,
    at: WriteAt,
    data: &Bytes,
    kill_privileges: bool,
) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    held::must_be_known(view, &inode, false)?;
    // Who holds it writes to objects, and so must whoever follows.
    if held::by_another(view, &inode)? {
        return Ok(Answer::Outgrown);
    }
    let offset = match at {
        WriteAt::Offset(offset) => offset,
        WriteAt::End => inode.size,
    };
    protected::contents_at(&inode, offset)?;
    if data.is_empty() {
        return Ok(Answer::Attr(inode.attr()));
    }
    let end = offset
        .checked_add(data.len() as u64)
        .filter(|end| *end <= FILE_SIZE_MAX)
        .ok_or(Refusal::TooLarge)?;
    if !file.layout.is_empty() || end > INLINE_MAX.get() {
        return Ok(Answer::Outgrown);
    }
    if end > file.inline.len() as u64 {
        view.must_have_room()?;
    }
    let inline = overlay(&file.inline, offset as usize, data);
    let now = view.ctx.now;
    view.change_file(ino, |inode, file| {
        inode.touch_contents(now);
        inode.size = inode.size.max(end);
        inode.data_version += 1;
        file.inline = inline;
    })?;
    ops::kill_privileges::after_write_by_client(view, ino, kill_privileges)?;
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}

fn overlay(old: &Bytes, offset: usize, data: &Bytes) -> Bytes {
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
    use gupfs_proto::meta::Access;
    use gupfs_proto::meta::Answer::{Attr, Outgrown};
    use gupfs_proto::meta::WriteAt::{End, Offset};
    use gupfs_proto::{Caller, Refusal};

    #[test]
    fn bytes_lie_where_they_were_written_and_gaps_are_zeros() {
        let mut server = Server::new(2);
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
        let opened = server.open(&Caller::root(), file, Access::READ).unwrap();
        assert_eq!(opened.inline.as_deref(), Some(&b"\0\0\0dEfgh"[..]));
        let before = server.getattr(file).unwrap();
        server.write_inline(file, End, b"").unwrap();
        assert_eq!(server.getattr(file).unwrap(), before);
        server.assert_clean();
    }

    #[test]
    fn what_does_not_fit_is_outgrown_and_nothing_is_written() {
        let mut server = Server::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        assert!(matches!(
            server.write_inline(file, Offset(4095), b"x"),
            Ok(Attr(_))
        ));
        assert_eq!(server.write_inline(file, Offset(4095), b"xy"), Ok(Outgrown));
        assert_eq!(server.write_inline(file, End, b"y"), Ok(Outgrown));
        assert_eq!(server.batch, vec![]);
        let large = Err(Refusal::TooLarge);
        assert_eq!(
            server.write_inline(file, Offset(FILE_SIZE_MAX), b"x"),
            large
        );
        assert_eq!(server.write_inline(file, Offset(u64::MAX), b"x"), large);
        server.truncate(file, 1 << 30).unwrap();
        // A large hole behind does not move the bytes out.
        assert!(
            matches!(server.write_inline(file, Offset(0), b"x"), Ok(Attr(attr)) if attr.size == 1 << 30)
        );
        assert_eq!(server.write_inline(file, End, b"x"), Ok(Outgrown));
    }

    #[test]
    fn an_append_only_file_takes_bytes_at_its_end_only() {
        let mut server = Server::new(1);
        let file = server
            .create(&Caller::root(), ROOT, "f", 0o644)
            .unwrap()
            .ino;
        server.write_inline(file, End, b"abc").unwrap();
        server.edit(file, |inode| inode.flags = InodeFlags::APPEND_ONLY);
        assert_eq!(
            server.write_inline(file, Offset(1), b"x"),
            Err(Refusal::NotPermitted)
        );
        assert_eq!(server.truncate(file, 0), Err(Refusal::NotPermitted));
        server.write_inline(file, End, b"d").unwrap();
    }
}
