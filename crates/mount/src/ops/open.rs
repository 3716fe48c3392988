//! Opening and closing files; which of the two doors an open file gets (COHERENCE, rule 8).

use super::Outcome;
use crate::callers::asking;
use crate::convert::{entry, inode};
use crate::kernel::Kernel;
use gupfs_client::{OpenFlags as FileFlags, OpenedFile};
use gupfs_fuse::{Call, Created, Handle, OpenFlags, Opened, OpenedFlags, op};
use gupfs_proto::Name;
use gupfs_proto::meta::{Access, Make, OpenHow};
use std::time::Duration;

/// Set by the kernel when it opens a program to run it.
const FMODE_EXEC: u32 = 0x20;

pub async fn open(kernel: &Kernel, call: Call, op: op::Open) -> Outcome<Opened> {
    let ino = inode(call.node);
    let how = how(op.flags, op.open_flags);
    if how.truncate || how.access.contains(Access::WRITE) {
        kernel.must_be_writable()?;
    }
    let found = asking(kernel, &call, async |who| {
        kernel
            .client
            .open(&who, ino, how, file_flags(op.flags))
            .await
    })
    .await?;
    if how.truncate && how.kill_privileges {
        kernel.lost_privileges(ino);
    }
    Ok(opened(kernel, &found, op.flags))
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
        kernel.attributes_lifetime(&found.attr)
    } else {
        Duration::ZERO
    };
    if !found.created && how.truncate && how.kill_privileges {
        kernel.lost_privileges(found.attr.ino);
    }
    let opened = opened(kernel, &found, op.flags);
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
    let opened = opened(kernel, &found, op.flags);
    Ok(Created {
        entry: entry(
            &found.attr,
            kernel.lifetimes.names,
            kernel.attributes_lifetime(&found.attr),
        ),
        opened,
    })
}

fn how(flags: u32, open_flags: OpenFlags) -> OpenHow {
    let mut access = match flags as i32 & libc::O_ACCMODE {
        _ if flags & FMODE_EXEC != 0 => Access::EXECUTE,
        libc::O_RDONLY => Access::READ,
        libc::O_WRONLY => Access::WRITE,
        _ => Access::READ | Access::WRITE,
    };
    access.set(
        Access::APPEND,
        flags & libc::O_APPEND as u32 != 0 && access.contains(Access::WRITE),
    );
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
///
/// A read that is answered from the page cache moves no access time. Where each read must, there is no page cache; where the
/// next one must, the pages of before are dropped, so that it comes here.
fn opened(kernel: &Kernel, found: &OpenedFile, flags: u32) -> Opened {
    let (ino, client) = (found.attr.ino, &kernel.client);
    let writes = flags as i32 & libc::O_ACCMODE != libc::O_RDONLY;
    let direct = writes
        || !kernel.page_cache
        || flags & libc::O_DIRECT as u32 != 0
        || client.each_reading_shows()
        || client.has_writer(ino);
    let leaves_atime = flags & libc::O_NOATIME as u32 != 0;
    let door = if direct {
        OpenedFlags::DIRECT_IO | OpenedFlags::PARALLEL_DIRECT_WRITES
    } else if !leaves_atime && client.reading_shows(&found.attr) {
        OpenedFlags::empty()
    } else {
        OpenedFlags::KEEP_CACHE
    };
    // Nothing waits here for close(2) to be written: the kernel need not ask at each close, unless it frees locks of ours.
    let closed = match kernel.locks {
        true => OpenedFlags::empty(),
        false => OpenedFlags::NOFLUSH,
    };
    Opened {
        fh: Handle(found.file.id()),
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
