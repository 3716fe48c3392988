use crate::may;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::InodeId;
use gupfs_proto::meta::{Access, Answer};

/// access(2): whether all of `want` is granted; nothing asked is "it exists".
pub(crate) fn access(view: &mut View, ino: InodeId, want: Access) -> Outcome<Answer> {
    let inode = view.inode(ino)?;
    may::access(&inode, view.ctx.caller, want)?;
    Ok(Answer::Done)
}
