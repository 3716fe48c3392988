use crate::record::Body;
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::meta::Answer;
use gupfs_proto::{InodeId, Refusal};

/// readlink(2): the target as it was given. Permission is that of the way to it.
pub(crate) fn readlink(view: &mut View, ino: InodeId) -> Outcome<Answer> {
    match &view.inode(ino)?.body {
        Body::Symlink(target) => Ok(Answer::Link(target.clone())),
        Body::File(_) | Body::Directory(_) | Body::Special => Err(Refusal::Invalid.into()),
    }
}
