//! The model as a kernel that the probes of crate `contract` test.

use super::{Directory, File, Kernel, Pipe, Quirk};
use gupfs_contract::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeDirectory, ProbeFailure, ProbeFile,
    ProbeMount, ProbeOpenMode, ProbePipe, ProbeServer, acl_user,
};
use gupfs_fuse::{Errno, MountConfig, NodeId, NotifyError};
use std::sync::Arc;

/// The number of bytes that the probes splice and send.
const SPLICED: usize = 100;

/// The model: like Linux, or deviating from it in one quirk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Model {
    pub quirk: Option<Quirk>,
}

/// A mount of a probe server on the model.
pub struct Mounted {
    kernel: Arc<Kernel<ProbeServer>>,
    root: Directory<ProbeServer>,
}

impl KernelUnderTest for Model {
    type Mount = Mounted;

    async fn mount(
        &self,
        probe: &Arc<ProbeServer>,
        flags: InitFlagChanges,
    ) -> Result<Mounted, ProbeFailure> {
        let flags = (MountConfig::FLAGS | flags.with) - flags.without;
        let kernel = Kernel::mount(probe.clone(), flags, self.quirk);
        Ok(Mounted {
            root: kernel.root(),
            kernel,
        })
    }
}

impl Drop for Mounted {
    /// A request that still waits for a reply must fail now instead of hanging.
    fn drop(&mut self) {
        self.kernel.abort();
    }
}

fn text(name: Vec<u8>) -> String {
    String::from_utf8_lossy(&name).into_owned()
}

impl ProbeMount for Mounted {
    type File = File<ProbeServer>;
    type Directory = Directory<ProbeServer>;

    async fn size(&self, name: &str) -> Result<u64, Errno> {
        Ok(self.root.stat(name.as_bytes()).await?.size)
    }

    async fn list(&self) -> Result<Vec<String>, Errno> {
        let names = self.root.list(b".").await?.into_iter();
        Ok(names.map(|listed| text(listed.name)).collect())
    }

    async fn create(&self, name: &str) -> Result<(), Errno> {
        let flags = libc::O_WRONLY | libc::O_CREAT;
        let file = self.root.open(name.as_bytes(), flags, 0o666).await?;
        File::close(file).await
    }

    async fn link(&self, name: &str, new: &str) -> Result<(), Errno> {
        self.root.link(name.as_bytes(), new.as_bytes()).await
    }

    async fn open(&self, name: &str, how: ProbeOpenMode) -> Result<File<ProbeServer>, Errno> {
        let flags = match how {
            ProbeOpenMode::Read => libc::O_RDONLY,
            ProbeOpenMode::ReadWrite => libc::O_RDWR,
            ProbeOpenMode::Append => libc::O_WRONLY | libc::O_APPEND,
        };
        self.root.open(name.as_bytes(), flags, 0).await
    }

    async fn cover(&self, name: &str) -> Result<(), ProbeFailure> {
        Ok(self.root.cover(name.as_bytes()).await?)
    }

    async fn is_covered(&self, name: &str) -> bool {
        self.root.is_covered(name.as_bytes()).await
    }

    async fn notify(&self, notification: KernelNotification) -> Result<(), NotifyError> {
        match notification {
            KernelNotification::Inode { node, offset } => {
                self.kernel.inval_inode(node, offset).await
            }
            KernelNotification::Entry { parent, name } => {
                self.kernel.inval_entry(parent, name.as_bytes()).await
            }
            KernelNotification::Epoch => self.kernel.inc_epoch().await,
        }
    }

    async fn abort(&self) -> Result<(), ProbeFailure> {
        self.kernel.abort();
        Ok(())
    }

    async fn notify_deletion(
        &self,
        parent: NodeId,
        child: u64,
        name: &str,
    ) -> Result<Result<(), NotifyError>, ProbeFailure> {
        let child = NodeId(child);
        Ok(self.kernel.delete(parent, child, name.as_bytes()).await)
    }

    async fn evict(&self, name: &str) -> Result<(), ProbeFailure> {
        Ok(self.notify(KernelNotification::name(name)).await?)
    }

    async fn make_directory(&self, name: &str) -> Result<(), ProbeFailure> {
        Ok(self.root.mkdir(name.as_bytes(), 0o777).await?)
    }

    async fn set_mode(&self, name: &str, mode: u32) -> Result<(), ProbeFailure> {
        Ok(self.root.chmod(name.as_bytes(), mode).await?)
    }

    async fn acl_user(&self, name: &str) -> Result<Option<u32>, ProbeFailure> {
        let acl = self.root.access_acl(name.as_bytes()).await?;
        Ok(acl.and_then(|acl| acl_user(&acl)))
    }

    async fn open_truncating(&self, name: &str) -> Result<File<ProbeServer>, ProbeFailure> {
        let flags = libc::O_WRONLY | libc::O_TRUNC;
        Ok(self.root.open(name.as_bytes(), flags, 0).await?)
    }

    async fn enter(&self, name: &str) -> Result<Directory<ProbeServer>, ProbeFailure> {
        Ok(self.root.enter(name.as_bytes()).await?)
    }
}

impl ProbeDirectory for Directory<ProbeServer> {
    async fn name(&self) -> Result<String, Errno> {
        let path = self.path()?;
        let last = path.rsplit(|byte| *byte == b'/').next();
        Ok(text(last.unwrap_or_default().to_vec()))
    }

    async fn size(&self, name: &str) -> Result<u64, Errno> {
        Ok(self.stat(name.as_bytes()).await?.size)
    }
}

impl ProbeFile for File<ProbeServer> {
    type Pipe = Pipe;

    async fn read(&self, at: u64) -> Result<Option<u8>, Errno> {
        Ok(File::read(self, at, 1).await?.first().copied())
    }

    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        File::write(self, at, bytes).await
    }

    async fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        File::append(self, bytes).await
    }

    async fn splice(&self) -> Result<(), Errno> {
        File::splice(self, 0, SPLICED).await.map(drop)
    }

    async fn store(&self, byte: u8) -> Result<(), Errno> {
        File::store(self, 0, byte).await
    }

    async fn flock(&self) -> Result<(), Errno> {
        File::flock(self).await
    }

    async fn lock(&self) -> Result<(), Errno> {
        File::lock(self).await
    }

    async fn close(self) {
        let closed = File::close(self).await;
        debug_assert!(closed.is_ok(), "{closed:?}");
    }

    async fn load(&self) -> Result<u8, ProbeFailure> {
        Ok(File::load(self, 0).await?)
    }

    async fn splice_into_pipe(&self) -> Result<Pipe, ProbeFailure> {
        Ok(File::splice(self, 0, SPLICED).await?)
    }

    async fn send(&self) -> Result<u8, ProbeFailure> {
        let sent = File::send(self, 0, SPLICED).await?;
        Ok(*sent.first().ok_or(Errno::EIO)?)
    }

    async fn links(&self) -> Result<u64, ProbeFailure> {
        Ok(u64::from(File::stat(self).await?.nlink))
    }
}

impl ProbePipe for Pipe {
    fn first(&self) -> Result<u8, Errno> {
        self.read()?.first().copied().ok_or(Errno::EIO)
    }
}
