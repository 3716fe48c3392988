//! A file system with one file, `note`, that can be read and written: a complete example that mounts, serves and ends.
//!
//! `note MOUNTPOINT`, then `echo hello > MOUNTPOINT/note`, `cat MOUNTPOINT/note`, `umount MOUNTPOINT`.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gupfs_fuse::{
    AttrReply, Call, Dirents, EntryReply, Errno, FileSystem, FuseSession, InitFlags, InodeAttr,
    MountConfig, NodeId, OpenReply, OpenReplyFlags, ReplyData, Result, Spawner, mount, op,
};

/// The file system chooses its node ids; the root is 1.
const NOTE: NodeId = NodeId(2);

/// How long the kernel may cache names and attributes.
const BELIEVED: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Note {
    bytes: Mutex<Vec<u8>>,
}

impl Note {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attr(&self, node: NodeId) -> Result<InodeAttr> {
        let (mode, size) = match node {
            NodeId::ROOT => (0o040755, 0),
            NOTE => (0o100644, self.bytes().len() as u64),
            _ => return Err(Errno::ESTALE),
        };
        Ok(InodeAttr {
            ino: node.0,
            mode,
            size,
            nlink: 1,
            ..InodeAttr::default()
        })
    }
}

/// Each operation is one method; `call.node` is the node that it concerns. Operations that are not implemented here reply
/// ENOSYS.
impl FileSystem for Note {
    async fn lookup(&self, call: Call, op: op::Lookup) -> Result<EntryReply> {
        if call.node != NodeId::ROOT || &*op.name != b"note" {
            return Err(Errno::ENOENT);
        }
        Ok(EntryReply {
            node: NOTE,
            generation: 0,
            name_ttl: BELIEVED,
            attr: self.attr(NOTE)?,
            attr_ttl: BELIEVED,
        })
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
        Ok(AttrReply {
            attr: self.attr(call.node)?,
            ttl: BELIEVED,
        })
    }

    /// truncate(2); other changes are accepted and ignored.
    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<AttrReply> {
        if let Some(size) = op.size() {
            self.bytes().resize(size as usize, 0);
        }
        Ok(AttrReply {
            attr: self.attr(call.node)?,
            ttl: BELIEVED,
        })
    }

    /// Direct I/O: a read returns the bytes of the last write at once.
    async fn open(&self, _: Call, op: op::Open) -> Result<OpenReply> {
        if op.flags & libc::O_TRUNC as u32 != 0 {
            self.bytes().clear();
        }
        Ok(OpenReply {
            flags: OpenReplyFlags::DIRECT_IO,
            ..OpenReply::default()
        })
    }

    async fn read(&self, _: Call, op: op::Read) -> Result<ReplyData> {
        let bytes = self.bytes();
        let start = bytes.len().min(op.offset as usize);
        let end = bytes.len().min(start + op.size as usize);
        Ok(bytes[start..end].to_vec().into())
    }

    async fn write(&self, _: Call, op: op::Write) -> Result<u32> {
        let (mut bytes, start) = (self.bytes(), op.offset as usize);
        let end = start + op.data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(&op.data);
        Ok(op.data.len() as u32)
    }

    async fn readdir(&self, _: Call, op: op::Readdir) -> Result<Dirents> {
        let mut dirents = Dirents::new(&op);
        // Each entry carries the offset after it, at which the kernel continues.
        if op.offset == 0 && !dirents.push(NOTE.0, 1, 0o100000, b"note") {
            return Err(Errno::EINVAL);
        }
        Ok(dirents)
    }
}

/// Mounts it. No handler here waits, so the spawner is never called.
///
/// # Errors
/// The reason why it cannot be mounted.
pub fn serve(point: &Path) -> std::result::Result<FuseSession, gupfs_fuse::MountError> {
    let spawner: Spawner = Arc::new(|_| unreachable!("every handler is ready at its first poll"));
    let mut config = MountConfig::new("note", "note");
    // Listings without attributes suffice.
    config.wanted_flags -= InitFlags::DO_READDIRPLUS;
    mount(point, &config, Arc::new(Note::default()), spawner)
}

#[allow(dead_code)] // a test uses the rest
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let point = std::env::args_os().nth(1).ok_or("usage: note MOUNTPOINT")?;
    serve(point.as_ref())?.wait();
    Ok(())
}
