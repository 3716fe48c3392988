//! Names in directories.

use super::Outcome;
use crate::callers::asking;
use crate::convert::{entry, inode};
use crate::kernel::Kernel;
use gupfs_fuse::{Call, Entry, op};
use gupfs_proto::meta::{Make, RenameHow};
use gupfs_proto::{Attr, FileKind, Name, Refusal};
use std::time::Duration;

pub async fn lookup(kernel: &Kernel, call: Call, op: op::Lookup) -> Outcome<Entry> {
    let dir = inode(call.node);
    let found = match op.name.as_bytes() {
        // Asked for by who opens by handle (EXPORT_SUPPORT).
        b"." => {
            let found = asking(kernel, &call, async |who| {
                kernel.client.getattr(&who, dir).await
            })
            .await;
            found.inspect(|attr| kernel.client.gave([attr.ino]))
        }
        b".." => {
            asking(kernel, &call, async |who| {
                kernel.client.lookup_parent(&who, dir).await
            })
            .await
        }
        name => {
            let name = Name::new(name)?;
            asking(kernel, &call, async |who| {
                kernel.client.lookup(&who, dir, &name).await
            })
            .await
        }
    };
    match found {
        Ok(attr) => Ok(known(kernel, &attr)),
        Err(Refusal::NotFound) => Ok(Entry::absent(kernel.lifetimes.absent)),
        Err(refusal) => Err(refusal),
    }
}

/// The kernel learns of an inode; the client has counted it.
fn known(kernel: &Kernel, attr: &Attr) -> Entry {
    entry(
        attr,
        kernel.lifetimes.names,
        kernel.attributes_lifetime(attr),
    )
}

pub async fn readlink(kernel: &Kernel, call: Call, (): ()) -> Outcome<Vec<u8>> {
    asking(kernel, &call, async |who| {
        kernel.client.readlink(&who, inode(call.node)).await
    })
    .await
}

pub async fn symlink(kernel: &Kernel, call: Call, op: op::Symlink) -> Outcome<Entry> {
    let name = Name::new(&op.name)?;
    let attr = asking(kernel, &call, async |who| {
        kernel
            .client
            .symlink(&who, inode(call.node), &name, &op.target)
            .await
    })
    .await?;
    Ok(known(kernel, &attr))
}

pub async fn mknod(kernel: &Kernel, call: Call, op: op::Mknod) -> Outcome<Entry> {
    let name = Name::new(&op.name)?;
    // A mode without a kind is a regular file, as mknod(2) has it.
    let kind = if op.mode & 0o170000 == 0 {
        Some(FileKind::Regular)
    } else {
        FileKind::from_type_bits(op.mode)
    };
    let kind = kind.ok_or(Refusal::Invalid)?;
    let make = Make {
        mode: op.mode,
        umask: op.umask,
    };
    let attr = asking(kernel, &call, async |who| {
        kernel
            .client
            .mknod(&who, inode(call.node), &name, kind, op.rdev, make)
            .await
    })
    .await?;
    Ok(known(kernel, &attr))
}

pub async fn mkdir(kernel: &Kernel, call: Call, op: op::Mkdir) -> Outcome<Entry> {
    let name = Name::new(&op.name)?;
    let make = Make {
        mode: op.mode,
        umask: op.umask,
    };
    let attr = asking(kernel, &call, async |who| {
        kernel
            .client
            .mkdir(&who, inode(call.node), &name, make)
            .await
    })
    .await?;
    Ok(known(kernel, &attr))
}

pub async fn unlink(kernel: &Kernel, call: Call, op: op::Unlink) -> Outcome<()> {
    let name = Name::new(&op.name)?;
    asking(kernel, &call, async |who| {
        kernel.client.unlink(&who, inode(call.node), &name).await
    })
    .await?;
    Ok(())
}

pub async fn rmdir(kernel: &Kernel, call: Call, op: op::Rmdir) -> Outcome<()> {
    let name = Name::new(&op.name)?;
    asking(kernel, &call, async |who| {
        kernel.client.rmdir(&who, inode(call.node), &name).await
    })
    .await?;
    Ok(())
}

pub async fn rename(kernel: &Kernel, call: Call, op: op::Rename) -> Outcome<()> {
    let how = match op.flags {
        0 => RenameHow::Replace,
        libc::RENAME_NOREPLACE => RenameHow::NoReplace,
        libc::RENAME_EXCHANGE => RenameHow::Exchange,
        // RENAME_WHITEOUT is for overlay file systems' upper layers.
        _ => return Err(Refusal::Invalid),
    };
    let (from, to) = (inode(call.node), inode(op.new_directory));
    let (name, new_name) = (Name::new(&op.name)?, Name::new(&op.new_name)?);
    asking(kernel, &call, async |who| {
        kernel
            .client
            .rename(&who, (from, &name), (to, &new_name), how)
            .await
    })
    .await?;
    Ok(())
}

pub async fn link(kernel: &Kernel, call: Call, op: op::Link) -> Outcome<Entry> {
    let name = Name::new(&op.name)?;
    let (target, dir) = (inode(op.target), inode(call.node));
    let attr = asking(kernel, &call, async |who| {
        kernel.client.link(&who, target, dir, &name).await
    })
    .await?;
    // The kernel takes these attributes whatever it has learned since: they must not outlive this answer.
    Ok(entry(&attr, kernel.lifetimes.names, Duration::ZERO))
}
