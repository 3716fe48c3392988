//! A mount for one test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gupfs_fuse::connection::Control;
use gupfs_fuse::over_io_uring::{self, Support};
use gupfs_fuse::{
    Config, FileSystem, InitFlags, MountError, OpenedFlags, Reader, Session, Spawner, Transport,
    Turn, mount,
};
use rustix::event::{PollFd, PollFlags, poll};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

use crate::memfs::MemFs;

pub struct Rig<F> {
    pub session: Session,
    pub fs: Arc<F>,
    runtime: Runtime,
    dir: TempDir,
}

pub fn have_fuse() -> bool {
    let there = Path::new("/dev/fuse").exists();
    if !there {
        eprintln!("SKIPPED: there is no /dev/fuse on this machine");
    }
    there && may_ring()
}

fn may_ring() -> bool {
    let support = over_io_uring::support();
    let may = crate::TRANSPORT == Transport::Device || matches!(support, Support::Ready);
    if !may {
        eprintln!("SKIPPED: no FUSE over io_uring on this machine: {support:?}");
    }
    may
}

pub fn config() -> Config {
    let mut config = Config::new("test,with \\ signs", "doortest");
    config.transport = crate::TRANSPORT;
    config.want |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
    config
}

/// A file system in memory, files through the page cache.
pub fn memory() -> Option<Rig<MemFs>> {
    Rig::new(MemFs::new(OpenedFlags::empty()), config())
}

/// A file system in memory, files past the page cache.
pub fn memory_direct() -> Option<Rig<MemFs>> {
    Rig::new(
        MemFs::new(OpenedFlags::DIRECT_IO | OpenedFlags::PARALLEL_DIRECT_WRITES),
        config(),
    )
}

impl<F: FileSystem> Rig<F> {
    pub fn new(fs: F, config: Config) -> Option<Rig<F>> {
        have_fuse().then(|| Rig::try_new(fs, config).unwrap())
    }

    pub fn try_new(fs: F, config: Config) -> Result<Rig<F>, MountError> {
        Rig::with_spawner(fs, config, |handle| {
            Arc::new(move |task| drop(handle.spawn(task)))
        })
    }

    pub fn with_spawner(
        fs: F,
        mut config: Config,
        spawner: impl FnOnce(Handle) -> Spawner,
    ) -> Result<Rig<F>, MountError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let spawner = spawner(runtime.handle().clone());
        let handle = runtime.handle().clone();
        config.around_reactor = Some(Arc::new(move |run| {
            let _in_runtime = handle.enter();
            run();
        }));
        if crate::LOOPED {
            let handle = runtime.handle().clone();
            config.on_loop = Some(Arc::new(move |reader| {
                let handle = handle.clone();
                std::thread::spawn(move || {
                    let _in_runtime = handle.enter();
                    run_loop(reader);
                });
            }));
        }
        let dir = tempfile::tempdir().unwrap();
        let fs = Arc::new(fs);
        let session = mount(dir.path(), &config, fs.clone(), spawner)?;
        watch_over(&session);
        Ok(Rig {
            session,
            fs,
            runtime,
            dir,
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// What was waiting is dropped, what comes later too.
    pub fn stop_runtime(self) -> (Session, TempDir) {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        (self.session, self.dir)
    }
}

/// The plainest event loop: it has one kind of event.
fn run_loop(mut reader: Reader) {
    let device = reader.to_watch().unwrap();
    loop {
        match reader.turn(4) {
            Turn::More => {}
            Turn::Idle | Turn::Dry => {
                let _ = poll(&mut [PollFd::new(&device, PollFlags::IN)], None);
            }
            Turn::Over => return,
        }
    }
}

/// No test runs so long. One that does hangs on its own mount, and neither it nor its process could end.
const TOO_LONG: Duration = Duration::from_secs(40);

fn watch_over(session: &Session) {
    let control = Control::open(session.connection()).unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(TOO_LONG);
        // Does nothing if the mount has gone.
        control.abort().unwrap();
    });
}

/// Waits until it is so; fails after ten seconds.
pub fn until(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of the error that must come.
pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}
