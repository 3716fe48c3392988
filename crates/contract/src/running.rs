//! The running kernel: real mounts in temporary directories, programs' calls on threads that may block.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gupfs_fuse::connection::Control;
use gupfs_fuse::{Config, Errno, Notifier, NotifyError, Session, Spawner, Transport, mount};
use rustix::fs::FlockOperation;
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::Otherwise;
use crate::linux::{Flags, How, Linux, OpenFile, Tree, Word};
use crate::map::Map;
use crate::probe::Probe;

/// A program that still waits then hangs on a mount of its own process, which is ended.
const TOO_LONG: Duration = Duration::from_secs(15);

const PAGE: usize = 4096;

/// The kernel of this machine. To be used within a tokio runtime of several threads.
#[derive(Clone)]
pub struct Running {
    transport: Transport,
    /// Mounts are made in directories of it.
    place: PathBuf,
    /// Connections that were made; ending one that has ended does nothing.
    connections: Arc<Mutex<Vec<Arc<Control>>>>,
}

impl Running {
    pub fn new(transport: Transport, place: PathBuf) -> Running {
        Running {
            transport,
            place,
            connections: Arc::default(),
        }
    }

    /// Ends all mounts, so that nobody waits in one: a process that dies with one in use may be there for ever.
    pub fn abort_all(&self) {
        let connections = self.connections.lock();
        for control in connections.unwrap_or_else(PoisonError::into_inner).iter() {
            end(control);
        }
    }

    /// Ends it when it takes too long; of one that is over it finds nothing.
    fn watch_over(&self, session: &Session) {
        let control = match Control::open(session.connection()) {
            Ok(control) => Arc::new(control),
            Err(error) => {
                tracing::debug!(%error, "nobody watches over a try of the kernel");
                return;
            }
        };
        let connections = self.connections.lock();
        connections
            .unwrap_or_else(PoisonError::into_inner)
            .push(control.clone());
        std::thread::spawn(move || {
            std::thread::sleep(TOO_LONG);
            end(&control);
        });
    }
}

fn end(control: &Control) {
    if let Err(error) = control.abort() {
        tracing::debug!(%error, "a try of the kernel could not be ended");
    }
}

/// A mount of the probe.
pub struct Mounted {
    /// Before the directory: dropped, it unmounts.
    session: Session,
    dir: TempDir,
}

pub struct Opened {
    file: Arc<File>,
    map: Arc<Mutex<Option<Map>>>,
}

impl Linux for Running {
    type Tree = Mounted;

    async fn mount(&self, probe: &Arc<Probe>, flags: Flags) -> Result<Mounted, Otherwise> {
        let mut config = Config::new("contract", "gupfs-contract");
        config.transport = self.transport;
        config.allow_other = false;
        config.want |= flags.with;
        config.want -= flags.without;
        let runtime = Handle::current();
        let (spawning, entering) = (runtime.clone(), runtime);
        let spawner: Spawner = Arc::new(move |task| drop(spawning.spawn(task)));
        config.around_reactor = Some(Arc::new(move |run| {
            let _in_runtime = entering.enter();
            run();
        }));
        let untried = |error: &dyn std::fmt::Display| Otherwise::Untried(error.to_string());
        let dir = TempDir::new_in(&self.place).map_err(|error| untried(&error))?;
        let session = mount(dir.path(), &config, probe.clone(), spawner);
        let session = session.map_err(|error| untried(&error))?;
        self.watch_over(&session);
        Ok(Mounted { session, dir })
    }
}

/// On a thread that may wait; it goes on when nobody waits for it any more.
async fn call<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Errno> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Errno::from),
        Err(_) => Err(Errno::EIO),
    }
}

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Tree for Mounted {
    type File = Opened;

    async fn size(&self, name: &str) -> Result<u64, Errno> {
        let path = self.path(name);
        call(move || Ok(fs::metadata(path)?.len())).await
    }

    async fn list(&self) -> Result<Vec<String>, Errno> {
        let root = self.dir.path().to_owned();
        call(move || {
            let names = fs::read_dir(root)?.map(|entry| entry.map(|entry| entry.file_name()));
            names
                .map(|name| name.map(|name| name.to_string_lossy().into_owned()))
                .collect()
        })
        .await
    }

    async fn create(&self, name: &str) -> Result<(), Errno> {
        let path = self.path(name);
        call(move || {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            options.open(path).map(drop)
        })
        .await
    }

    async fn link(&self, name: &str, new: &str) -> Result<(), Errno> {
        let (path, new) = (self.path(name), self.path(new));
        call(move || fs::hard_link(path, new)).await
    }

    async fn open(&self, name: &str, how: How) -> Result<Opened, Errno> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        match how {
            How::Read => options.read(true),
            How::ReadWrite => options.read(true).write(true),
            How::Append => options.append(true),
        };
        let file = call(move || options.open(path)).await?;
        Ok(Opened {
            file: Arc::new(file),
            map: Arc::default(),
        })
    }

    async fn cover(&self, name: &str) -> Result<(), Otherwise> {
        if !rustix::process::geteuid().is_root() {
            return Err(Otherwise::Untried("only root may mount on it".into()));
        }
        let path = self.path(name);
        let flags = rustix::mount::MountFlags::empty();
        call(move || Ok(rustix::mount::mount("none", path, "tmpfs", flags, None)?))
            .await
            .map_err(|errno| Otherwise::Untried(format!("nothing can be mounted on it: {errno}")))
    }

    async fn is_covered(&self, name: &str) -> bool {
        // Looking at it is what makes the kernel notice.
        let noticed = self.size(name).await;
        tracing::trace!(?noticed, "looked at what may be covered");
        let path = self.path(name);
        matches!(gupfs_fuse::mountinfo::at(&path), Ok(Some(_)))
    }

    async fn tell(&self, word: Word) -> Result<(), NotifyError> {
        let notifier = self.session.notifier().clone();
        let told = tokio::task::spawn_blocking(move || say(&notifier, &word)).await;
        told.unwrap_or(Err(NotifyError::Gone))
    }

    async fn abort(&self) -> Result<(), Otherwise> {
        let aborted = self.session.abort();
        aborted
            .map_err(|error| Otherwise::Untried(format!("the connection cannot be ended: {error}")))
    }
}

fn say(notifier: &Notifier, word: &Word) -> Result<(), NotifyError> {
    match word {
        Word::Inode { node, offset } => notifier.inval_inode(*node, *offset, 0),
        Word::Entry { parent, name } => notifier.inval_entry(*parent, name.as_bytes()),
        Word::Epoch => notifier.inc_epoch(),
    }
}

impl OpenFile for Opened {
    async fn read(&self, at: u64) -> Result<Option<u8>, Errno> {
        let file = self.file.clone();
        call(move || {
            let mut byte = [0];
            Ok((file.read_at(&mut byte, at)? == 1).then_some(byte[0]))
        })
        .await
    }

    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        call(move || file.write_all_at(&bytes, at)).await
    }

    async fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        let (file, bytes) = (self.file.clone(), bytes.to_vec());
        call(move || io::Write::write_all(&mut &*file, &bytes)).await
    }

    async fn splice(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        call(move || {
            let (_out, into) = rustix::pipe::pipe()?;
            let flags = rustix::pipe::SpliceFlags::empty();
            rustix::pipe::splice(file.as_fd(), Some(&mut 0), into, None, 100, flags)?;
            Ok(())
        })
        .await
    }

    async fn store(&self, byte: u8) -> Result<(), Errno> {
        let (file, map) = (self.file.clone(), self.map.clone());
        call(move || {
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            let map = match &mut *map {
                Some(map) => map,
                none => none.insert(Map::shared(&file, PAGE)?),
            };
            map.bytes_mut()[0] = byte;
            Ok(())
        })
        .await
    }

    async fn flock(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        call(move || Ok(rustix::fs::flock(&*file, FlockOperation::LockExclusive)?)).await
    }

    async fn lock(&self) -> Result<(), Errno> {
        let file = self.file.clone();
        let operation = FlockOperation::NonBlockingLockExclusive;
        call(move || Ok(rustix::fs::fcntl_lock(&*file, operation)?)).await
    }

    async fn close(self) {
        drop(self);
    }
}
