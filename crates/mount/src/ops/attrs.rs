//! Attributes.

use super::OpResult;
use crate::convert::{attr, inode, time, timestamp};
use crate::credentials::{as_caller, caller_with_groups, caller_without_groups};
use crate::filesystem::GupfsFileSystem;
use gupfs_fuse::{AttrReply, Call, Statx, StatxReply, op};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::{AccessMode, SetAttr, SetTime};

pub async fn getattr(fs: &GupfsFileSystem, call: Call, _: op::Getattr) -> OpResult<AttrReply> {
    let of = fs
        .client
        .getattr(&caller_without_groups(&call), inode(call.node))
        .await?;
    Ok(AttrReply {
        attr: attr(&of),
        ttl: fs.attributes_lifetime(&of),
    })
}

/// access(2) and chdir(2), where the kernel does not check permissions.
pub async fn access(fs: &GupfsFileSystem, call: Call, op: op::Access) -> OpResult<()> {
    let want = AccessMode::from_bits_truncate(op.mask as u8);
    let ino = inode(call.node);
    as_caller(fs, &call, async |caller| {
        fs.client.access(&caller, ino, want).await
    })
    .await
}

/// The fields of statx(2) beyond stat(2): the time of creation, and the attribute flags.
pub async fn statx(fs: &GupfsFileSystem, call: Call, _: op::Statx) -> OpResult<StatxReply> {
    let of = fs
        .client
        .getattr(&caller_without_groups(&call), inode(call.node))
        .await?;
    let mark = |flag, bit| if of.flags.contains(flag) { bit } else { 0 };
    let marks = mark(InodeFlags::IMMUTABLE, libc::STATX_ATTR_IMMUTABLE)
        | mark(InodeFlags::APPEND_ONLY, libc::STATX_ATTR_APPEND);
    let statx = Statx {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        attr: attr(&of),
        attributes: marks as u64,
        attributes_mask: (libc::STATX_ATTR_IMMUTABLE | libc::STATX_ATTR_APPEND) as u64,
        btime: time(of.btime),
    };
    Ok(StatxReply {
        statx,
        ttl: fs.attributes_lifetime(&of),
    })
}

/// chmod, chown, truncate, utimensat.
pub async fn setattr(fs: &GupfsFileSystem, call: Call, op: op::Setattr) -> OpResult<AttrReply> {
    let ino = inode(call.node);
    if let Some(to) = op.size() {
        let (client, kill) = (&fs.client, op.kill_suidgid());
        let file = op.fh().map(|fh| client.file(fh.0)).transpose()?;
        as_caller(fs, &call, async |caller| match &file {
            Some(file) => client.truncate_open(&caller, file, to, kill).await,
            None => client.truncate(&caller, ino, to, false, kill).await,
        })
        .await?;
    }
    let set = SetAttr {
        mode: op.mode(),
        uid: op.uid(),
        gid: op.gid(),
        atime: op.atime().map(set_time),
        // The truncate above has set it to the same current time.
        mtime: op
            .mtime()
            .map(set_time)
            .filter(|to| op.size().is_none() || *to != SetTime::Now),
        // The kernel sends it only with FUSE_WRITEBACK_CACHE, which is not negotiated.
        ctime: None,
        kill_privileges: op.size().is_none() && op.kill_suidgid(),
    };
    let of = if set == SetAttr::default() {
        fs.client
            .getattr(&caller_without_groups(&call), ino)
            .await?
    } else {
        // Whether setgid stays depends on the caller's groups.
        fs.client
            .setattr(&caller_with_groups(&call), ino, set)
            .await?
    };
    Ok(AttrReply {
        attr: attr(&of),
        ttl: fs.attributes_lifetime(&of),
    })
}

fn set_time(to: op::SetTime) -> SetTime {
    match to {
        op::SetTime::Now => SetTime::Now,
        op::SetTime::At(at) => SetTime::To(timestamp(at)),
    }
}
