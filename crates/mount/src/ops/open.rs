//! Opening and closing files; which of the two doors an open file gets (COHERENCE, rule 8).

use super::Outcome;
use crate::callers::asking;
use crate::convert::{entry, inode};
use crate::kernel::Kernel;
use gupfs_client::OpenFlags as FileFlags;
use gupfs_door::{Call, Created, Handle, OpenFlags, Opened, OpenedFlags, op};
use gupfs_proto::meta::{Access, Make, OpenHow};
use gupfs_proto::{InodeId, Name};
use std::time::Duration;

/// Set by the kernel when it opens a program to run it.
const FMODE_EXEC: u32 = 0x20;

pub async fn open(kernel: &Kernel, call: Call, op: op::Open) -> Outcome<Opened> {
    let ino = inode(call.node);
    let how = how(op.flags, op.open_flags);
    let found = asking(kernel, &call, async |who| {
        kernel
            .client
            .open(&who, ino, how, file_flags(op.flags))
            .await
    })
    .await?;
    Ok(opened(kernel, ino, found.file.id(), op.flags))
}

pub async fn create(kernel: &Kernel, call: Call, op: op::Create) -> Outcome<Created> {
    let name = Name::new(&op.name)?;
    let exclusive = op.flags & libc::O_EXCL as u32 != 0;
    let make = Make {
        mode: op.mode,
        umask: op.umask,
    };
    let how = how(op.flags, op.open_flags);
    let (dir, flags) = (inode(call.node), file_flags(op.flags));
    let found = asking(kernel, &call, async |who| {
        kernel
            .client
            .create(&who, dir, &name, make, exclusive, how, flags)
            .await
    })
    .await?;
    // Of a file that was there before, the kernel may know newer attributes already.
    let attr_ttl = if found.created {
        kernel.lifetimes.attributes
    } else {
        Duration::ZERO
    };
    let opened = opened(kernel, found.attr.ino, found.file.id(), op.flags);
    Ok(Created {
        entry: entry(&found.attr, kernel.lifetimes.names, attr_ttl),
        opened,
    })
}

pub async fn tmpfile(kernel: &Kernel, call: Call, op: op::Tmpfile) -> Outcome<Created> {
    let make = Make {
        mode: op.mode,
        umask: op.umask,
    };
    let access = how(op.flags, op.open_flags).access;
    let (dir, flags) = (inode(call.node), file_flags(op.flags));
    let found = asking(kernel, &call, async |who| {
        kernel.client.tmpfile(&who, dir, make, access, flags).await
    })
    .await?;
    let opened = opened(kernel, found.attr.ino, found.file.id(), op.flags);
    Ok(Created {
        entry: entry(
            &found.attr,
            kernel.lifetimes.names,
            kernel.lifetimes.attributes,
        ),
        opened,
    })
}

fn how(flags: u32, open_flags: OpenFlags) -> OpenHow {
    let access = match flags as i32 & libc::O_ACCMODE {
        _ if flags & FMODE_EXEC != 0 => Access::EXECUTE,
        libc::O_RDONLY => Access::READ,
        libc::O_WRONLY => Access::WRITE,
        _ => Access::READ | Access::WRITE,
    };
    OpenHow {
        access,
        truncate: flags & libc::O_TRUNC as u32 != 0,
        kill_privileges: open_flags.contains(OpenFlags::KILL_SUIDGID),
    }
}

/// What of O_… matters to every later write.
fn file_flags(flags: u32) -> FileFlags {
    let set = |flag: i32| flags & flag as u32 == flag as u32;
    FileFlags {
        append: set(libc::O_APPEND),
        sync: set(libc::O_SYNC),
        dsync: set(libc::O_DSYNC),
        direct: set(libc::O_DIRECT),
    }
}

/// Writers go past the kernel's page cache. Readers use it, and find there what earlier readers left, unless the file has
/// a writer: the kernel drops what is written past it, so pages are never older than the file. (Where it does not, which is
/// tried before mounting, nobody uses the page cache.)
fn opened(kernel: &Kernel, ino: InodeId, file: u64, flags: u32) -> Opened {
    let writes = flags as i32 & libc::O_ACCMODE != libc::O_RDONLY;
    let direct = writes
        || !kernel.page_cache
        || flags & libc::O_DIRECT as u32 != 0
        || kernel.client.has_writer(ino);
    let door = if direct {
        OpenedFlags::DIRECT_IO | OpenedFlags::PARALLEL_DIRECT_WRITES
    } else {
        OpenedFlags::KEEP_CACHE
    };
    // Nothing waits here for close(2) to be written: the kernel need not ask at each close, unless it frees locks of ours.
    let closed = match kernel.locks {
        true => OpenedFlags::empty(),
        false => OpenedFlags::NOFLUSH,
    };
    Opened {
        fh: Handle(file),
        flags: door | closed,
    }
}

pub async fn flush(kernel: &Kernel, _: Call, op: op::Flush) -> Outcome<()> {
    let file = kernel.client.file(op.fh.0)?;
    if kernel.locks {
        let owner = op.lock_owner.0;
        kernel.client.unlock_at_close(&file, owner).await?;
    }
    kernel.client.flush(&file)
}

pub async fn release(kernel: &Kernel, _: Call, op: op::Release) -> Outcome<()> {
    kernel.client.release(op.fh.0).await
}
