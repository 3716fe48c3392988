use crate::ops::{end_write, truncate};
use crate::step::Outcome;
use crate::view::View;
use bytes::Bytes;
use gupfs_proto::meta::{Answer, Written};
use gupfs_proto::{InodeId, Refusal};

/// The inline bytes lie in the objects, and survive a power cut there: the inode lets go of its copy.
///
/// Objects before record: if power fails between, the inline bytes are still the file, and recovery removes the objects; the
/// other way the bytes would be gone.
pub(crate) fn spilled(view: &mut View, ino: InodeId, written: &Written) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    let file = inode.file()?;
    end_write::must_be_writer(view, ino)?;
    truncate::must_not_be_cutting(file, ino)?;
    end_write::check(file, written)?;
    if file.layout.is_empty() {
        return Err(Refusal::Malformed(format!(
            "inode {:x} has no objects to hold its bytes",
            ino.0
        ))
        .into());
    }
    view.change_file(ino, |inode, file| {
        file.inline = Bytes::new();
        end_write::believe(inode, file, written);
    })?;
    Ok(Answer::Attr(view.inode(ino)?.attr()))
}
