//! A new inode: owner, group, mode, ACLs and times follow from its directory and the caller.

use crate::driver::OpResult;
use crate::hash::{self, child_salt};
use crate::record::{DirectoryBody, FileBody, Inode, InodeBody};
use crate::view::OpView;
use gupfs_proto::meta::CreateMode;
use gupfs_proto::{FileKind, FileMode, VirtualShard};

/// A new inode that is not yet in the view, without a name, and with the empty form of its `InodeBody`.
pub(crate) fn build(
    view: &OpView,
    parent: &Inode,
    kind: FileKind,
    create_mode: CreateMode,
) -> OpResult<Inode> {
    let ctx = view.ctx;
    let dir = parent.directory()?;
    let is_dir = kind == FileKind::Directory;
    let inherits_group = parent.mode.has(FileMode::SETGID);
    let gid = if inherits_group {
        parent.gid
    } else {
        ctx.caller.gid
    };

    let mut mode = FileMode::from_bits(create_mode.mode);
    if is_dir {
        mode = mode.without(FileMode::SETUID | FileMode::SETGID);
    }
    if is_dir && inherits_group {
        mode.0 |= FileMode::SETGID;
    } else if inherits_group
        && mode.has(0o010)
        && !crate::permission::is_in_group_or_root(gid, ctx.caller)
    {
        // Otherwise any user could create a program that runs as the directory's group.
        mode = mode.without(FileMode::SETGID);
    }
    let (acl, mode) = match &dir.default_acl {
        _ if kind == FileKind::Symlink => (None, FileMode(0o777)),
        Some(default) => default.inherit(mode),
        None => (
            None,
            mode.without(FileMode::from_bits(create_mode.umask).0 & 0o777),
        ),
    };

    let shard = if is_dir {
        choose_directory_shard(view)
    } else {
        parent.ino.shard()
    };
    let ino = view.new_inode_number(shard)?;
    let body = match kind {
        FileKind::Regular => InodeBody::File(FileBody::default()),
        FileKind::Directory => InodeBody::Directory(DirectoryBody {
            salt: child_salt(dir.salt, ino),
            // Copied, so that a new file's layout depends on its directory and on no ancestor.
            default_layout: dir.default_layout.clone().map(|layout| {
                crate::record::DirectoryDefaultLayout {
                    is_own: false,
                    ..layout
                }
            }),
            default_acl: dir.default_acl.clone(),
            ..DirectoryBody::default()
        }),
        FileKind::Symlink => InodeBody::Symlink(Vec::new()),
        FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
            InodeBody::Special
        }
    };
    Ok(Inode {
        uid: ctx.caller.uid,
        gid,
        project: parent.project,
        volume: parent.volume,
        acl,
        ..Inode::new(ino, kind, mode, body, ctx.now)
    })
}

/// Directories are spread over all shards, and so is the load of a tree; the files of one directory stay in its shard.
fn choose_directory_shard(view: &OpView) -> VirtualShard {
    hash::random_shard(view.ctx.entropy, view.ctx.shards)
}
