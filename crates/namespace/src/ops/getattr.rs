use crate::held;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::InodeId;
use gupfs_proto::meta::Answer;

/// fstat(2): needs no permission on the file. (stat(2) needs search permission on the way to it, which lookups check.)
pub(crate) fn getattr(view: &mut View, ino: InodeId) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    held::must_have_told(view, &inode)?;
    Ok(Answer::Attr(inode.attr()))
}
