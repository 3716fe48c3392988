//! Bytes of open files.

use super::Outcome;
use crate::kernel::Kernel;
use gupfs_client::{Durability, ReadHow, WriteHow};
use gupfs_fuse::{Call, Data, FsyncFlags, WriteFlags, op};
use gupfs_proto::meta::WriteAt;
use std::sync::atomic::Ordering;

pub async fn read(kernel: &Kernel, _: Call, op: op::Read) -> Outcome<Data> {
    let file = kernel.client.file(op.fh.0)?;
    // fcntl(2) can change it after open.
    let how = ReadHow {
        leaves_atime: op.open_flags & libc::O_NOATIME as u32 != 0,
    };
    let pieces = kernel
        .client
        .read(&file, op.offset, u64::from(op.size), how)
        .await?;
    let data = Data::from(pieces);
    kernel
        .meter
        .read_bytes
        .fetch_add(data.len() as u64, Ordering::Relaxed);
    Ok(data)
}

pub async fn write(kernel: &Kernel, _: Call, op: op::Write) -> Outcome<u32> {
    let set = |flag: i32| op.open_flags & flag as u32 == flag as u32;
    // Pages that a mapping dirtied go where they lie, whatever the descriptor they come through.
    let append = set(libc::O_APPEND) && !op.flags.contains(WriteFlags::CACHE);
    let at = if append {
        WriteAt::End
    } else {
        WriteAt::Offset(op.offset)
    };
    // fcntl(2) can change both after open. O_SYNC has the bits of O_DSYNC, too.
    let durability = match (set(libc::O_SYNC), set(libc::O_DSYNC)) {
        (true, _) => Durability::All,
        (_, true) => Durability::Data,
        _ => Durability::Answered,
    };
    let how = WriteHow {
        kill_privileges: op.flags.contains(WriteFlags::KILL_SUIDGID),
        durability,
    };
    let file = kernel.client.file(op.fh.0)?;
    let done = kernel
        .client
        .write(&file, at, op.data.into_passing_bytes(), how)
        .await;
    // Also of a write that failed: they go before its first byte.
    if how.kill_privileges {
        kernel.lost_privileges(file.ino());
    }
    let done = done?;
    kernel
        .meter
        .written_bytes
        .fetch_add(done.written, Ordering::Relaxed);
    // A request carries at most max_write bytes, which is below 4 GiB.
    Ok(done.written as u32)
}

pub async fn fsync(kernel: &Kernel, _: Call, op: op::Fsync) -> Outcome<()> {
    let file = kernel.client.file(op.fh.0)?;
    kernel
        .client
        .fsync(&file, op.flags.contains(FsyncFlags::DATASYNC))
        .await
}
