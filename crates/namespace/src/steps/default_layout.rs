//! Default layouts: which one applies to an inode.

use crate::driver::OpResult;
use crate::record::{Inode, InodeBody};
use crate::view::ReadView;
use gupfs_proto::FsError;
use gupfs_proto::layout::DefaultLayout;

/// The default layout that applies to an inode, and whether it is inherited.
pub(crate) fn of_inode(view: &mut ReadView, inode: &Inode) -> OpResult<(DefaultLayout, bool)> {
    match &inode.body {
        InodeBody::Directory(dir) => Ok(match &dir.default_layout {
            Some(dir_layout) => (dir_layout.layout.clone(), !dir_layout.is_own),
            None => (DefaultLayout::default(), true),
        }),
        InodeBody::File(file) => match &file.default_layout {
            Some(layout) => Ok((layout.clone(), false)),
            None => Ok((of_parent(view, inode)?.unwrap_or_default(), true)),
        },
        InodeBody::Symlink(_) | InodeBody::Special => Err(FsError::Invalid.into()),
    }
}

/// The default layout of new files in the directory of the inode's first name.
pub(crate) fn of_parent(view: &mut ReadView, inode: &Inode) -> OpResult<Option<DefaultLayout>> {
    match inode.parent {
        Some(parent) => Ok(view.inode(parent.dir)?.directory()?.layout_of_new_files()),
        None => Ok(None),
    }
}
