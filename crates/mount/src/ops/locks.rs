//! flock(2), fcntl(2) locks and those of open files, where several mounts share the files. The kernel asks only there.

use super::Outcome;
use crate::kernel::Kernel;
use crate::signals::signalled;
use gupfs_client::LockWish;
use gupfs_fuse::op::{self, FileLock, LockKind};
use gupfs_fuse::{Call, LockOwner};
use gupfs_proto::Refusal;
use gupfs_proto::lock::{Extent, Kind, Lock, Mode};

pub async fn getlk(kernel: &Kernel, _: Call, op: op::Lock) -> Outcome<FileLock> {
    let file = kernel.client.file(op.fh.0)?;
    let found = match wish(&op)? {
        Some(wish) => kernel.client.lock_in_the_way(&file, wish).await?,
        None => None,
    };
    let free = FileLock {
        kind: LockKind::Unlock,
        ..op.lock
    };
    Ok(found.map_or(free, told))
}

pub async fn setlk(kernel: &Kernel, _: Call, op: op::Lock) -> Outcome<()> {
    let file = kernel.client.file(op.fh.0)?;
    match wish(&op)? {
        Some(wish) => kernel.client.try_lock(&file, wish).await,
        None => kernel.client.unlock(&file, no_matter_how(&op)).await,
    }
}

/// Waits until the lock is free, or the program gets a signal.
pub async fn setlkw(kernel: &Kernel, call: Call, op: op::Lock) -> Outcome<()> {
    let Some(wish) = wish(&op)? else {
        return setlk(kernel, call, op).await;
    };
    let file = kernel.client.file(op.fh.0)?;
    let signalled = signalled(&call, &kernel.clock);
    kernel.client.lock(&file, wish, signalled).await
}

/// None if it is to unlock.
fn wish(op: &op::Lock) -> Outcome<Option<LockWish>> {
    let mode = match op.lock.kind {
        LockKind::Read => Mode::Shared,
        LockKind::Write => Mode::Exclusive,
        LockKind::Unlock => return Ok(None),
    };
    let wish = LockWish {
        mode,
        ..no_matter_how(op)
    };
    match wish.extent.is_valid() {
        true => Ok(Some(wish)),
        false => Err(Refusal::Invalid),
    }
}

fn no_matter_how(op: &op::Lock) -> LockWish {
    let LockOwner(owner) = op.owner;
    LockWish {
        kind: match op.is_flock() {
            true => Kind::Flock,
            false => Kind::Record,
        },
        owner,
        extent: Extent {
            first: op.lock.start,
            last: op.lock.end,
        },
        mode: Mode::Shared,
        pid: op.lock.pid,
    }
}

fn told(lock: Lock) -> FileLock {
    FileLock {
        start: lock.extent.first,
        end: lock.extent.last,
        kind: match lock.mode {
            Mode::Shared => LockKind::Read,
            Mode::Exclusive => LockKind::Write,
        },
        pid: lock.pid,
    }
}
