//! A mount for one test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gupfs_fuse::connection::ConnectionControl;
use gupfs_fuse::over_io_uring::{self, UringSupport};
use gupfs_fuse::{
    FileSystem, FuseSession, FuseTransport, InitFlags, MountConfig, MountError, OpenReplyFlags,
    ReadProgress, RequestReader, Spawner, mount,
};
use gupfs_skips::{Need, skip};
use rustix::event::{PollFd, PollFlags, poll};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

use crate::memfs::MemFs;

pub struct TestMount<F> {
    pub session: FuseSession,
    pub fs: Arc<F>,
    runtime: Runtime,
    dir: TempDir,
}

pub fn have_fuse() -> bool {
    let exists = Path::new("/dev/fuse").exists();
    if !exists {
        skip(Need::Fuse, "there is no /dev/fuse on this host");
    }
    exists && transport_available()
}

fn transport_available() -> bool {
    let support = over_io_uring::support();
    let may = crate::TRANSPORT == FuseTransport::Device || matches!(support, UringSupport::Ready);
    if !may {
        skip(
            Need::FuseOverIoUring,
            format!("no FUSE over io_uring on this host: {support:?}"),
        );
    }
    may
}

pub fn config() -> MountConfig {
    let mut config = MountConfig::new("test,with \\ signs", "fusetest");
    config.transport = crate::TRANSPORT;
    config.wanted_flags |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
    config
}

/// A file system in memory, with cached I/O.
pub fn memory() -> Option<TestMount<MemFs>> {
    TestMount::new(MemFs::new(OpenReplyFlags::empty()), config())
}

/// A file system in memory, with direct I/O.
pub fn memory_direct() -> Option<TestMount<MemFs>> {
    TestMount::new(
        MemFs::new(OpenReplyFlags::DIRECT_IO | OpenReplyFlags::PARALLEL_DIRECT_WRITES),
        config(),
    )
}

impl<F: FileSystem> TestMount<F> {
    pub fn new(fs: F, config: MountConfig) -> Option<TestMount<F>> {
        have_fuse().then(|| TestMount::try_new(fs, config).unwrap())
    }

    pub fn try_new(fs: F, config: MountConfig) -> Result<TestMount<F>, MountError> {
        TestMount::with_spawner(fs, config, |handle| {
            Arc::new(move |task| drop(handle.spawn(task)))
        })
    }

    pub fn with_spawner(
        fs: F,
        mut config: MountConfig,
        spawner: impl FnOnce(Handle) -> Spawner,
    ) -> Result<TestMount<F>, MountError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let spawner = spawner(runtime.handle().clone());
        let handle = runtime.handle().clone();
        config.around_worker = Some(Arc::new(move |run| {
            let _in_runtime = handle.enter();
            run();
        }));
        if crate::EVENT_LOOP {
            let handle = runtime.handle().clone();
            config.attach_reader = Some(Arc::new(move |reader| {
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
        abort_after_timeout(&session);
        Ok(TestMount {
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

    /// Shuts the runtime down, which drops pending and later tasks.
    pub fn stop_runtime(self) -> (FuseSession, TempDir) {
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        (self.session, self.dir)
    }
}

/// A minimal event loop with one kind of event.
fn run_loop(mut reader: RequestReader) {
    let device = reader.poll_descriptor().unwrap();
    loop {
        match reader.read_requests(4) {
            ReadProgress::More => {}
            ReadProgress::Idle | ReadProgress::Drained => {
                let _ = poll(&mut [PollFd::new(&device, PollFlags::IN)], None);
            }
            ReadProgress::Disconnected => return,
        }
    }
}

/// No test runs this long. A test that does hangs on its own mount, and neither it nor its process could end.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Every step of a test ends within this time, also on a slow host: all take milliseconds, except that an idle ring releases its
/// memory after two seconds. A step that only the abort of the mount ends takes longer.
pub const SOON: Duration = Duration::from_secs(40);
const _: () = assert!(SOON.as_secs() < TEST_TIMEOUT.as_secs());

fn abort_after_timeout(session: &FuseSession) {
    let control = ConnectionControl::open(session.connection()).unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(TEST_TIMEOUT);
        // Does nothing if the mount is gone.
        control.abort().unwrap();
    });
}

/// Waits until the condition holds; fails after `SOON`.
pub fn until(condition: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < SOON,
            "timed out waiting until {condition}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The error number of a result that must be an error.
pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}
