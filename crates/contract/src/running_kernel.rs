//! The running kernel: real mounts in temporary directories, with the programs' system calls on threads that may block.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gupfs_fuse::connection::ConnectionControl;
use gupfs_fuse::{
    Errno, FuseSession, FuseTransport, MountConfig, Notifier, NotifyError, Spawner, mount,
};
use rustix::fs::FlockOperation;
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::ProbeFailure;
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::ProbeServer;
use crate::shared_mapping::SharedMapping;

/// A call that still waits after this time hangs on a mount of its own process, whose connection is then aborted.
const TOO_LONG: Duration = Duration::from_secs(15);

const PAGE: usize = 4096;

/// The kernel of this host. Use it within a multi-threaded tokio runtime.
#[derive(Clone)]
pub struct RunningKernel {
    transport: FuseTransport,
    /// Directory in which mount points are created.
    directory: PathBuf,
    /// All connections that were made; aborting one that has ended has no effect.
    connections: Arc<Mutex<Vec<Arc<ConnectionControl>>>>,
}

impl RunningKernel {
    pub fn new(transport: FuseTransport, directory: PathBuf) -> RunningKernel {
        RunningKernel {
            transport,
            directory,
            connections: Arc::default(),
        }
    }

    /// Aborts all connections, so that no thread waits in a mount: a process that dies with a mount in use may never exit.
    pub fn abort_all(&self) {
        let connections = self.connections.lock();
        for control in connections.unwrap_or_else(PoisonError::into_inner).iter() {
            abort_connection(control);
        }
    }

    /// Aborts the session's connection after a timeout; has no effect if it has ended.
    fn abort_after_timeout(&self, session: &FuseSession) {
        let control = match ConnectionControl::open(session.connection()) {
            Ok(control) => Arc::new(control),
            Err(error) => {
                tracing::debug!(%error, "cannot abort a kernel test that hangs");
                return;
            }
        };
        let connections = self.connections.lock();
        connections
            .unwrap_or_else(PoisonError::into_inner)
            .push(control.clone());
        std::thread::spawn(move || {
            std::thread::sleep(TOO_LONG);
            abort_connection(&control);
        });
    }
}

fn abort_connection(control: &ConnectionControl) {
    if let Err(error) = control.abort() {
        tracing::debug!(%error, "cannot abort the connection of a kernel test");
    }
}

/// A mount of a probe server.
pub struct RunningMount {
    /// Declared before the directory: dropping the session unmounts.
    session: FuseSession,
    dir: TempDir,
}

pub struct RunningFile {
    file: Arc<File>,
    map: Arc<Mutex<Option<SharedMapping>>>,
}

impl KernelUnderTest for RunningKernel {
    type Mount = RunningMount;

    async fn mount(
        &self,
        server: &Arc<ProbeServer>,
        flags: InitFlagChanges,
    ) -> Result<RunningMount, ProbeFailure> {
        let mut config = MountConfig::new("contract", "gupfs-contract");
        config.transport = self.transport;
        config.allow_other = false;
        config.wanted_flags |= flags.with;
        config.wanted_flags -= flags.without;
        let runtime = Handle::current();
        let (spawning, entering) = (runtime.clone(), runtime);
        let spawner: Spawner = Arc::new(move |task| drop(spawning.spawn(task)));
        config.around_worker = Some(Arc::new(move |run| {
            let _in_runtime = entering.enter();
            run();
        }));
        let untested = |error: &dyn std::fmt::Display| ProbeFailure::Untested(error.to_string());
        let dir = TempDir::new_in(&self.directory).map_err(|error| untested(&error))?;
        let session = mount(dir.path(), &config, server.clone(), spawner);
        let session = session.map_err(|error| untested(&error))?;
        self.abort_after_timeout(&session);
        Ok(RunningMount { session, dir })
    }
}

/// Runs `work` on a thread that may block; it continues if the future is dropped.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Errno> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Errno::from),
        Err(_) => Err(Errno::EIO),
    }
}

impl RunningMount {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl ProbeMount for RunningMount {
    type File = RunningFile;

    async fn size(&self, name: &str) -> Result<u64, Errno> {
        let path = self.path(name);
        run_blocking(move || Ok(fs::metadata(path)?.len())).await
    }

    async fn list(&self) -> Result<Vec<String>, Errno> {
        let root = self.dir.path().to_owned();
        run_blocking(move || {
            let names = fs::read_dir(root)?.map(|entry| entry.map(|entry| entry.file_name()));
            names
                .map(|name| name.map(|name| name.to_string_lossy().into_owned()))
                .collect()
        })
        .await
    }

    async fn create(&self, name: &str) -> Result<(), Errno> {
        let path = self.path(name);
        run_blocking(move || {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            options.open(path).map(drop)
        })
        .await
    }

    async fn link(&self, name: &str, new: &str) -> Result<(), Errno> {
        let (path, new) = (self.path(name), self.path(new));
        run_blocking(move || fs::hard_link(path, new)).await
    }

    async fn open(&self, name: &str, how: ProbeOpenMode) -> Result<RunningFile, Errno> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        match how {
            ProbeOpenMode::Read => options.read(true),
            ProbeOpenMode::ReadWrite => options.read(true).write(true),
            ProbeOpenMode::Append => options.append(true),
        };
        let file = run_blocking(move || options.open(path)).await?;
        Ok(RunningFile {
            file: Arc::new(file),
            map: Arc::default(),
        })
    }

    async fn cover(&self, name: &str) -> Result<(), ProbeFailure> {
        if !rustix::process::geteuid().is_root() {
            return Err(ProbeFailure::Untested(
                "only root may mount a file system on the test directory".into(),
            ));
        }
        let path = self.path(name);
        let flags = rustix::mount::MountFlags::empty();
        run_blocking(move || Ok(rustix::mount::mount("none", path, "tmpfs", flags, None)?))
            .await
            .map_err(|errno| {
                ProbeFailure::Untested(format!(
                    "cannot mount a file system on the test directory: {errno}"
                ))
            })
    }

    async fn is_covered(&self, name: &str) -> bool {
        // The kernel notices an expired mount point only when it is accessed.
        let noticed = self.size(name).await;
        tracing::trace!(?noticed, "accessed a directory that may be covered");
        let path = self.path(name);
        matches!(gupfs_fuse::mountinfo::mount_at(&path), Ok(Some(_)))
    }

    async fn notify(&self, notification: KernelNotification) -> Result<(), NotifyError> {
        let notifier = self.session.notifier().clone();
        let sent =
            tokio::task::spawn_blocking(move || send_notification(&notifier, &notification)).await;
        sent.unwrap_or(Err(NotifyError::Gone))
    }

    async fn abort(&self) -> Result<(), ProbeFailure> {
        let aborted = self.session.abort();
        aborted.map_err(|error| {
            ProbeFailure::Untested(format!("cannot abort the connection: {error}"))
        })
    }
}

fn send_notification(
    notifier: &Notifier,
    notification: &KernelNotification,
) -> Result<(), NotifyError> {
    match notification {
        KernelNotification::Inode { node, offset } => notifier.inval_inode(*node, *offset, 0),
        KernelNotification::Entry { parent, name } => {
            notifier.inval_entry(*parent, name.as_bytes())
        }
        KernelNotification::Epoch => notifier.inc_epoch(),
    }
}

impl ProbeFile for RunningFile {
    async fn read(&self, at: u64) -> Result<Option<u8>, Errno> {
        let file = self.file.clone();
        run_blocking(move || {
            let mut byte = [0];
            Ok((file.read_at(&mut byte, at)? == 1).then_some(byte[0]))
        })
        .await
    }

    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        run_blocking(move || file.write_all_at(&bytes, at)).await
    }

    async fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        run_blocking(move || io::Write::write_all(&mut &*file, &bytes)).await
    }

    async fn splice(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        run_blocking(move || {
            let (_out, into) = rustix::pipe::pipe()?;
            let flags = rustix::pipe::SpliceFlags::empty();
            rustix::pipe::splice(file.as_fd(), Some(&mut 0), into, None, 100, flags)?;
            Ok(())
        })
        .await
    }

    async fn store(&self, byte: u8) -> Result<(), Errno> {
        let (file, map) = (self.file.clone(), self.map.clone());
        run_blocking(move || {
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            let map = match &mut *map {
                Some(map) => map,
                none => none.insert(SharedMapping::shared(&file, PAGE)?),
            };
            map.bytes_mut()[0] = byte;
            Ok(())
        })
        .await
    }

    async fn flock(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        run_blocking(move || Ok(rustix::fs::flock(&*file, FlockOperation::LockExclusive)?)).await
    }

    async fn lock(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        let operation = FlockOperation::NonBlockingLockExclusive;
        run_blocking(move || Ok(rustix::fs::fcntl_lock(&*file, operation)?)).await
    }

    async fn close(self) {
        drop(self);
    }
}
