//! A new inode: owner, group, mode, ACLs and times follow from its directory and the caller.

use crate::driver::OpResult;
use crate::hash::child_salt;
use crate::permission;
use crate::record::{DirectoryBody, DirectoryDefaultLayout, FileBody, Inode, InodeBody};
use crate::view::OpView;
use gupfs_proto::meta::CreateMode;
use gupfs_proto::{Caller, FileKind, FileMode, InodeId};

/// A new inode that is not yet in the view, without a name, and with the empty form of its `InodeBody`. The inode of a
/// directory is in any shard; files and other inodes are in the shard of their directory.
pub(crate) fn build(
    view: &OpView,
    caller: &Caller,
    parent: &Inode,
    kind: FileKind,
    create_mode: CreateMode,
) -> OpResult<Inode> {
    let dir = parent.directory()?;
    let (gid, mode) = group_and_mode(parent, caller, kind, create_mode);
    let (acl, mode) = match &dir.default_acl {
        _ if kind == FileKind::Symlink => (None, FileMode(0o777)),
        Some(default) => default.inherit(mode),
        None => (None, without_umask(mode, create_mode)),
    };
    let shard = if kind == FileKind::Directory {
        view.new_directory_shard()
    } else {
        parent.ino.shard()
    };
    let ino = view.new_inode_number(shard)?;
    let body = empty_body(dir, kind, ino);
    Ok(Inode {
        uid: caller.uid,
        gid,
        project: parent.project,
        volume: parent.volume,
        acl,
        ..Inode::new(ino, kind, mode, body, view.now())
    })
}

/// The group, and the requested mode without the bits that the caller may not set.
fn group_and_mode(
    parent: &Inode,
    caller: &Caller,
    kind: FileKind,
    create_mode: CreateMode,
) -> (u32, FileMode) {
    let is_dir = kind == FileKind::Directory;
    let inherits_group = parent.mode.has(FileMode::SETGID);
    let gid = if inherits_group {
        parent.gid
    } else {
        caller.gid
    };
    let mut mode = FileMode::from_bits(create_mode.mode);
    if is_dir {
        mode = mode.without(FileMode::SETUID | FileMode::SETGID);
    }
    if is_dir && inherits_group {
        mode.0 |= FileMode::SETGID;
    } else if inherits_group && mode.has(0o010) && !permission::is_in_group_or_root(gid, caller) {
        // Otherwise any user could create a program that runs as the directory's group.
        mode = mode.without(FileMode::SETGID);
    }
    (gid, mode)
}

fn without_umask(mode: FileMode, create_mode: CreateMode) -> FileMode {
    mode.without(FileMode::from_bits(create_mode.umask).0 & 0o777)
}

fn empty_body(dir: &DirectoryBody, kind: FileKind, ino: InodeId) -> InodeBody {
    match kind {
        FileKind::Regular => InodeBody::File(FileBody::default()),
        FileKind::Directory => InodeBody::Directory(DirectoryBody {
            salt: child_salt(dir.salt, ino),
            // Copied, so that a new file's layout depends on its directory and on no ancestor.
            default_layout: dir
                .default_layout
                .clone()
                .map(|dir_layout| DirectoryDefaultLayout {
                    is_own: false,
                    ..dir_layout
                }),
            default_acl: dir.default_acl.clone(),
            ..DirectoryBody::default()
        }),
        FileKind::Symlink => InodeBody::Symlink(Vec::new()),
        FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
            InodeBody::Special
        }
    }
}
