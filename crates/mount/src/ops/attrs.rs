//! Attributes.

use super::Outcome;
use crate::callers::{asking, plain, with_groups};
use crate::convert::{attr, inode, time, timestamp};
use crate::kernel::Kernel;
use gupfs_fuse::{Attributes, Call, Statx, Statxed, op};
use gupfs_proto::attr::InodeFlags;
use gupfs_proto::meta::{Access, SetAttr, SetTime};

pub async fn getattr(kernel: &Kernel, call: Call, _: op::Getattr) -> Outcome<Attributes> {
    let of = kernel
        .client
        .getattr(&plain(&call), inode(call.node))
        .await?;
    Ok(Attributes {
        attr: attr(&of),
        ttl: kernel.attributes_lifetime(&of),
    })
}

/// access(2) and chdir(2), where the kernel does not check.
pub async fn access(kernel: &Kernel, call: Call, op: op::Access) -> Outcome<()> {
    let want = Access::from_bits_truncate(op.mask as u8);
    let ino = inode(call.node);
    asking(kernel, &call, async |who| {
        kernel.client.access(&who, ino, want).await
    })
    .await
}

/// What statx(2) asks beyond stat(2): when the file was born, and which marks it has.
pub async fn statx(kernel: &Kernel, call: Call, _: op::Statx) -> Outcome<Statxed> {
    let of = kernel
        .client
        .getattr(&plain(&call), inode(call.node))
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
    Ok(Statxed {
        statx,
        ttl: kernel.attributes_lifetime(&of),
    })
}

/// chmod, chown, truncate, utimensat.
pub async fn setattr(kernel: &Kernel, call: Call, op: op::Setattr) -> Outcome<Attributes> {
    let ino = inode(call.node);
    if let Some(to) = op.size() {
        let (client, kill) = (&kernel.client, op.kill_suidgid());
        let file = op.fh().map(|fh| client.file(fh.0)).transpose()?;
        asking(kernel, &call, async |who| match &file {
            Some(file) => client.truncate_open(&who, file, to, kill).await,
            None => client.truncate(&who, ino, to, false, kill).await,
        })
        .await?;
    }
    let set = SetAttr {
        mode: op.mode(),
        uid: op.uid(),
        gid: op.gid(),
        atime: op.atime().map(set_time),
        // A truncate has set it, to the same now.
        mtime: op
            .mtime()
            .map(set_time)
            .filter(|to| op.size().is_none() || *to != SetTime::Now),
        // The kernel sends it only when it keeps times itself, which was not agreed on.
        ctime: None,
        kill_privileges: op.size().is_none() && op.kill_suidgid(),
    };
    let of = if set == SetAttr::default() {
        kernel.client.getattr(&plain(&call), ino).await?
    } else {
        // Whether setgid stays depends on the caller's groups.
        kernel.client.setattr(&with_groups(&call), ino, set).await?
    };
    Ok(Attributes {
        attr: attr(&of),
        ttl: kernel.attributes_lifetime(&of),
    })
}

fn set_time(to: op::SetTime) -> SetTime {
    match to {
        op::SetTime::Now => SetTime::Now,
        op::SetTime::At(at) => SetTime::To(timestamp(at)),
    }
}
