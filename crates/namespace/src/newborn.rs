//! A new inode: owner, group, mode, lists and times as the directory it is made in and the caller decide.

use crate::hash::{salt_below, spread};
use crate::record::{Body, Directory, File, Inode};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::Make;
use gupfs_proto::{FileKind, InodeId, Mode, VirtualShard};

/// Numbers of `hash::spread`: what one random number is used for.
const FOR_SHARD: u8 = 1;
pub(crate) const FOR_SALT: u8 = 2;

/// Not yet in the view, without a name, and without what its kind needs beyond `Body`'s empty form.
pub(crate) fn inode(view: &View, parent: &Inode, kind: FileKind, make: Make) -> Outcome<Inode> {
    let ctx = view.ctx;
    let dir = parent.directory()?;
    let is_dir = kind == FileKind::Directory;
    let inherits_group = parent.mode.has(Mode::SETGID);
    let gid = if inherits_group {
        parent.gid
    } else {
        ctx.caller.gid
    };

    let mut mode = Mode::from_bits(make.mode);
    if is_dir {
        mode = mode.without(Mode::SETUID | Mode::SETGID);
    }
    if is_dir && inherits_group {
        mode.0 |= Mode::SETGID;
    } else if inherits_group && mode.has(0o010) && !crate::may::in_group(gid, ctx.caller) {
        // Or anybody could make a program that runs as the directory's group.
        mode = mode.without(Mode::SETGID);
    }
    let (acl, mode) = match &dir.default_acl {
        _ if kind == FileKind::Symlink => (None, Mode(0o777)),
        Some(default) => default.inherit(mode),
        None => (None, mode.without(Mode::from_bits(make.umask).0 & 0o777)),
    };

    let shard = if is_dir {
        shard_of_new_directory(view)
    } else {
        parent.ino.shard()
    };
    let ino = view.new_number(shard)?;
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
        born: 0,
        change: 1,
        data_version: 0,
        holders: 0,
        xattrs: 0,
        xattr_names: 0,
        acl,
        security: Vec::new(),
        body: match kind {
            FileKind::Regular => Body::File(File::default()),
            FileKind::Directory => Body::Directory(Directory {
                salt: salt_below(dir.salt, ino),
                // Copied, so that laying a file out asks its directory and no ancestor.
                rule: dir
                    .rule
                    .clone()
                    .map(|rule| crate::record::Ruled { own: false, ..rule }),
                default_acl: dir.default_acl.clone(),
                ..Directory::default()
            }),
            FileKind::Symlink => Body::Symlink(Vec::new()),
            FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
                Body::Special
            }
        },
    })
}

/// Directories spread over all shards, so that a tree's load does; what lies in one stays together.
fn shard_of_new_directory(view: &View) -> VirtualShard {
    VirtualShard((spread(view.ctx.entropy, FOR_SHARD) % u64::from(view.ctx.shards.0)) as u16)
}

/// The root of a new cluster.
pub(crate) fn root(now: gupfs_proto::Timestamp, entropy: u64) -> Inode {
    Inode {
        ino: InodeId::ROOT,
        kind: FileKind::Directory,
        mode: Mode(0o755),
        uid: 0,
        gid: 0,
        project: gupfs_proto::ProjectId(0),
        volume: gupfs_proto::VolumeId(0),
        // Nothing names the root; it counts as named so that nothing takes it for removed.
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
        born: 0,
        change: 1,
        data_version: 0,
        holders: 0,
        xattrs: 0,
        xattr_names: 0,
        acl: None,
        security: Vec::new(),
        body: Body::Directory(Directory {
            salt: spread(entropy, FOR_SALT),
            ..Directory::default()
        }),
    }
}
