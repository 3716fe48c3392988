use crate::ops::{end_write, truncate};
use crate::step::Outcome;
use crate::view::View;
use bytes::Bytes;
use gupfs_proto::meta::{Answer, Written};
use gupfs_proto::{InodeId, Refusal};

/// The inline bytes lie in the objects: the inode lets go of its copy.
///
/// Objects before record: if power fails between, the inline bytes are still the file, and recovery removes the objects; the
/// other way the bytes would be gone. Unless nobody can have been promised that they stay: then they are like all that was
/// written and not synced.
///
/// # Errors
/// `NotSynced` if that cannot be said.
pub(crate) fn spilled(view: &mut View, ino: InodeId, written: &Written) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    truncate::must_not_be_cutting(file, ino)?;
    end_write::check(file, written)?;
    if file.layout.is_empty() {
        return Err(Refusal::Malformed(format!(
            "inode {:x} has no objects to hold its bytes",
            ino.0
        ))
        .into());
    }
    let may_be_lost = !written.unsynced.is_empty() && !file.inline.is_empty();
    // What is said again was permitted then.
    if may_be_lost && !view.ctx.unseen && view.ctx.again.is_none() {
        return Err(Refusal::NotSynced.into());
    }
    view.change_file(ino, |inode, file| {
        file.inline = Bytes::new();
        end_write::believe(inode, file, written);
    })?;
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use gupfs_proto::meta::{Access, Answer, Op, WriteAt, Written};
    use gupfs_proto::{Caller, InodeId, Refusal};

    #[test]
    fn bytes_that_somebody_may_count_on_leave_the_inode_when_they_are_synced() {
        let root = Caller::root();
        let mut server = Server::new(2);
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.write_inline(file, WriteAt::End, b"bytes").unwrap();
        server.begin_write(file).unwrap();
        server.unseen = false;
        let unsynced = Written {
            unsynced: vec![(0, 0)],
            ..written(5, &[])
        };
        let spilled = |server: &mut Server, ino: InodeId, written: &Written| {
            let written = written.clone();
            server.ask(&root, &Op::Spilled { ino, written })
        };
        let refused = spilled(&mut server, file, &unsynced);
        assert_eq!(refused, Err(Refusal::NotSynced));
        let opened = server.open(&root, file, Access::READ).unwrap();
        assert_eq!(opened.inline.as_deref(), Some(&b"bytes"[..]));
        let synced = spilled(&mut server, file, &written(5, &[(0, 0)]));
        assert!(matches!(synced, Ok(Answer::Attr(_))));
        // Nothing is left that could be lost.
        spilled(&mut server, file, &unsynced).unwrap();
        server.assert_clean();
    }

    #[test]
    fn bytes_that_nobody_can_count_on_leave_it_at_once() {
        let root = Caller::root();
        let mut server = Server::new(2);
        let file = server.create(&root, ROOT, "f", 0o644).unwrap().ino;
        server.write_inline(file, WriteAt::End, b"bytes").unwrap();
        server.begin_write(file).unwrap();
        let written = Written {
            unsynced: vec![(0, 0)],
            ..written(5, &[])
        };
        let ino = file;
        server.ask(&root, &Op::Spilled { ino, written }).unwrap();
        let opened = server.open(&root, file, Access::READ).unwrap();
        assert_eq!((opened.inline, opened.attr.size), (None, 5));
        server.assert_clean();
    }
}
