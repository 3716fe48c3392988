//! A new inode: owner, group, mode, ACLs and times follow from its directory and the caller.

use crate::driver::OpResult;
use crate::hash::{child_salt, derive_random};
use crate::record::{DirectoryBody, FileBody, Inode, InodeBody};
use crate::view::OpView;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::CreateMode;
use gupfs_proto::{FileKind, FileMode, InodeId, VirtualShard};

/// Purposes of `hash::derive_random`.
const FOR_SHARD: u8 = 1;
pub(crate) const FOR_SALT: u8 = 2;

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
    Ok(Inode {
        ino,
        kind,
        mode,
        uid: ctx.caller.uid,
        gid,
        project: parent.project,
        volume: parent.volume,
        names: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: ctx.now,
        mtime: ctx.now,
        ctime: ctx.now,
        btime: ctx.now,
        flags: InodeFlags::empty(),
        parent: None,
        birth_snapshot: 0,
        change: 1,
        data_version: 0,
        orphan_records: 0,
        xattrs: 0,
        xattr_names: 0,
        acl,
        security: Vec::new(),
        body: match kind {
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
        },
    })
}

/// Directories are spread over all shards, and so is the load of a tree; the files of one directory stay in its shard.
fn choose_directory_shard(view: &OpView) -> VirtualShard {
    VirtualShard((derive_random(view.ctx.entropy, FOR_SHARD) % u64::from(view.ctx.shards.0)) as u16)
}

/// The root of a new cluster.
pub(crate) fn build_root(now: gupfs_proto::Timestamp, entropy: u64) -> Inode {
    Inode {
        ino: InodeId::ROOT,
        kind: FileKind::Directory,
        mode: FileMode(0o755),
        uid: 0,
        gid: 0,
        project: gupfs_proto::ProjectId(0),
        volume: gupfs_proto::VolumeId(0),
        // The root has no entry; its count is 1 so that it does not count as removed.
        names: 1,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        flags: InodeFlags::empty(),
        parent: None,
        birth_snapshot: 0,
        change: 1,
        data_version: 0,
        orphan_records: 0,
        xattrs: 0,
        xattr_names: 0,
        acl: None,
        security: Vec::new(),
        body: InodeBody::Directory(DirectoryBody {
            salt: derive_random(entropy, FOR_SALT),
            ..DirectoryBody::default()
        }),
    }
}
