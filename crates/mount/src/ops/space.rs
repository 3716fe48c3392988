//! statfs, syncfs, fallocate, lseek and copy_file_range.

use super::OpResult;
use crate::credentials::{caller_with_groups, caller_without_groups};
use crate::filesystem::GupfsFileSystem;
use gupfs_client::{AllocateMode, SeekTo, WriteOptions};
use gupfs_fuse::{Call, StatfsReply, op};
use gupfs_proto::{FsError, limits::NAME_MAX};

/// Unit of the block counts.
const FRAGMENT: u32 = 4096;

/// Approximate bytes of the metadata store that one more file takes.
const INODE_BYTES: u64 = 512;

pub async fn statfs(fs: &GupfsFileSystem, call: Call, (): ()) -> OpResult<StatfsReply> {
    let space = fs.client.statfs(&caller_without_groups(&call)).await?;
    let blocks = |bytes: u64| bytes / u64::from(FRAGMENT);
    // Inodes are records; their number is limited only by free space.
    let inodes_free = space.available / INODE_BYTES;
    Ok(StatfsReply {
        blocks: blocks(space.total),
        blocks_free: blocks(space.free),
        blocks_available: blocks(space.available),
        files: space.inodes + inodes_free,
        files_free: inodes_free,
        block_size: FRAGMENT,
        name_max: NAME_MAX as u32,
        fragment_size: FRAGMENT,
    })
}

pub async fn syncfs(fs: &GupfsFileSystem, _: Call, (): ()) -> OpResult<()> {
    fs.client.sync_all().await
}

pub async fn fallocate(fs: &GupfsFileSystem, call: Call, op: op::Fallocate) -> OpResult<()> {
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    let mode = match op.mode as i32 {
        0 => AllocateMode::Allocate { keep_size: false },
        mode if mode == keep => AllocateMode::Allocate { keep_size: true },
        mode if mode == keep | libc::FALLOC_FL_PUNCH_HOLE => AllocateMode::Punch,
        mode if mode == libc::FALLOC_FL_ZERO_RANGE => AllocateMode::Zero { keep_size: false },
        mode if mode == keep | libc::FALLOC_FL_ZERO_RANGE => AllocateMode::Zero { keep_size: true },
        // Collapsing and inserting ranges would move bytes between objects.
        _ => return Err(FsError::NotSupported),
    };
    let file = fs.client.file(op.fh.0)?;
    if call.uid != 0 {
        let caller = caller_with_groups(&call);
        fs.client.kill_setgid(&caller, &file).await?;
    }
    let done = fs
        .client
        .allocate(&file, mode, op.offset, op.length, call.uid != 0)
        .await;
    if call.uid != 0 {
        fs.privileges_killed(file.ino());
    }
    done
}

pub async fn lseek(fs: &GupfsFileSystem, _: Call, op: op::Lseek) -> OpResult<u64> {
    let to = match op.whence as i32 {
        libc::SEEK_DATA => SeekTo::Data,
        libc::SEEK_HOLE => SeekTo::Hole,
        _ => return Err(FsError::Invalid),
    };
    let file = fs.client.file(op.fh.0)?;
    fs.client.seek(&file, op.offset, to).await
}

/// Most bytes that one request copies; programs continue after a short copy. The kernel requests up to 2 GiB, which a slow
/// network does not transfer within a deadline that is meant for unreachable servers.
const COPY_MAX: u64 = 64 << 20;

pub async fn copy_file_range(
    fs: &GupfsFileSystem,
    call: Call,
    op: op::CopyFileRange,
) -> OpResult<u64> {
    let (from, to) = (fs.client.file(op.fh.0)?, fs.client.file(op.to_fh.0)?);
    let length = op.length.min(COPY_MAX);
    let options = WriteOptions {
        kill_privileges: call.uid != 0,
        ..WriteOptions::default()
    };
    let copied = fs
        .client
        .copy_range((&from, op.offset), (&to, op.to_offset), length, options)
        .await?;
    if options.kill_privileges {
        fs.privileges_killed(to.ino());
    }
    Ok(copied)
}
