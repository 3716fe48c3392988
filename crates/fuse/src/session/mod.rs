//! # session: a mount from start to end
//!
//! Owns   the threads that serve a mount, and its position in the directory tree.
//! Never  parses a request.
//! Enter  at `mount`.

mod start;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;

use crate::attach::attach;
use crate::config::MountConfig;
use crate::connection::{ConnectionControl, ConnectionId};
use crate::error::MountError;
use crate::mount_info::{MountInfo, Negotiated};
use crate::notify::Notifier;
use crate::pending::PendingRequests;
use crate::transport::{Device, FuseTransport};
use crate::worker::{Spawner, WorkerCounts};
use crate::worker_group::WorkerGroup;
use crate::{Errno, FileSystem, mountinfo, mountpoint, read_ahead};

/// A mount that is being served. Dropping it unmounts, lazily if it is in use, and does not wait for its users.
pub struct FuseSession {
    mounted: MountInfo,
    workers: Arc<WorkerGroup>,
    counts: Vec<Arc<WorkerCounts>>,
    pending: Arc<PendingRequests>,
}

/// Outcome of an unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountOutcome {
    /// The mount was unused; it is gone.
    Clean,
    /// The mount was in use. It is detached from the directory tree and served until the last user is done.
    Detached,
    /// It had been unmounted before.
    AlreadyUnmounted,
}

/// Request counters of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    pub requests: u64,
    /// Of these, requests whose handlers were not ready at their first poll.
    pub parked: u64,
    /// Of these, requests whose handlers have not ended.
    pub waiting: usize,
    /// Of these, requests that have had an error reply (`MountConfig::reply_deadlines`): late handlers.
    pub late: usize,
}

/// Mounts `fs` at `path` and serves it with threads of this crate.
///
/// # Errors
/// `Path` if the mount point is absent; `Mount` or `Fusermount` if mounting fails; `Version`, `KernelLacks`, `NotInit` or `Malformed` if
/// the kernel is unsuitable; `NoIoUring` or `Ring` if io_uring is required and not available; `Device`, `Thread` or `Gone` if a
/// descriptor or thread cannot be created or the mount ends meanwhile. Nothing is mounted afterwards.
pub fn mount<F: FileSystem>(
    path: &Path,
    config: &MountConfig,
    fs: Arc<F>,
    spawner: Spawner,
) -> Result<FuseSession, MountError> {
    let path = path.canonicalize().map_err(|error| MountError::Path {
        path: path.into(),
        errno: error.into(),
    })?;
    let device = attach(&path, config)?;
    let started = start::open_connection(&path, device, config).and_then(|connection| {
        let notifier = connection.device.try_clone();
        let notifier = notifier.map_err(|error| MountError::Device(error.into()))?;
        let mounted = MountInfo {
            mountpoint: path.clone(),
            device: connection.number,
            connection: connection.id(),
            negotiated: connection.negotiated,
            notifier: Notifier::new(Device::of(notifier)),
        };
        start::start_session(mounted, config, connection, fs, spawner)
    });
    if started.is_err()
        && let Err(error) = mountpoint::detach(&path)
    {
        warn!(%error, path = %path.display(), "cannot unmount a mount point whose server did not start");
    }
    started
}

impl FuseSession {
    pub fn info(&self) -> &MountInfo {
        &self.mounted
    }

    /// The transport in use: `Device` or `IoUring`.
    pub fn transport(&self) -> FuseTransport {
        self.mounted.transport()
    }

    pub fn negotiated(&self) -> &Negotiated {
        &self.mounted.negotiated
    }

    pub fn notifier(&self) -> &Notifier {
        &self.mounted.notifier
    }

    pub fn connection(&self) -> ConnectionId {
        self.mounted.connection
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mounted.mountpoint
    }

    pub fn counts(&self) -> RequestCounts {
        let sum =
            |count: fn(&WorkerCounts) -> u64| self.counts.iter().map(|worker| count(worker)).sum();
        RequestCounts {
            requests: sum(|worker| worker.requests.load(Ordering::Relaxed)),
            parked: sum(|worker| worker.parked.load(Ordering::Relaxed)),
            waiting: self.pending.waiting(),
            late: self.pending.late(),
        }
    }

    /// Sets the read-ahead in KiB; needs root. See `read_ahead`.
    ///
    /// # Errors
    /// As `read_ahead::set`.
    pub fn set_read_ahead(&self, kib: u32) -> io::Result<()> {
        read_ahead::set(self.mounted.device, kib)
    }

    /// Unmounts if the mount is unused; EBUSY otherwise. Not to be called from a worker thread.
    ///
    /// # Errors
    /// EBUSY if the mount is in use; without root the error that fusermount3 reports; the error of reading the mount table.
    pub fn try_unmount(&self) -> io::Result<UnmountOutcome> {
        if !self.is_in_tree()? {
            return Ok(UnmountOutcome::AlreadyUnmounted);
        }
        mountpoint::release(self.mountpoint())?;
        Ok(UnmountOutcome::Clean)
    }

    /// Unmounts, lazily if the mount is in use. Not to be called from a worker thread.
    ///
    /// # Errors
    /// As `try_unmount`, except EBUSY.
    pub fn unmount(&self) -> io::Result<UnmountOutcome> {
        match self.try_unmount() {
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY.raw()) => {
                mountpoint::detach(self.mountpoint())?;
                Ok(UnmountOutcome::Detached)
            }
            other => other,
        }
    }

    /// Aborts the connection now: programs that use the mount get errors. The mount stays in the directory tree.
    ///
    /// # Errors
    /// Other if fusectl is not available, or the error of write(2).
    pub fn abort(&self) -> io::Result<()> {
        self.workers.abort()
    }

    /// The control files of this connection, for a watchdog; None if fusectl is not available.
    pub fn control(&self) -> Option<&ConnectionControl> {
        self.workers.control()
    }

    /// Blocks until the connection has ended and no worker runs: unmounted with the last user gone, or aborted.
    pub fn wait(&self) {
        self.workers.wait();
    }

    /// Whether the connection has ended and no worker runs.
    pub fn is_over(&self) -> bool {
        self.workers.is_over()
    }

    /// Whether the connection was aborted because a worker failed; the log has its error.
    pub fn has_failed(&self) -> bool {
        self.workers.has_failed()
    }

    /// Whether this mount is the topmost at its path: an administrator may have unmounted it, or covered it with another mount.
    ///
    /// # Errors
    /// The error of reading the mount table.
    pub fn is_in_tree(&self) -> io::Result<bool> {
        Ok(mountinfo::mount_at(self.mountpoint())?
            .is_some_and(|mount| mount.device == self.mounted.device))
    }
}

impl Drop for FuseSession {
    fn drop(&mut self) {
        let unmounted = if self.is_in_tree().unwrap_or(false) {
            self.unmount().map(drop)
        } else {
            Ok(())
        };
        if let Err(error) = unmounted {
            warn!(%error, path = %self.mountpoint().display(), "cannot unmount");
        }
    }
}
