//! Reading directories.

use super::OpResult;
use crate::convert::{entry, inode};
use crate::credentials::as_caller;
use crate::filesystem::GupfsFileSystem;
use gupfs_client::ListedEntry;
use gupfs_fuse::{Call, Dirents, DirentsPlus, EntryReply, InodeAttr, OpenReply, op};
use gupfs_proto::limits::READDIR_ENTRIES_MAX;
use gupfs_proto::{Caller, FileKind, InodeId};
use std::time::Duration;

pub async fn opendir(fs: &GupfsFileSystem, call: Call, _: op::Open) -> OpResult<OpenReply> {
    as_caller(fs, &call, async |caller| {
        fs.client.open_dir(&caller, inode(call.node)).await
    })
    .await?;
    Ok(OpenReply::default())
}

pub async fn releasedir(fs: &GupfsFileSystem, call: Call, _: op::Release) -> OpResult<()> {
    fs.client.close_dir(inode(call.node));
    Ok(())
}

pub async fn fsyncdir(fs: &GupfsFileSystem, _: Call, _: op::Fsync) -> OpResult<()> {
    fs.client.fsync_dir().await
}

pub async fn readdir(fs: &GupfsFileSystem, call: Call, op: op::Readdir) -> OpResult<Dirents> {
    let mut listing = Dirents::new(&op);
    for found in entries(fs, &call, &op, false).await? {
        if !listing.push(
            found.ino.0,
            found.cookie,
            found.kind.type_bits(),
            found.name.as_bytes(),
        ) {
            break;
        }
    }
    Ok(listing)
}

pub async fn readdirplus(
    fs: &GupfsFileSystem,
    call: Call,
    op: op::Readdir,
) -> OpResult<DirentsPlus> {
    let mut listing = DirentsPlus::new(&op);
    let mut given = Vec::new();
    for found in entries(fs, &call, &op, true).await? {
        let dirent = match &found.attr {
            Some(attr) => entry(
                attr,
                fs.lifetimes.names,
                fs.listed_attributes_lifetime(attr),
            ),
            None => entry_without_inode(found.ino, found.kind),
        };
        if !listing.push(&dirent, found.cookie, found.name.as_bytes()) {
            break;
        }
        given.extend(found.attr.map(|attr| attr.ino));
    }
    fs.client.add_lookups(given);
    Ok(listing)
}

/// An entry with name, number and kind that gives the kernel no inode.
fn entry_without_inode(ino: InodeId, kind: FileKind) -> EntryReply {
    EntryReply {
        attr: InodeAttr {
            ino: ino.0,
            mode: kind.type_bits(),
            ..InodeAttr::default()
        },
        ..EntryReply::absent(Duration::ZERO)
    }
}

/// Least bytes of an entry: header, short name, padding; for READDIRPLUS with attributes before it.
const ENTRY_BYTES_MIN: usize = 32;
const ENTRY_PLUS_BYTES_MIN: usize = ENTRY_BYTES_MIN + 128;

/// Read permission was checked when the directory was opened, and a later chmod does not revoke it. So the request uses root's
/// credentials and the directory's open capability.
async fn entries(
    fs: &GupfsFileSystem,
    call: &Call,
    op: &op::Readdir,
    plus: bool,
) -> OpResult<Vec<ListedEntry>> {
    let entry_bytes = if plus {
        ENTRY_PLUS_BYTES_MIN
    } else {
        ENTRY_BYTES_MIN
    };
    let limit = (op.size as usize / entry_bytes).clamp(1, READDIR_ENTRIES_MAX) as u32;
    let listing = fs
        .client
        .readdir(&Caller::root(), inode(call.node), op.offset, limit, plus)
        .await?;
    Ok(listing.entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_an_inode_still_has_number_and_kind() {
        let dirent = entry_without_inode(InodeId(7), FileKind::Fifo);
        assert_eq!(
            (dirent.node, dirent.attr.ino, dirent.attr.mode),
            (gupfs_fuse::NodeId::NONE, 7, 0o010000)
        );
    }
}
