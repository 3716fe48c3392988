//! Space: how much there is, where a file has it, and copies that need not pass through the program.

use super::Outcome;
use crate::callers::{plain, with_groups};
use crate::kernel::Kernel;
use gupfs_client::{AllocateHow, SeekTo, WriteHow};
use gupfs_fuse::{Call, Statfs, op};
use gupfs_proto::{Refusal, limits::NAME_MAX};

/// Unit of the block counts.
const FRAGMENT: u32 = 4096;

/// Bytes that one more file takes of the metadata store, about.
const INODE_ROOM: u64 = 512;

pub async fn statfs(kernel: &Kernel, call: Call, (): ()) -> Outcome<Statfs> {
    let space = kernel.client.statfs(&plain(&call)).await?;
    let blocks = |bytes: u64| bytes / u64::from(FRAGMENT);
    // Inodes are records, made as long as there is room for one.
    let inodes_free = space.available / INODE_ROOM;
    Ok(Statfs {
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

pub async fn syncfs(kernel: &Kernel, _: Call, (): ()) -> Outcome<()> {
    kernel.client.sync_all().await
}

pub async fn fallocate(kernel: &Kernel, call: Call, op: op::Fallocate) -> Outcome<()> {
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    let how = match op.mode as i32 {
        0 => AllocateHow::Allocate { keep_size: false },
        mode if mode == keep => AllocateHow::Allocate { keep_size: true },
        mode if mode == keep | libc::FALLOC_FL_PUNCH_HOLE => AllocateHow::Punch,
        mode if mode == libc::FALLOC_FL_ZERO_RANGE => AllocateHow::Zero { keep_size: false },
        mode if mode == keep | libc::FALLOC_FL_ZERO_RANGE => AllocateHow::Zero { keep_size: true },
        // Collapsing and inserting ranges would move bytes between objects.
        _ => return Err(Refusal::NotSupported),
    };
    let file = kernel.client.file(op.fh.0)?;
    if call.uid != 0 {
        let who = with_groups(&call);
        kernel.client.kill_setgid(&who, &file).await?;
    }
    let done = kernel
        .client
        .allocate(&file, how, op.offset, op.length, call.uid != 0)
        .await;
    if call.uid != 0 {
        kernel.lost_privileges(file.ino());
    }
    done
}

pub async fn lseek(kernel: &Kernel, _: Call, op: op::Lseek) -> Outcome<u64> {
    let to = match op.whence as i32 {
        libc::SEEK_DATA => SeekTo::Data,
        libc::SEEK_HOLE => SeekTo::Hole,
        _ => return Err(Refusal::Invalid),
    };
    let file = kernel.client.file(op.fh.0)?;
    kernel.client.seek(&file, op.offset, to).await
}

/// The most that one request copies; programs ask on. The kernel asks for up to 2 GiB, which a slow network does not bring
/// within a deadline that is meant for servers that are away.
const COPY_MAX: u64 = 64 << 20;

pub async fn copy_file_range(kernel: &Kernel, call: Call, op: op::CopyFileRange) -> Outcome<u64> {
    let (from, to) = (
        kernel.client.file(op.fh.0)?,
        kernel.client.file(op.to_fh.0)?,
    );
    let length = op.length.min(COPY_MAX);
    let how = WriteHow {
        kill_privileges: call.uid != 0,
        ..WriteHow::default()
    };
    let copied = kernel
        .client
        .copy_range((&from, op.offset), (&to, op.to_offset), length, how)
        .await?;
    if how.kill_privileges {
        kernel.lost_privileges(to.ino());
    }
    Ok(copied)
}
