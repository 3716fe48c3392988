//! Opening and closing files; whether an open file uses the page cache or direct I/O (crate `contract`, rule `CachedAndDirect`).

use super::OpResult;
use crate::convert::{entry, inode};
use crate::credentials::as_caller;
use crate::filesystem::GupfsFileSystem;
use gupfs_client::{OpenFileFlags, OpenedFile};
use gupfs_fuse::{Call, CreateReply, FileHandle, OpenFlags, OpenReply, OpenReplyFlags, op};
use gupfs_proto::Name;
use gupfs_proto::meta::{AccessMode, CreateMode, OpenMode};
use std::time::Duration;

/// Set by the kernel when it opens a program for execve(2).
const FMODE_EXEC: u32 = 0x20;

pub async fn open(fs: &GupfsFileSystem, call: Call, op: op::Open) -> OpResult<OpenReply> {
    let ino = inode(call.node);
    let mode = open_mode(op.flags, op.open_flags);
    if mode.truncate || mode.access.contains(AccessMode::WRITE) {
        fs.check_writable()?;
    }
    let opened_file = as_caller(fs, &call, async |caller| {
        fs.client
            .open(&caller, ino, mode, file_flags(op.flags))
            .await
    })
    .await?;
    if mode.truncate && mode.kill_privileges {
        fs.privileges_killed(ino);
    }
    Ok(opened_reply(fs, &opened_file, op.flags))
}

pub async fn create(fs: &GupfsFileSystem, call: Call, op: op::Create) -> OpResult<CreateReply> {
    tracing::trace!(target: "walk", file = file!(), "create");
    let name = Name::new(&op.name)?;
    let exclusive = op.flags & libc::O_EXCL as u32 != 0;
    let make = CreateMode {
        mode: op.mode,
        umask: op.umask,
    };
    let mode = open_mode(op.flags, op.open_flags);
    let (dir, flags) = (inode(call.node), file_flags(op.flags));
    let opened_file = as_caller(fs, &call, async |caller| {
        fs.client
            .create(&caller, dir, &name, make, exclusive, mode, flags)
            .await
    })
    .await?;
    // For an existing file the kernel may already have newer attributes.
    let attr_ttl = if opened_file.created {
        fs.new_file_attributes_lifetime(&opened_file.attr)
    } else {
        Duration::ZERO
    };
    if !opened_file.created && mode.truncate && mode.kill_privileges {
        fs.privileges_killed(opened_file.attr.ino);
    }
    let opened = opened_reply(fs, &opened_file, op.flags);
    Ok(CreateReply {
        entry: entry(&opened_file.attr, fs.lifetimes.names, attr_ttl),
        opened,
    })
}

pub async fn tmpfile(fs: &GupfsFileSystem, call: Call, op: op::Tmpfile) -> OpResult<CreateReply> {
    let make = CreateMode {
        mode: op.mode,
        umask: op.umask,
    };
    let access = open_mode(op.flags, op.open_flags).access;
    let (dir, flags) = (inode(call.node), file_flags(op.flags));
    let opened_file = as_caller(fs, &call, async |caller| {
        fs.client.tmpfile(&caller, dir, make, access, flags).await
    })
    .await?;
    let opened = opened_reply(fs, &opened_file, op.flags);
    Ok(CreateReply {
        entry: entry(
            &opened_file.attr,
            fs.lifetimes.names,
            fs.new_file_attributes_lifetime(&opened_file.attr),
        ),
        opened,
    })
}

fn open_mode(flags: u32, open_flags: OpenFlags) -> OpenMode {
    let mut access = match flags as i32 & libc::O_ACCMODE {
        _ if flags & FMODE_EXEC != 0 => AccessMode::EXECUTE,
        libc::O_RDONLY => AccessMode::READ,
        libc::O_WRONLY => AccessMode::WRITE,
        _ => AccessMode::READ | AccessMode::WRITE,
    };
    access.set(
        AccessMode::APPEND,
        flags & libc::O_APPEND as u32 != 0 && access.contains(AccessMode::WRITE),
    );
    OpenMode {
        access,
        truncate: flags & libc::O_TRUNC as u32 != 0,
        kill_privileges: open_flags.contains(OpenFlags::KILL_SUIDGID),
    }
}

/// The O_… flags that matter to every later write.
fn file_flags(flags: u32) -> OpenFileFlags {
    let set = |flag: i32| flags & flag as u32 == flag as u32;
    OpenFileFlags {
        append: set(libc::O_APPEND),
        sync: set(libc::O_SYNC),
        dsync: set(libc::O_DSYNC),
        direct: set(libc::O_DIRECT),
    }
}

/// Writers bypass the kernel's page cache. Readers use it and keep earlier readers' pages, unless the file has a writer: the
/// kernel drops pages that a direct write covers, so pages are never older than the file. (The mount tests this before it
/// starts; where the kernel does not drop them, no open file uses the page cache.)
///
/// A read from the page cache does not update the access time. If each read must update it, the page cache is off; if the next
/// read must, the kernel drops the earlier pages, so that the read comes to the client.
fn opened_reply(fs: &GupfsFileSystem, opened_file: &OpenedFile, flags: u32) -> OpenReply {
    let (ino, client) = (opened_file.attr.ino, &fs.client);
    let writes = flags as i32 & libc::O_ACCMODE != libc::O_RDONLY;
    let direct = writes
        || !fs.page_cache
        || flags & libc::O_DIRECT as u32 != 0
        || client.every_read_updates_atime()
        || client.has_writer(ino);
    let leaves_atime = flags & libc::O_NOATIME as u32 != 0;
    let cache_flags = if direct {
        OpenReplyFlags::DIRECT_IO | OpenReplyFlags::PARALLEL_DIRECT_WRITES
    } else if !leaves_atime && client.read_updates_atime(&opened_file.attr) {
        OpenReplyFlags::empty()
    } else {
        OpenReplyFlags::KEEP_CACHE
    };
    // The client buffers no writes, so the kernel need not send FLUSH at each close, unless FLUSH frees locks.
    let flush_flag = match fs.cluster_locks {
        true => OpenReplyFlags::empty(),
        false => OpenReplyFlags::NOFLUSH,
    };
    OpenReply {
        fh: FileHandle(opened_file.file.id()),
        flags: cache_flags | flush_flag,
    }
}

pub async fn flush(fs: &GupfsFileSystem, _: Call, op: op::Flush) -> OpResult<()> {
    let file = fs.client.file(op.fh.0)?;
    if fs.cluster_locks {
        let owner = op.lock_owner.0;
        fs.client.unlock_at_close(&file, owner).await?;
    }
    fs.client.flush(&file)
}

pub async fn release(fs: &GupfsFileSystem, _: Call, op: op::Release) -> OpResult<()> {
    fs.client.release(op.fh.0).await
}
