//! Names in directories.

use super::OpResult;
use crate::convert::{entry, inode};
use crate::credentials::as_caller;
use crate::filesystem::GupfsFileSystem;
use gupfs_fuse::{Call, EntryReply, op};
use gupfs_proto::meta::{CreateMode, RenameMode};
use gupfs_proto::{Attr, FileKind, FsError, Name};
use std::time::Duration;

pub async fn lookup(fs: &GupfsFileSystem, call: Call, op: op::Lookup) -> OpResult<EntryReply> {
    let dir = inode(call.node);
    let found = match op.name.as_bytes() {
        // Sent for open_by_handle_at(2) and NFS (EXPORT_SUPPORT).
        b"." => {
            let found = as_caller(fs, &call, async |caller| {
                fs.client.getattr(&caller, dir).await
            })
            .await;
            found.inspect(|attr| fs.client.add_lookups([attr.ino]))
        }
        b".." => {
            as_caller(fs, &call, async |caller| {
                fs.client.lookup_parent(&caller, dir).await
            })
            .await
        }
        name => {
            let name = Name::new(name)?;
            as_caller(fs, &call, async |caller| {
                fs.client.lookup(&caller, dir, &name).await
            })
            .await
        }
    };
    match found {
        Ok(attr) => Ok(counted_entry(fs, &attr)),
        Err(FsError::NotFound) => Ok(EntryReply::absent(fs.lifetimes.negative)),
        Err(error) => Err(error),
    }
}

/// An entry reply for an inode whose lookup the client has counted.
fn counted_entry(fs: &GupfsFileSystem, attr: &Attr) -> EntryReply {
    entry(attr, fs.lifetimes.names, fs.attributes_lifetime(attr))
}

pub async fn readlink(fs: &GupfsFileSystem, call: Call, (): ()) -> OpResult<Vec<u8>> {
    as_caller(fs, &call, async |caller| {
        fs.client.readlink(&caller, inode(call.node)).await
    })
    .await
}

pub async fn symlink(fs: &GupfsFileSystem, call: Call, op: op::Symlink) -> OpResult<EntryReply> {
    let name = Name::new(&op.name)?;
    let attr = as_caller(fs, &call, async |caller| {
        fs.client
            .symlink(&caller, inode(call.node), &name, &op.target)
            .await
    })
    .await?;
    Ok(counted_entry(fs, &attr))
}

pub async fn mknod(fs: &GupfsFileSystem, call: Call, op: op::Mknod) -> OpResult<EntryReply> {
    let name = Name::new(&op.name)?;
    // A mode without a kind is a regular file, as mknod(2) has it.
    let kind = if op.mode & 0o170000 == 0 {
        Some(FileKind::Regular)
    } else {
        FileKind::from_type_bits(op.mode)
    };
    let kind = kind.ok_or(FsError::Invalid)?;
    let make = CreateMode {
        mode: op.mode,
        umask: op.umask,
    };
    let attr = as_caller(fs, &call, async |caller| {
        fs.client
            .mknod(&caller, inode(call.node), &name, kind, op.rdev, make)
            .await
    })
    .await?;
    Ok(counted_entry(fs, &attr))
}

pub async fn mkdir(fs: &GupfsFileSystem, call: Call, op: op::Mkdir) -> OpResult<EntryReply> {
    let name = Name::new(&op.name)?;
    let make = CreateMode {
        mode: op.mode,
        umask: op.umask,
    };
    let attr = as_caller(fs, &call, async |caller| {
        fs.client
            .mkdir(&caller, inode(call.node), &name, make)
            .await
    })
    .await?;
    Ok(counted_entry(fs, &attr))
}

pub async fn unlink(fs: &GupfsFileSystem, call: Call, op: op::Unlink) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "unlink");
    let name = Name::new(&op.name)?;
    as_caller(fs, &call, async |caller| {
        fs.client.unlink(&caller, inode(call.node), &name).await
    })
    .await?;
    Ok(())
}

pub async fn rmdir(fs: &GupfsFileSystem, call: Call, op: op::Rmdir) -> OpResult<()> {
    let name = Name::new(&op.name)?;
    as_caller(fs, &call, async |caller| {
        fs.client.rmdir(&caller, inode(call.node), &name).await
    })
    .await?;
    Ok(())
}

pub async fn rename(fs: &GupfsFileSystem, call: Call, op: op::Rename) -> OpResult<()> {
    let mode = match op.flags {
        0 => RenameMode::Replace,
        libc::RENAME_NOREPLACE => RenameMode::NoReplace,
        libc::RENAME_EXCHANGE => RenameMode::Exchange,
        // RENAME_WHITEOUT is for overlay file systems' upper layers.
        _ => return Err(FsError::Invalid),
    };
    let (from, to) = (inode(call.node), inode(op.new_directory));
    let (name, new_name) = (Name::new(&op.name)?, Name::new(&op.new_name)?);
    as_caller(fs, &call, async |caller| {
        fs.client
            .rename(&caller, (from, &name), (to, &new_name), mode)
            .await
    })
    .await?;
    Ok(())
}

pub async fn link(fs: &GupfsFileSystem, call: Call, op: op::Link) -> OpResult<EntryReply> {
    let name = Name::new(&op.name)?;
    let (target, dir) = (inode(op.target), inode(call.node));
    let attr = as_caller(fs, &call, async |caller| {
        fs.client.link(&caller, target, dir, &name).await
    })
    .await?;
    // The kernel takes these attributes even if it has newer ones, so they get no lifetime.
    Ok(entry(&attr, fs.lifetimes.names, Duration::ZERO))
}
