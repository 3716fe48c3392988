//! Extended attributes and ACLs, which travel as such.

use super::Outcome;
use crate::callers::{asking, plain, with_groups};
use crate::convert::inode;
use crate::kernel::Kernel;
use bytes::Bytes;
use gupfs_fuse::{Call, Xattr, op};
use gupfs_proto::meta::{XattrHow, XattrName};
use gupfs_proto::{Refusal, limits::XATTR_VALUE_MAX};

pub async fn setxattr(kernel: &Kernel, call: Call, op: op::Setxattr) -> Outcome<()> {
    let name = XattrName::new(&op.name)?;
    if op.value.len() > XATTR_VALUE_MAX {
        return Err(Refusal::ValueTooLarge);
    }
    let how = match op.flags as i32 {
        0 => XattrHow::Either,
        libc::XATTR_CREATE => XattrHow::Create,
        libc::XATTR_REPLACE => XattrHow::Replace,
        _ => return Err(Refusal::Invalid),
    };
    let value = Bytes::from(op.value);
    // An ACL may take setgid away from who is not in the file's group.
    kernel
        .client
        .setxattr(&with_groups(&call), inode(call.node), &name, value, how)
        .await
}

pub async fn getxattr(kernel: &Kernel, call: Call, op: op::Getxattr) -> Outcome<Xattr> {
    let name = XattrName::new(&op.name)?;
    let value = asking(kernel, &call, async |who| {
        kernel.client.getxattr(&who, inode(call.node), &name).await
    })
    .await?;
    fit(value.into(), op.size)
}

pub async fn listxattr(kernel: &Kernel, call: Call, op: op::Listxattr) -> Outcome<Xattr> {
    let names = kernel
        .client
        .listxattr(&plain(&call), inode(call.node))
        .await?;
    let mut list = Vec::new();
    for name in names {
        list.extend_from_slice(name.as_bytes());
        list.push(0);
    }
    fit(list, op.size)
}

pub async fn removexattr(kernel: &Kernel, call: Call, op: op::Removexattr) -> Outcome<()> {
    let name = XattrName::new(&op.name)?;
    if name.as_bytes() == XattrName::CAPABILITY && call.uid != 0 {
        // A program without CAP_SETFCAP does not get here. The kernel itself does, when a file's owner changes it (fallocate,
        // truncate, chown): the capability goes, whatever rights he has to attributes.
        let ino = inode(call.node);
        kernel
            .client
            .kill_privileges(&with_groups(&call), ino)
            .await?;
        kernel.lost_privileges(ino);
        return Ok(());
    }
    asking(kernel, &call, async |who| {
        kernel
            .client
            .removexattr(&who, inode(call.node), &name)
            .await
    })
    .await
}

/// As many bytes as the program has room for, or how many it would take.
fn fit(value: Vec<u8>, asked: u32) -> Outcome<Xattr> {
    if asked == 0 {
        Ok(Xattr::Size(value.len() as u32))
    } else if value.len() > asked as usize {
        Err(Refusal::TooSmall)
    } else {
        Ok(Xattr::Value(value))
    }
}
