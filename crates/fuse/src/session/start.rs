//! Starts the workers of a mount.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use gupfs_uring::BlockingThreads;
use tracing::{info, warn};

use super::FuseSession;
use crate::buffer::Pool;
use crate::call::CallContext;
use crate::config::MountConfig;
use crate::connection::{ConnectionControl, ConnectionId};
use crate::error::MountError;
use crate::handshake::handshake;
use crate::limits::DEVICE_WORKERS_WITH_RINGS;
use crate::mount_info::{MountInfo, Negotiated};
use crate::mountinfo::{self, DeviceNumber};
use crate::pending::PendingRequests;
use crate::reader::RequestReader;
use crate::request::RequestFormat;
use crate::ring_threads::RingThreads;
use crate::transport::Device;
use crate::wire::InitFlags;
use crate::worker::{Spawner, Worker, WorkerCounts, prefer_local};
use crate::worker_group::WorkerGroup;
use crate::{Errno, FileSystem};

/// A connection after INIT, which no worker serves yet.
pub(super) struct OpenConnection {
    pub device: OwnedFd,
    pub number: DeviceNumber,
    pub negotiated: Negotiated,
    /// None if fusectl is not available.
    control: Option<ConnectionControl>,
    rings: Option<RingThreads>,
}

impl OpenConnection {
    pub fn id(&self) -> ConnectionId {
        connection_of(self.number)
    }
}

/// The connection's number is the minor number of the mount's device.
fn connection_of(number: DeviceNumber) -> ConnectionId {
    ConnectionId(number.minor)
}

/// Negotiates INIT on the device that is mounted at `path`.
pub(super) fn open_connection(
    path: &Path,
    device: OwnedFd,
    config: &MountConfig,
) -> Result<OpenConnection, MountError> {
    let entry = mountinfo::mount_at(path).map_err(|error| MountError::Device(error.into()))?;
    let number = entry.ok_or(MountError::Gone)?.device;
    // Opened now: when it is needed, the number may belong to another mount.
    let control = ConnectionControl::open(connection_of(number))
        .inspect_err(
            |error| warn!(%error, "fusectl is not available: this mount cannot be aborted"),
        )
        .ok();
    let (device, negotiated, rings) = handshake(device, config, control.is_some())?;
    Ok(OpenConnection {
        device,
        number,
        negotiated,
        control,
        rings,
    })
}

/// Makes the workers of a mount, each with its own buffers.
struct WorkerFactory<F> {
    fs: Arc<F>,
    spawner: Spawner,
    pending: Arc<PendingRequests>,
    format: RequestFormat,
    max_write: usize,
}

impl<F: FileSystem> WorkerFactory<F> {
    fn worker(&self, device: Arc<Device>) -> Arc<Worker<F>> {
        let call_context = CallContext {
            pool: Arc::new(Pool::new(self.max_write)),
            pending: self.pending.clone(),
        };
        Arc::new(Worker::new(
            device,
            call_context,
            self.format,
            self.fs.clone(),
            self.spawner.clone(),
        ))
    }
}

/// The workers of a session, by what reads their requests.
struct SessionWorkers<F> {
    device: Vec<Arc<Worker<F>>>,
    ring: Vec<Arc<Worker<F>>>,
}

impl<F: FileSystem> SessionWorkers<F> {
    /// `event_loop`: an event loop of the caller reads the device.
    fn new(
        factory: &WorkerFactory<F>,
        device: &OwnedFd,
        config: &MountConfig,
        rings: Option<&RingThreads>,
        event_loop: bool,
    ) -> Result<SessionWorkers<F>, MountError> {
        let count = match (rings, event_loop) {
            (Some(_), _) => DEVICE_WORKERS_WITH_RINGS,
            (None, true) => 1,
            (None, false) => config.device_workers.max(1),
        };
        let devices = worker_devices(device, config, count, event_loop)?;
        let rings = 0..rings.map_or(0, RingThreads::count);
        Ok(SessionWorkers {
            // A request that came through a ring gets its reply through it: these workers need no descriptor of their own.
            ring: rings.map(|_| factory.worker(devices[0].clone())).collect(),
            device: devices
                .into_iter()
                .map(|device| factory.worker(device))
                .collect(),
        })
    }

    fn counts(&self) -> Vec<Arc<WorkerCounts>> {
        let all = self.device.iter().chain(&self.ring);
        all.map(|worker| worker.counts.clone()).collect()
    }
}

/// Makes the workers, reports the mount to the file system, and starts the workers.
pub(super) fn start_session<F: FileSystem>(
    mounted: MountInfo,
    config: &MountConfig,
    connection: OpenConnection,
    fs: Arc<F>,
    spawner: Spawner,
) -> Result<FuseSession, MountError> {
    let OpenConnection {
        device,
        control,
        rings,
        ..
    } = connection;
    let pending = Arc::new(PendingRequests::new(config.reply_deadlines));
    let factory = WorkerFactory {
        fs: fs.clone(),
        spawner: match rings {
            Some(_) => prefer_local(spawner),
            None => spawner,
        },
        pending: pending.clone(),
        format: RequestFormat {
            setxattr_ext: mounted.negotiated.has(InitFlags::SETXATTR_EXT),
        },
        max_write: config.max_write as usize,
    };
    // A process that may not open the device has only the descriptor that fusermount3 sent, and that one blocks.
    let can_poll = || rings.is_none() && Device::nonblocking_clone_of(device.as_fd()).is_ok();
    let attach_reader = config.attach_reader.as_ref().filter(|_| can_poll());
    let event_loop = attach_reader.is_some();
    let mut workers = SessionWorkers::new(&factory, &device, config, rings.as_ref(), event_loop)?;
    let counts = workers.counts();
    fs.mounted(&mounted);
    let group = Arc::new(WorkerGroup::new(
        mounted.connection,
        control,
        rings.as_ref().map_or(Vec::new(), RingThreads::inboxes),
        counts.len(),
        pending.clone(),
    ));
    // Over io_uring the kernel drops a signal that arrives while a request is on its way into the ring.
    pending
        .start_watcher(rings.is_none())
        .map_err(MountError::Thread)?;
    if let Some(attach_reader) = attach_reader {
        for worker in workers.device.drain(..) {
            attach_reader(RequestReader::new(worker, group.clone()));
        }
    }
    start_device_threads(workers.device, workers.ring.len(), config, &group)?;
    if let Some(rings) = rings {
        start_ring_threads(rings, &workers.ring, config, &group)?;
    }
    let transport = mounted.transport();
    info!(path = %mounted.mountpoint.display(), connection = %mounted.connection, ?transport, workers = counts.len(), "mounted");
    Ok(FuseSession {
        mounted,
        workers: group,
        counts,
        pending,
    })
}

/// A descriptor of the connection for each of `count` workers; for the caller's event loop (`event_loop`) reading never blocks.
fn worker_devices(
    device: &OwnedFd,
    config: &MountConfig,
    count: usize,
    event_loop: bool,
) -> Result<Vec<Arc<Device>>, MountError> {
    let one = |_| {
        let cloned = match event_loop {
            true => Device::nonblocking_clone_of(device.as_fd()),
            false => Device::clone_of(device.as_fd(), config.idle_spin),
        };
        match cloned {
            Err(Errno::EACCES) if !event_loop => {
                // fusermount3 may open the device and this process may not: all workers use the descriptor that it sent.
                warn!("cannot open /dev/fuse; all worker threads share one request queue");
                let shared = device.try_clone().map(Device::of);
                shared.map_err(|error| MountError::Device(error.into()))
            }
            other => other.map_err(MountError::Device),
        }
        .map(Arc::new)
    };
    (0..count).map(one).collect()
}

/// Starts a thread for each worker. `later`: how many workers of the group are started after these.
fn start_device_threads<F: FileSystem>(
    workers: Vec<Arc<Worker<F>>>,
    later: usize,
    config: &MountConfig,
    group: &Arc<WorkerGroup>,
) -> Result<(), MountError> {
    let count = workers.len();
    // One worker is always left to read requests. With reply deadlines no worker blocks in a disk read while it has a request.
    let may_wait = match config.reply_deadlines {
        None => count.saturating_sub(1),
        Some(_) => 0,
    };
    let waiters = BlockingThreads::new(may_wait);
    for (index, worker) in workers.into_iter().enumerate() {
        let (waiters, around) = (waiters.clone(), config.around_worker.clone());
        let its_group = group.clone();
        let body = move || {
            let run = || worker.run(&waiters).map_err(|errno| errno.to_string());
            its_group.run_worker(&*worker.fs, around, run);
        };
        let builder = thread::Builder::new().name(format!("fuse-{index}"));
        if let Err(error) = builder.spawn(body) {
            group.abort_without_unstarted(count - index + later);
            return Err(MountError::Thread(error));
        }
    }
    Ok(())
}

/// Gives each ring its worker.
fn start_ring_threads<F: FileSystem>(
    rings: RingThreads,
    workers: &[Arc<Worker<F>>],
    config: &MountConfig,
    group: &Arc<WorkerGroup>,
) -> Result<(), MountError> {
    let started = rings.start(|index| {
        let (group, around) = (group.clone(), config.around_worker.clone());
        let worker = workers[index].clone();
        Box::new(move |ring| {
            let run = || worker.run_ring(ring).map_err(|error| error.to_string());
            group.run_worker(&*worker.fs, around, run);
        })
    });
    if !started {
        let _ = group.abort();
        let ended = io::Error::other("a ring thread ended");
        return Err(MountError::Ring(ended));
    }
    Ok(())
}
