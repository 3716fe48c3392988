//! Extended attributes, and ACLs in that form.

use super::OpResult;
use crate::convert::inode;
use crate::credentials::{as_caller, caller_with_groups, caller_without_groups};
use crate::filesystem::GupfsFileSystem;
use bytes::Bytes;
use gupfs_fuse::{Call, XattrReply, op};
use gupfs_proto::meta::{XattrMode, XattrName};
use gupfs_proto::{FsError, limits::XATTR_VALUE_MAX};

pub async fn setxattr(fs: &GupfsFileSystem, call: Call, op: op::Setxattr) -> OpResult<()> {
    let name = XattrName::new(&op.name)?;
    if op.value.len() > XATTR_VALUE_MAX {
        return Err(FsError::ValueTooLarge);
    }
    let mode = match op.flags as i32 {
        0 => XattrMode::CreateOrReplace,
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => return Err(FsError::Invalid),
    };
    let value = Bytes::from(op.value);
    // Setting an ACL may clear setgid if the caller is not in the file's group.
    fs.client
        .setxattr(
            &caller_with_groups(&call),
            inode(call.node),
            &name,
            value,
            mode,
        )
        .await
}

pub async fn getxattr(fs: &GupfsFileSystem, call: Call, op: op::Getxattr) -> OpResult<XattrReply> {
    let name = XattrName::new(&op.name)?;
    let value = as_caller(fs, &call, async |caller| {
        fs.client.getxattr(&caller, inode(call.node), &name).await
    })
    .await?;
    fit(value.into(), op.size)
}

pub async fn listxattr(
    fs: &GupfsFileSystem,
    call: Call,
    op: op::Listxattr,
) -> OpResult<XattrReply> {
    let names = fs
        .client
        .listxattr(&caller_without_groups(&call), inode(call.node))
        .await?;
    let mut list = Vec::new();
    for name in names {
        list.extend_from_slice(name.as_bytes());
        list.push(0);
    }
    fit(list, op.size)
}

pub async fn removexattr(fs: &GupfsFileSystem, call: Call, op: op::Removexattr) -> OpResult<()> {
    let name = XattrName::new(&op.name)?;
    if name.as_bytes() == XattrName::CAPABILITY && call.uid != 0 {
        // The kernel refuses a program without CAP_SETFCAP before this point. The kernel itself sends the request when a file's
        // owner changes the file (fallocate, truncate, chown): the capability is cleared, whatever rights the owner has.
        let ino = inode(call.node);
        fs.client
            .kill_privileges(&caller_with_groups(&call), ino)
            .await?;
        fs.privileges_killed(ino);
        return Ok(());
    }
    as_caller(fs, &call, async |caller| {
        fs.client
            .removexattr(&caller, inode(call.node), &name)
            .await
    })
    .await
}

/// The value if the program's buffer is large enough; the value's size if the program asked for that.
fn fit(value: Vec<u8>, asked: u32) -> OpResult<XattrReply> {
    if asked == 0 {
        Ok(XattrReply::Size(value.len() as u32))
    } else if value.len() > asked as usize {
        Err(FsError::TooSmall)
    } else {
        Ok(XattrReply::Value(value))
    }
}
