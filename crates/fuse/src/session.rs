//! # session: a mount from start to end
//!
//! Owns   the threads that serve a mount, and its position in the directory tree.
//! Never  parses a request.
//! Enter  at `mount`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use gupfs_uring::BlockingThreads;
use tracing::{debug, error, info, warn};

use crate::buffer::Pool;
use crate::config::{AroundWorker, FuseTransport, MountConfig};
use crate::connection::{ConnectionControl, ConnectionId};
use crate::error::MountError;
use crate::handshake::{Negotiated, handshake};
use crate::limits::DEVICE_WORKERS_WITH_RINGS;
use crate::mountinfo::{self, DeviceNumber};
use crate::pending::PendingRequests;
use crate::reader::RequestReader;
use crate::request::RequestFormat;
use crate::ring_threads::RingThreads;
use crate::transport::Device;
use crate::transport::ring::RingInbox;
use crate::wire::InitFlags;
use crate::worker::{CallContext, Spawner, Worker, WorkerContext, WorkerCounts, prefer_local};
use crate::{Errno, FileSystem, Notifier, mount as mounting, mountpoint, read_ahead};

/// Information about a mount that the file system receives.
#[derive(Clone)]
pub struct MountInfo {
    pub mountpoint: PathBuf,
    pub device: DeviceNumber,
    pub connection: ConnectionId,
    pub negotiated: Negotiated,
    pub notifier: Notifier,
}

impl MountInfo {
    /// The transport in use: `Device` or `IoUring`.
    pub fn transport(&self) -> FuseTransport {
        match self.negotiated.has(InitFlags::OVER_IO_URING) {
            true => FuseTransport::IoUring,
            false => FuseTransport::Device,
        }
    }
}

/// A mount that is being served. Dropping it unmounts, lazily if it is in use, and does not wait for its users.
pub struct FuseSession {
    mounted: MountInfo,
    state: Arc<SessionState>,
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

/// State that all workers of a session share; the last worker that ends marks the session as over.
pub(crate) struct SessionState {
    connection: ConnectionId,
    /// None if fusectl is not available.
    control: Option<ConnectionControl>,
    /// A ring learns of the end from its inbox: it gets no completion if the kernel has none of its entries.
    inboxes: Vec<Arc<RingInbox>>,
    running_workers: Mutex<usize>,
    ended: Condvar,
    is_over: AtomicBool,
    pending: Arc<PendingRequests>,
}

impl SessionState {
    fn abort(&self) -> io::Result<()> {
        match &self.control {
            Some(control) => control.abort(),
            None => Err(io::Error::other(
                "the kernel's FUSE control files (fusectl) are not available",
            )),
        }
    }

    /// The count is consistent at every moment; a panic elsewhere does not invalidate it.
    fn lock_running_workers(&self) -> MutexGuard<'_, usize> {
        self.running_workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mounts `fs` at `path` and serves it with threads of this crate.
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
    let device = mounting::attach(&path, config)?;
    let attached = open_connection(&path, device, config);
    let started = attached.and_then(|(device, negotiated, number, parts)| {
        let mounted = MountInfo {
            mountpoint: path.clone(),
            device: number,
            // The connection's number is the minor number of the mount's device.
            connection: ConnectionId(number.minor),
            negotiated,
            notifier: Notifier::new(Device::of(
                device
                    .try_clone()
                    .map_err(|error| MountError::Device(error.into()))?,
            )),
        };
        start_session(mounted, config, device, parts, fs, spawner)
    });
    if started.is_err()
        && let Err(error) = mountpoint::detach(&path)
    {
        warn!(%error, path = %path.display(), "cannot unmount a mount point whose server did not start");
    }
    started
}

/// Parts of a connection besides its device.
struct ConnectionParts {
    /// None if fusectl is not available.
    control: Option<ConnectionControl>,
    rings: Option<RingThreads>,
}

type AttachedMount = (OwnedFd, Negotiated, DeviceNumber, ConnectionParts);

fn open_connection(
    path: &Path,
    device: OwnedFd,
    config: &MountConfig,
) -> Result<AttachedMount, MountError> {
    let entry = mountinfo::mount_at(path).map_err(|error| MountError::Device(error.into()))?;
    let number = entry.ok_or(MountError::Gone)?.device;
    // Opened now: when it is needed, the number may belong to another mount. The connection's number is the minor number of the
    // mount's device.
    let control = ConnectionControl::open(ConnectionId(number.minor))
        .inspect_err(
            |error| warn!(%error, "fusectl is not available: this mount cannot be aborted"),
        )
        .ok();
    let (device, negotiated, rings) = handshake(device, config, control.is_some())?;
    Ok((
        device,
        negotiated,
        number,
        ConnectionParts { control, rings },
    ))
}

fn start_session<F: FileSystem>(
    mounted: MountInfo,
    config: &MountConfig,
    device: OwnedFd,
    parts: ConnectionParts,
    fs: Arc<F>,
    spawner: Spawner,
) -> Result<FuseSession, MountError> {
    let spawner = match parts.rings {
        Some(_) => prefer_local(spawner),
        None => spawner,
    };
    let pending = Arc::new(PendingRequests::new(config.reply_deadlines));
    let format = RequestFormat {
        setxattr_ext: mounted.negotiated.has(InitFlags::SETXATTR_EXT),
    };
    let ConnectionParts { control, rings } = parts;
    // A process that may not open the device has only the descriptor that fusermount3 sent, and that one blocks.
    let can_poll = || rings.is_none() && Device::nonblocking_clone_of(device.as_fd()).is_ok();
    let attach_reader = config.attach_reader.as_ref().filter(|_| can_poll());
    let device_workers = match (&rings, attach_reader) {
        (Some(_), _) => DEVICE_WORKERS_WITH_RINGS,
        (None, Some(_)) => 1,
        (None, None) => config.device_workers.max(1),
    };
    let worker_count = device_workers + rings.as_ref().map_or(0, RingThreads::count);
    let worker = |device| {
        let context = WorkerContext {
            device,
            call_context: Arc::new(CallContext {
                pool: Arc::new(Pool::new(config.max_write as usize)),
                pending: pending.clone(),
            }),
            format,
            counts: Arc::new(WorkerCounts::default()),
        };
        Arc::new(Worker {
            context: Arc::new(context),
            fs: fs.clone(),
            spawner: spawner.clone(),
        })
    };
    let mut workers = Vec::with_capacity(worker_count);
    for _ in 0..device_workers {
        let cloned = match attach_reader {
            Some(_) => Device::nonblocking_clone_of(device.as_fd()),
            None => Device::clone_of(device.as_fd(), config.idle_spin),
        };
        let device = match cloned {
            Err(Errno::EACCES) if attach_reader.is_none() => {
                // fusermount3 may open the device and this process may not: all workers use the descriptor that it sent.
                warn!("cannot open /dev/fuse; all worker threads share one request queue");
                let shared = device.try_clone().map(Device::of);
                shared.map_err(|error| MountError::Device(error.into()))?
            }
            other => other.map_err(MountError::Device)?,
        };
        workers.push(worker(Arc::new(device)));
    }
    for _ in device_workers..worker_count {
        workers.push(worker(workers[0].context.device.clone()));
    }
    let counts = workers
        .iter()
        .map(|worker| worker.context.counts.clone())
        .collect();
    fs.mounted(&mounted);
    let state = Arc::new(SessionState {
        connection: mounted.connection,
        control,
        inboxes: rings.as_ref().map_or(Vec::new(), RingThreads::inboxes),
        running_workers: Mutex::new(worker_count),
        ended: Condvar::new(),
        is_over: AtomicBool::new(false),
        pending: pending.clone(),
    });
    // Over io_uring the kernel drops a signal that arrives while a request is on its way into the ring.
    pending
        .start_watcher(rings.is_none())
        .map_err(MountError::Thread)?;
    let ring_workers = workers.split_off(device_workers);
    if let Some(attach_reader) = attach_reader {
        for worker in workers.drain(..) {
            attach_reader(RequestReader::new(worker, state.clone()));
        }
    }
    // One worker is always left to read requests. With reply deadlines no worker blocks in a disk read while it has a request.
    let may_wait = match config.reply_deadlines {
        None => workers.len().saturating_sub(1),
        Some(_) => 0,
    };
    let waiters = BlockingThreads::new(may_wait);
    for (index, worker) in workers.into_iter().enumerate() {
        let (worker_state, around) = (state.clone(), config.around_worker.clone());
        let waiters = waiters.clone();
        let builder = thread::Builder::new().name(format!("fuse-{index}"));
        let body = move || {
            let run = || worker.run(&waiters).map_err(|errno| errno.to_string());
            run_worker(&worker, around, &worker_state, run);
        };
        if let Err(error) = builder.spawn(body) {
            // Workers that run already end with the connection, and `wait` then returns.
            *state.lock_running_workers() -= worker_count - index;
            let _ = state.abort();
            return Err(MountError::Thread(error));
        }
    }
    if let Some(rings) = rings {
        let all = rings.start(|index| {
            let (state, around) = (state.clone(), config.around_worker.clone());
            let worker = ring_workers[index].clone();
            Box::new(move |ring| {
                let run = || worker.run_ring(ring).map_err(|error| error.to_string());
                run_worker(&worker, around, &state, run);
            })
        });
        if !all {
            let _ = state.abort();
            let ended = io::Error::other("a ring thread ended");
            return Err(MountError::Ring(ended));
        }
    }
    let transport = mounted.transport();
    info!(path = %mounted.mountpoint.display(), connection = %mounted.connection, ?transport, workers = worker_count, "mounted");
    Ok(FuseSession {
        mounted,
        state,
        counts,
        pending,
    })
}

/// Runs one worker to its end.
fn run_worker<F: FileSystem>(
    worker: &Worker<F>,
    around: Option<AroundWorker>,
    state: &SessionState,
    body: impl FnOnce() -> Result<(), String>,
) {
    let (mut end, mut body) = (Ok(()), Some(body));
    let mut run = || {
        if let Some(body) = body.take() {
            end = body();
        }
    };
    // Panics of handlers are caught elsewhere. A panic that arrives here is a bug of this crate, and leaves no state that is
    // used again in an intermediate state.
    let panicked = catch_unwind(AssertUnwindSafe(|| match around {
        Some(around) => around(&mut run),
        None => run(),
    }))
    .is_err();
    let failed = panicked || end.is_err();
    if failed {
        error!(
            panicked,
            ?end,
            "a FUSE worker thread failed; aborting the connection"
        );
    }
    worker_ended(worker, state, failed);
}

/// Accounts for the end of one worker.
pub(crate) fn worker_ended<F: FileSystem>(worker: &Worker<F>, state: &SessionState, failed: bool) {
    // Otherwise programs would wait for replies that never come. No other thread can reply to the requests of one CPU's ring,
    // so no ring may end alone; aborting an ended connection has no effect.
    if (failed || !state.inboxes.is_empty())
        && let Err(error) = state.abort()
    {
        error!(%error, "cannot abort the connection");
    }
    state.inboxes.iter().for_each(|inbox| inbox.close());
    let last = {
        let mut running_workers = state.lock_running_workers();
        *running_workers -= 1;
        *running_workers == 0
    };
    if last {
        state.pending.end();
        worker.fs.unmounted();
        debug!(connection = %state.connection, "the connection has ended");
        // Under the lock, so that a thread that is about to wait cannot miss it.
        let _running = state.lock_running_workers();
        state.is_over.store(true, Ordering::Release);
        state.ended.notify_all();
    }
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
    pub fn set_read_ahead(&self, kib: u32) -> io::Result<()> {
        read_ahead::set(self.mounted.device, kib)
    }

    /// Unmounts if the mount is unused; EBUSY otherwise. Not to be called from a worker thread.
    pub fn try_unmount(&self) -> io::Result<UnmountOutcome> {
        if !self.is_in_tree()? {
            return Ok(UnmountOutcome::AlreadyUnmounted);
        }
        mounting::release(self.mountpoint())?;
        Ok(UnmountOutcome::Clean)
    }

    /// Unmounts, lazily if the mount is in use. Not to be called from a worker thread.
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
    pub fn abort(&self) -> io::Result<()> {
        self.state.abort()
    }

    /// The control files of this connection, for a watchdog; None if fusectl is not available.
    pub fn control(&self) -> Option<&ConnectionControl> {
        self.state.control.as_ref()
    }

    /// Blocks until the connection has ended and no worker runs: unmounted with the last user gone, or aborted.
    pub fn wait(&self) {
        let mut running_workers = self.state.lock_running_workers();
        while !self.state.is_over.load(Ordering::Acquire) {
            running_workers = self
                .state
                .ended
                .wait(running_workers)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the connection has ended and no worker runs.
    pub fn is_over(&self) -> bool {
        self.state.is_over.load(Ordering::Acquire)
    }

    /// Whether this mount is the topmost at its path: an administrator may have unmounted it, or covered it with another mount.
    fn is_in_tree(&self) -> io::Result<bool> {
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
