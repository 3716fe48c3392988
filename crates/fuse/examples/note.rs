//! A file system with one file, `note`, that can be read and written. The whole of it: mount, serve, end.
//!
//! `note MOUNTPOINT`, then `echo hello > MOUNTPOINT/note`, `cat MOUNTPOINT/note`, `umount MOUNTPOINT`.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gupfs_fuse::{
    Attr, Attributes, Call, Config, Data, Dirents, Entry, Errno, FileSystem, InitFlags, NodeId,
    Opened, OpenedFlags, Result, Session, Spawner, mount, op,
};

/// Nodes are numbers of our choice; the root is 1.
const NOTE: NodeId = NodeId(2);

/// How long the kernel may believe what it was told without asking again.
const BELIEVED: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Note {
    bytes: Mutex<Vec<u8>>,
}

impl Note {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        let (mode, size) = match node {
            NodeId::ROOT => (0o040755, 0),
            NOTE => (0o100644, self.bytes().len() as u64),
            _ => return Err(Errno::ESTALE),
        };
        Ok(Attr {
            ino: node.0,
            mode,
            size,
            nlink: 1,
            ..Attr::default()
        })
    }
}

/// Each request is one method; `call.node` is what it is about. What is not here answers ENOSYS by itself.
impl FileSystem for Note {
    async fn lookup(&self, call: Call, op: op::Lookup) -> Result<Entry> {
        if call.node != NodeId::ROOT || &*op.name != b"note" {
            return Err(Errno::ENOENT);
        }
        Ok(Entry {
            node: NOTE,
            generation: 0,
            name_ttl: BELIEVED,
            attr: self.attr(NOTE)?,
            attr_ttl: BELIEVED,
        })
    }

    async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
        Ok(Attributes {
            attr: self.attr(call.node)?,
            ttl: BELIEVED,
        })
    }

    /// truncate(2); other changes are accepted and forgotten.
    async fn setattr(&self, call: Call, op: op::Setattr) -> Result<Attributes> {
        if let Some(size) = op.size() {
            self.bytes().resize(size as usize, 0);
        }
        Ok(Attributes {
            attr: self.attr(call.node)?,
            ttl: BELIEVED,
        })
    }

    /// Past the page cache: what was written is what is read, at once.
    async fn open(&self, _: Call, op: op::Open) -> Result<Opened> {
        if op.flags & libc::O_TRUNC as u32 != 0 {
            self.bytes().clear();
        }
        Ok(Opened {
            flags: OpenedFlags::DIRECT_IO,
            ..Opened::default()
        })
    }

    async fn read(&self, _: Call, op: op::Read) -> Result<Data> {
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
        // Each entry comes with the offset behind it, from which the kernel goes on.
        if op.offset == 0 && !dirents.push(NOTE.0, 1, 0o100000, b"note") {
            return Err(Errno::EINVAL);
        }
        Ok(dirents)
    }
}

/// Mounts it. Nothing here waits, so nothing is ever spawned.
pub fn serve(point: &Path) -> std::result::Result<Session, gupfs_fuse::MountError> {
    let spawner: Spawner = Arc::new(|_| unreachable!("every answer is ready at once"));
    let mut config = Config::new("note", "note");
    // Listings without attributes are enough.
    config.want -= InitFlags::DO_READDIRPLUS;
    mount(point, &config, Arc::new(Note::default()), spawner)
}

#[allow(dead_code)] // a test uses the rest
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let point = std::env::args_os().nth(1).ok_or("usage: note MOUNTPOINT")?;
    serve(point.as_ref())?.wait();
    Ok(())
}
