//! Data of open files.

use super::OpResult;
use crate::filesystem::GupfsFileSystem;
use gupfs_client::{Durability, ReadOptions, WriteOptions};
use gupfs_fuse::{Call, FsyncFlags, ReplyData, WriteFlags, op};
use gupfs_proto::meta::WritePosition;
use std::sync::atomic::Ordering;

pub async fn read(fs: &GupfsFileSystem, _: Call, op: op::Read) -> OpResult<ReplyData> {
    tracing::trace!(target: "walk", file = file!(), "read");
    let file = fs.client.file(op.fh.0)?;
    // fcntl(2) can change it after open.
    let options = ReadOptions::new(op.open_flags & libc::O_NOATIME as u32 != 0);
    let (client, offset, length) = (&fs.client, op.offset, u64::from(op.size));
    let segments = match op.is_direct() {
        true => client.read(&file, offset, length, options).await?,
        false => client.read_pages(&file, offset, length, options).await?,
    };
    let data = ReplyData::from(segments);
    fs.metrics
        .read_bytes
        .fetch_add(data.len() as u64, Ordering::Relaxed);
    Ok(data)
}

pub async fn write(fs: &GupfsFileSystem, _: Call, op: op::Write) -> OpResult<u32> {
    tracing::trace!(target: "walk", file = file!(), "write");
    let set = |flag: i32| op.open_flags & flag as u32 == flag as u32;
    // Pages dirtied through a mapping are written at their offset, even if the descriptor has O_APPEND.
    let append = set(libc::O_APPEND) && !op.flags.contains(WriteFlags::CACHE);
    let at = if append {
        WritePosition::End
    } else {
        WritePosition::Offset(op.offset)
    };
    // fcntl(2) can change both after open. O_SYNC has the bits of O_DSYNC, too.
    let durability = match (set(libc::O_SYNC), set(libc::O_DSYNC)) {
        (true, _) => Durability::All,
        (_, true) => Durability::Data,
        _ => Durability::Answered,
    };
    let options = WriteOptions {
        kill_privileges: op.flags.contains(WriteFlags::KILL_SUIDGID),
        durability,
        from_page_cache: op.flags.contains(WriteFlags::CACHE),
    };
    let file = fs.client.file(op.fh.0)?;
    let done = fs
        .client
        .write(&file, at, op.data.into_shared_bytes(), options)
        .await;
    // Also after a failed write: the server clears them before its first byte.
    if options.kill_privileges {
        fs.privileges_killed(file.ino());
    }
    let done = done?;
    fs.metrics
        .written_bytes
        .fetch_add(done.written, Ordering::Relaxed);
    // A request carries at most max_write bytes, which is below 4 GiB.
    Ok(done.written as u32)
}

pub async fn fsync(fs: &GupfsFileSystem, _: Call, op: op::Fsync) -> OpResult<()> {
    tracing::trace!(target: "walk", file = file!(), "fsync");
    let file = fs.client.file(op.fh.0)?;
    fs.client
        .fsync(&file, op.flags.contains(FsyncFlags::DATASYNC))
        .await
}
