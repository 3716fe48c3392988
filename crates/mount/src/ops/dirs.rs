//! Reading directories.

use super::Outcome;
use crate::callers::asking;
use crate::convert::{entry, inode};
use crate::kernel::Kernel;
use gupfs_client::Listed;
use gupfs_fuse::{Attr as DoorAttr, Call, Dirents, DirentsPlus, Entry, Opened, op};
use gupfs_proto::limits::READDIR_ENTRIES_MAX;
use gupfs_proto::{Caller, FileKind, InodeId};
use std::time::Duration;

pub async fn opendir(kernel: &Kernel, call: Call, _: op::Open) -> Outcome<Opened> {
    asking(kernel, &call, async |who| {
        kernel.client.open_dir(&who, inode(call.node)).await
    })
    .await?;
    Ok(Opened::default())
}

pub async fn releasedir(kernel: &Kernel, call: Call, _: op::Release) -> Outcome<()> {
    kernel.client.close_dir(inode(call.node));
    Ok(())
}

pub async fn fsyncdir(kernel: &Kernel, _: Call, _: op::Fsync) -> Outcome<()> {
    kernel.client.fsync_dir().await
}

pub async fn readdir(kernel: &Kernel, call: Call, op: op::Readdir) -> Outcome<Dirents> {
    let mut listing = Dirents::new(&op);
    for found in entries(kernel, &call, &op, false).await? {
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

pub async fn readdirplus(kernel: &Kernel, call: Call, op: op::Readdir) -> Outcome<DirentsPlus> {
    let mut listing = DirentsPlus::new(&op);
    let mut given = Vec::new();
    for found in entries(kernel, &call, &op, true).await? {
        let line = match &found.attr {
            Some(attr) => entry(
                attr,
                kernel.lifetimes.names,
                kernel.attributes_lifetime(attr),
            ),
            None => unknown(found.ino, found.kind),
        };
        if !listing.push(&line, found.cookie, found.name.as_bytes()) {
            break;
        }
        given.extend(found.attr.map(|attr| attr.ino));
    }
    kernel.client.gave(given);
    Ok(listing)
}

/// A line that tells name, number and kind, and gives the kernel no inode.
fn unknown(ino: InodeId, kind: FileKind) -> Entry {
    Entry {
        attr: DoorAttr {
            ino: ino.0,
            mode: kind.type_bits(),
            ..DoorAttr::default()
        },
        ..Entry::absent(Duration::ZERO)
    }
}

/// A line takes at least so many bytes: head, short name, padding; with attributes in front of it.
const LINE: usize = 32;
const LINE_PLUS: usize = LINE + 128;

/// Reading was allowed when the directory was opened; a later chmod does not end it. So the server is asked as the client that
/// has it open.
async fn entries(
    kernel: &Kernel,
    call: &Call,
    op: &op::Readdir,
    plus: bool,
) -> Outcome<Vec<Listed>> {
    let line = if plus { LINE_PLUS } else { LINE };
    let limit = (op.size as usize / line).clamp(1, READDIR_ENTRIES_MAX) as u32;
    let listing = kernel
        .client
        .readdir(&Caller::root(), inode(call.node), op.offset, limit, plus)
        .await?;
    Ok(listing.entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_inode_still_tells_number_and_kind() {
        let line = unknown(InodeId(7), FileKind::Fifo);
        assert_eq!(
            (line.node, line.attr.ino, line.attr.mode),
            (gupfs_fuse::NodeId::NONE, 7, 0o010000)
        );
    }
}
