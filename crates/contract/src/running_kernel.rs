//! The running kernel: real mounts in temporary directories, with the programs' system calls on threads that may block.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gupfs_fuse::connection::ConnectionControl;
use gupfs_fuse::{
    Errno, FuseSession, FuseTransport, MountConfig, NodeId, Notifier, NotifyError, Spawner, mount,
};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::ProbeFailure;
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::{ACCESS_ACL, ProbeServer, acl_user};
use crate::running_file::{RunningFile, run_blocking};
use crate::working_directory::WorkingDirectory;

/// A call that still waits after this time hangs on a mount of its own process, whose connection is then aborted.
const TOO_LONG: Duration = Duration::from_secs(15);

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

impl RunningMount {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl ProbeMount for RunningMount {
    type File = RunningFile;
    type Directory = WorkingDirectory;

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
        Ok(RunningFile::new(file))
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

    async fn notify_deletion(
        &self,
        parent: NodeId,
        child: u64,
        name: &str,
    ) -> Result<Result<(), NotifyError>, ProbeFailure> {
        let (notifier, name) = (self.session.notifier().clone(), name.to_owned());
        let sent = tokio::task::spawn_blocking(move || {
            notifier.delete(parent, NodeId(child), name.as_bytes())
        });
        Ok(sent.await.unwrap_or(Err(NotifyError::Gone)))
    }

    async fn evict(&self, name: &str) -> Result<(), ProbeFailure> {
        Ok(self.notify(KernelNotification::name(name)).await?)
    }

    async fn make_directory(&self, name: &str) -> Result<(), ProbeFailure> {
        let path = self.path(name);
        Ok(run_blocking(move || fs::create_dir(path)).await?)
    }

    async fn set_mode(&self, name: &str, mode: u32) -> Result<(), ProbeFailure> {
        let path = self.path(name);
        let permissions = Permissions::from_mode(mode);
        Ok(run_blocking(move || fs::set_permissions(path, permissions)).await?)
    }

    async fn acl_user(&self, name: &str) -> Result<Option<u32>, ProbeFailure> {
        let path = self.path(name);
        let found = run_blocking(move || {
            let mut value = [0; 256];
            let length = rustix::fs::getxattr(path, ACCESS_ACL, &mut value[..])?;
            Ok(acl_user(&value[..length]))
        });
        match found.await {
            Err(Errno::ENODATA) => Ok(None),
            found => Ok(found?),
        }
    }

    async fn open_truncating(&self, name: &str) -> Result<RunningFile, ProbeFailure> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        options.write(true).truncate(true);
        let file = run_blocking(move || options.open(path)).await?;
        Ok(RunningFile::new(file))
    }

    async fn enter(&self, name: &str) -> Result<WorkingDirectory, ProbeFailure> {
        Ok(WorkingDirectory::enter(self.path(name)).await?)
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
