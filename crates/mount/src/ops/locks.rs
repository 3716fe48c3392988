//! flock(2), fcntl(2) record locks and open file description locks. The kernel sends these requests only for shared mounts.

use super::OpResult;
use crate::filesystem::GupfsFileSystem;
use crate::signals::wait_for_signal;
use gupfs_client::LockSpec;
use gupfs_fuse::op::{self, FileLock, LockKind};
use gupfs_fuse::{Call, LockOwner};
use gupfs_proto::FsError;
use gupfs_proto::lock::{AdvisoryLock, LockFamily, LockMode, LockRange};

pub async fn getlk(fs: &GupfsFileSystem, _: Call, op: op::Lock) -> OpResult<FileLock> {
    let file = fs.client.file(op.fh.0)?;
    let found = match lock_spec(&op)? {
        Some(spec) => fs.client.test_lock(&file, spec).await?,
        None => None,
    };
    let free = FileLock {
        kind: LockKind::Unlock,
        ..op.lock
    };
    Ok(found.map_or(free, to_fuse_lock))
}

pub async fn setlk(fs: &GupfsFileSystem, _: Call, op: op::Lock) -> OpResult<()> {
    let file = fs.client.file(op.fh.0)?;
    match lock_spec(&op)? {
        Some(spec) => fs.client.try_lock(&file, spec).await,
        None => fs.client.unlock(&file, spec_without_mode(&op)).await,
    }
}

/// Waits until the lock is free, or the program gets a signal.
pub async fn setlkw(fs: &GupfsFileSystem, call: Call, op: op::Lock) -> OpResult<()> {
    let Some(spec) = lock_spec(&op)? else {
        return setlk(fs, call, op).await;
    };
    let file = fs.client.file(op.fh.0)?;
    let signalled = wait_for_signal(&call, &fs.clock);
    fs.client.lock(&file, spec, signalled).await
}

/// None for an unlock.
fn lock_spec(op: &op::Lock) -> OpResult<Option<LockSpec>> {
    let mode = match op.lock.kind {
        LockKind::Read => LockMode::Shared,
        LockKind::Write => LockMode::Exclusive,
        LockKind::Unlock => return Ok(None),
    };
    let spec = LockSpec {
        mode,
        ..spec_without_mode(op)
    };
    match spec.range.is_valid() {
        true => Ok(Some(spec)),
        false => Err(FsError::Invalid),
    }
}

fn spec_without_mode(op: &op::Lock) -> LockSpec {
    let LockOwner(owner) = op.owner;
    LockSpec {
        family: match op.is_flock() {
            true => LockFamily::Flock,
            false => LockFamily::Record,
        },
        owner,
        range: LockRange {
            first: op.lock.start,
            last: op.lock.end,
        },
        mode: LockMode::Shared,
        pid: op.lock.pid,
    }
}

fn to_fuse_lock(lock: AdvisoryLock) -> FileLock {
    FileLock {
        start: lock.range.first,
        end: lock.range.last,
        kind: match lock.mode {
            LockMode::Shared => LockKind::Read,
            LockMode::Exclusive => LockKind::Write,
        },
        pid: lock.pid,
    }
}
