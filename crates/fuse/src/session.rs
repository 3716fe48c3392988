//! # session: a mount from its beginning to its end
//!
//! Owns   the threads that serve a mount, and its place in the tree.
//! Never  looks at a request.
//! Enter  at `mount`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use gupfs_uring::Waiters;
use tracing::{debug, error, info, warn};

use crate::buffer::Pool;
use crate::config::{AroundReactor, Config, Transport};
use crate::connection::{ConnectionId, Control};
use crate::error::MountError;
use crate::handshake::{Negotiated, handshake};
use crate::lane::{Desk, Kit, Lane, LaneCounts, Spawner, or_to};
use crate::limits::REACTORS_BESIDE_RINGS;
use crate::mountinfo::{self, DeviceNumber};
use crate::reader::Reader;
use crate::request::Dialect;
use crate::rings::Rings;
use crate::transport::Device;
use crate::transport::ring::Home;
use crate::waits::Waits;
use crate::wire::InitFlags;
use crate::{Errno, FileSystem, Notifier, mount as mounting, mountpoint, read_ahead};

/// What a file system is told about its mount.
#[derive(Clone)]
pub struct Mounted {
    pub mountpoint: PathBuf,
    pub device: DeviceNumber,
    pub connection: ConnectionId,
    pub negotiated: Negotiated,
    pub notifier: Notifier,
}

impl Mounted {
    /// The way requests come: `Device` or `IoUring`.
    pub fn transport(&self) -> Transport {
        match self.negotiated.has(InitFlags::OVER_IO_URING) {
            true => Transport::IoUring,
            false => Transport::Device,
        }
    }
}

/// A mount that is being served. Dropping it takes the mount out of the tree and waits for nobody.
pub struct Session {
    mounted: Mounted,
    life: Arc<Life>,
    counts: Vec<Arc<LaneCounts>>,
    waits: Arc<Waits>,
}

/// How an unmount went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmounted {
    /// Nobody used the mount; it is gone.
    Clean,
    /// The mount was in use. It is out of the tree and is served until the last user is done.
    Detached,
    /// Somebody had unmounted it before.
    Before,
}

/// Requests so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub requests: u64,
    /// Of these, those that could not be answered at once and went to the spawner.
    pub parked: u64,
    /// Of these, those whose handlers have not ended.
    pub waiting: usize,
    /// Of these, those that have been answered all the same (`Config::in_time`).
    pub late: usize,
}

/// Threads that run, and loops; the last one to end closes the door.
pub(crate) struct Life {
    connection: ConnectionId,
    /// None where fusectl cannot be had.
    control: Option<Control>,
    /// Rings do not hear of the end if the kernel has none of their places.
    homes: Vec<Arc<Home>>,
    running: Mutex<usize>,
    ended: Condvar,
    over: AtomicBool,
    waits: Arc<Waits>,
}

impl Life {
    fn abort(&self) -> io::Result<()> {
        match &self.control {
            Some(control) => control.abort(),
            None => Err(io::Error::other(
                "the kernel's control files, fusectl, cannot be used",
            )),
        }
    }

    /// The count is whole at every moment; a panic elsewhere does not spoil it.
    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mounts `fs` at `path` and serves it with its own threads.
pub fn mount<F: FileSystem>(
    path: &Path,
    config: &Config,
    fs: Arc<F>,
    spawner: Spawner,
) -> Result<Session, MountError> {
    let path = path.canonicalize().map_err(|error| MountError::Path {
        path: path.into(),
        errno: error.into(),
    })?;
    let device = mounting::attach(&path, config)?;
    let attached = connect(&path, device, config);
    let started = attached.and_then(|(device, negotiated, number, connected)| {
        let mounted = Mounted {
            mountpoint: path.clone(),
            device: number,
            // The connection bears the minor number of the mount's device.
            connection: ConnectionId(number.minor),
            negotiated,
            notifier: Notifier::new(Device::of(
                device
                    .try_clone()
                    .map_err(|error| MountError::Device(error.into()))?,
            )),
        };
        start(mounted, config, device, connected, fs, spawner)
    });
    if started.is_err()
        && let Err(error) = mountpoint::detach(&path)
    {
        warn!(%error, path = %path.display(), "cannot unmount what could not be served");
    }
    started
}

/// What a connection has beside its device.
struct Connected {
    /// None where fusectl cannot be had.
    control: Option<Control>,
    rings: Option<Rings>,
}

type Attached = (OwnedFd, Negotiated, DeviceNumber, Connected);

fn connect(path: &Path, device: OwnedFd, config: &Config) -> Result<Attached, MountError> {
    let entry = mountinfo::at(path).map_err(|error| MountError::Device(error.into()))?;
    let number = entry.ok_or(MountError::Gone)?.device;
    // Opened now: the number may be another mount's when it is needed. The connection bears the minor number of the
    // mount's device.
    let control = Control::open(ConnectionId(number.minor))
        .inspect_err(|error| warn!(%error, "no fusectl: this mount cannot be aborted"))
        .ok();
    let (device, negotiated, rings) = handshake(device, config, control.is_some())?;
    Ok((device, negotiated, number, Connected { control, rings }))
}

fn start<F: FileSystem>(
    mounted: Mounted,
    config: &Config,
    device: OwnedFd,
    connected: Connected,
    fs: Arc<F>,
    spawner: Spawner,
) -> Result<Session, MountError> {
    let spawner = match connected.rings {
        Some(_) => or_to(spawner),
        None => spawner,
    };
    let waits = Arc::new(Waits::new(config.in_time));
    let dialect = Dialect {
        setxattr_ext: mounted.negotiated.has(InitFlags::SETXATTR_EXT),
    };
    let Connected { control, rings } = connected;
    // Who may not open the device has the one that fusermount3 sent alone, and that one waits.
    let may_watch = || rings.is_none() && Device::watched_clone_of(device.as_fd()).is_ok();
    let on_loop = config.on_loop.as_ref().filter(|_| may_watch());
    let readers = match (&rings, on_loop) {
        (Some(_), _) => REACTORS_BESIDE_RINGS,
        (None, Some(_)) => 1,
        (None, None) => config.reactors.max(1),
    };
    let reactors = readers + rings.as_ref().map_or(0, Rings::count);
    let lane = |device| {
        let desk = Desk {
            device,
            kit: Arc::new(Kit {
                pool: Arc::new(Pool::new(config.max_write as usize)),
                waits: waits.clone(),
            }),
            dialect,
            counts: Arc::new(LaneCounts::default()),
        };
        Arc::new(Lane {
            desk: Arc::new(desk),
            fs: fs.clone(),
            spawner: spawner.clone(),
        })
    };
    let mut lanes = Vec::with_capacity(reactors);
    for _ in 0..readers {
        let cloned = match on_loop {
            Some(_) => Device::watched_clone_of(device.as_fd()),
            None => Device::clone_of(device.as_fd(), config.on_idle_spin),
        };
        let device = match cloned {
            Err(Errno::EACCES) if on_loop.is_none() => {
                // fusermount3 may open the device and we may not: all reactors use the one it sent.
                warn!("cannot open /dev/fuse; all reactors share one queue");
                let shared = device.try_clone().map(Device::of);
                shared.map_err(|error| MountError::Device(error.into()))?
            }
            other => other.map_err(MountError::Device)?,
        };
        lanes.push(lane(Arc::new(device)));
    }
    for _ in readers..reactors {
        lanes.push(lane(lanes[0].desk.device.clone()));
    }
    let counts = lanes.iter().map(|lane| lane.desk.counts.clone()).collect();
    fs.mounted(&mounted);
    let life = Arc::new(Life {
        connection: mounted.connection,
        control,
        homes: rings.as_ref().map_or(Vec::new(), Rings::homes),
        running: Mutex::new(reactors),
        ended: Condvar::new(),
        over: AtomicBool::new(false),
        waits: waits.clone(),
    });
    // Over io_uring the kernel forgets a signal that comes while a request is on its way into the ring.
    waits.start(rings.is_none()).map_err(MountError::Thread)?;
    let of_rings = lanes.split_off(readers);
    if let Some(on_loop) = on_loop {
        for lane in lanes.drain(..) {
            on_loop(Reader::new(lane, life.clone()));
        }
    }
    // One of them is always left to take requests. Where answers must come in time nobody waits with one in his hands.
    let may_wait = match config.in_time {
        None => lanes.len().saturating_sub(1),
        Some(_) => 0,
    };
    let waiters = Waiters::new(may_wait);
    for (index, lane) in lanes.into_iter().enumerate() {
        let (life_of, around) = (life.clone(), config.around_reactor.clone());
        let waiters = waiters.clone();
        let reactor = thread::Builder::new().name(format!("door-{index}"));
        let body = move || {
            let run = || lane.run(&waiters).map_err(|errno| errno.to_string());
            serve(&lane, around, &life_of, run);
        };
        if let Err(error) = reactor.spawn(body) {
            // Those that run already end with the connection, and who waits for it is told.
            *life.running() -= reactors - index;
            let _ = life.abort();
            return Err(MountError::Thread(error));
        }
    }
    if let Some(rings) = rings {
        let all = rings.start(|index| {
            let (life, around) = (life.clone(), config.around_reactor.clone());
            let lane = of_rings[index].clone();
            Box::new(move |ring| {
                let run = || lane.run_ring(ring).map_err(|error| error.to_string());
                serve(&lane, around, &life, run);
            })
        });
        if !all {
            let _ = life.abort();
            let ended = io::Error::other("a ring's thread ended");
            return Err(MountError::Ring(ended));
        }
    }
    let transport = mounted.transport();
    info!(path = %mounted.mountpoint.display(), connection = %mounted.connection, ?transport, reactors, "mounted");
    Ok(Session {
        mounted,
        life,
        counts,
        waits,
    })
}

/// The life of one reactor.
fn serve<F: FileSystem>(
    lane: &Lane<F>,
    around: Option<AroundReactor>,
    life: &Life,
    body: impl FnOnce() -> Result<(), String>,
) {
    let (mut end, mut body) = (Ok(()), Some(body));
    let mut run = || {
        if let Some(body) = body.take() {
            end = body();
        }
    };
    // Handlers' panics do not come here. One that does is a mistake of the door's, and leaves nothing half done that
    // is used again.
    let panicked = catch_unwind(AssertUnwindSafe(|| match around {
        Some(around) => around(&mut run),
        None => run(),
    }))
    .is_err();
    let failed = panicked || end.is_err();
    if failed {
        error!(panicked, ?end, "a reactor cannot go on");
    }
    leave(lane, life, failed);
}

/// The end of one reactor.
pub(crate) fn leave<F: FileSystem>(lane: &Lane<F>, life: &Life, failed: bool) {
    // Otherwise programs would wait for answers that never come. What a ring of a CPU would have answered nobody else
    // does, so none may end alone; aborting what has ended does nothing.
    if (failed || !life.homes.is_empty())
        && let Err(error) = life.abort()
    {
        error!(%error, "cannot abort the connection");
    }
    life.homes.iter().for_each(|home| home.close());
    let last = {
        let mut running = life.running();
        *running -= 1;
        *running == 0
    };
    if last {
        life.waits.end();
        lane.fs.unmounted();
        debug!(connection = %life.connection, "the connection has ended");
        // Under the lock, so that nobody who is about to wait misses it.
        let _running = life.running();
        life.over.store(true, Ordering::Release);
        life.ended.notify_all();
    }
}

impl Session {
    pub fn mounted(&self) -> &Mounted {
        &self.mounted
    }

    /// The way requests come: `Device` or `IoUring`.
    pub fn transport(&self) -> Transport {
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

    pub fn counts(&self) -> Counts {
        let sum = |count: fn(&LaneCounts) -> u64| self.counts.iter().map(|lane| count(lane)).sum();
        Counts {
            requests: sum(|lane| lane.requests.load(Ordering::Relaxed)),
            parked: sum(|lane| lane.parked.load(Ordering::Relaxed)),
            waiting: self.waits.waiting(),
            late: self.waits.late(),
        }
    }

    /// In KiB; needs root. See `read_ahead`.
    pub fn set_read_ahead(&self, kib: u32) -> io::Result<()> {
        read_ahead::set(self.mounted.device, kib)
    }

    /// Takes the mount out of the tree if nobody uses it; EBUSY otherwise. Not to be called from a reactor.
    pub fn try_unmount(&self) -> io::Result<Unmounted> {
        if !self.is_in_tree()? {
            return Ok(Unmounted::Before);
        }
        mounting::release(self.mountpoint())?;
        Ok(Unmounted::Clean)
    }

    /// Takes the mount out of the tree, whoever uses it. Not to be called from a reactor.
    pub fn unmount(&self) -> io::Result<Unmounted> {
        match self.try_unmount() {
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY.raw()) => {
                mountpoint::detach(self.mountpoint())?;
                Ok(Unmounted::Detached)
            }
            other => other,
        }
    }

    /// Ends the connection now: whoever uses the mount gets errors. The mount stays in the tree.
    pub fn abort(&self) -> io::Result<()> {
        self.life.abort()
    }

    /// What can abort this connection and no other, for a guardian; None where fusectl cannot be had.
    pub fn control(&self) -> Option<&Control> {
        self.life.control.as_ref()
    }

    /// Blocks until the connection has ended and no reactor runs: unmounted and the last user gone, or aborted.
    pub fn wait(&self) {
        let mut running = self.life.running();
        while !self.life.over.load(Ordering::Acquire) {
            running = self
                .life
                .ended
                .wait(running)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// If the connection has ended and no reactor runs.
    pub fn is_over(&self) -> bool {
        self.life.over.load(Ordering::Acquire)
    }

    /// The path may have been unmounted by hand, or covered by another mount.
    fn is_in_tree(&self) -> io::Result<bool> {
        Ok(mountinfo::at(self.mountpoint())?
            .is_some_and(|mount| mount.device == self.mounted.device))
    }
}

impl Drop for Session {
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
