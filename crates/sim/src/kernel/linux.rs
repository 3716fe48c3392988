//! The model as a kernel that the probes of crate `contract` test.

use super::{File, Kernel, Quirk};
use gupfs_contract::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFailure, ProbeFile, ProbeMount,
    ProbeOpenMode, ProbeServer,
};
use gupfs_fuse::{Errno, MountConfig, NodeId, NotifyError};
use std::sync::Arc;

/// The model: like Linux, or deviating from it in one quirk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Model {
    pub quirk: Option<Quirk>,
}

pub struct Mounted(Arc<Kernel<ProbeServer>>);

impl KernelUnderTest for Model {
    type Mount = Mounted;

    async fn mount(
        &self,
        probe: &Arc<ProbeServer>,
        flags: InitFlagChanges,
    ) -> Result<Mounted, ProbeFailure> {
        let flags = (MountConfig::FLAGS | flags.with) - flags.without;
        Ok(Mounted(Kernel::mount(probe.clone(), flags, self.quirk)))
    }
}

impl Drop for Mounted {
    /// A request that still waits for a reply must fail now instead of hanging.
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ProbeMount for Mounted {
    type File = File<ProbeServer>;

    async fn size(&self, name: &str) -> Result<u64, Errno> {
        self.0.size(name.as_bytes()).await
    }

    async fn list(&self) -> Result<Vec<String>, Errno> {
        let names = self.0.list().await?;
        let text = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned();
        Ok(names.into_iter().map(text).collect())
    }

    async fn create(&self, name: &str) -> Result<(), Errno> {
        self.0.create(name.as_bytes()).await
    }

    async fn link(&self, name: &str, new: &str) -> Result<(), Errno> {
        self.0.link(name.as_bytes(), new.as_bytes()).await
    }

    async fn open(&self, name: &str, how: ProbeOpenMode) -> Result<File<ProbeServer>, Errno> {
        let flags = match how {
            ProbeOpenMode::Read => libc::O_RDONLY,
            ProbeOpenMode::ReadWrite => libc::O_RDWR,
            ProbeOpenMode::Append => libc::O_WRONLY | libc::O_APPEND,
        };
        self.0.open(name.as_bytes(), flags as u32).await
    }

    async fn cover(&self, name: &str) -> Result<(), ProbeFailure> {
        self.0.resolve(name.as_bytes()).await?;
        let key = (NodeId::ROOT, name.as_bytes().to_vec());
        self.0.state().covered.insert(key);
        Ok(())
    }

    async fn is_covered(&self, name: &str) -> bool {
        let key = (NodeId::ROOT, name.as_bytes().to_vec());
        self.0.resolve(name.as_bytes()).await.is_ok() && self.0.state().covered.contains(&key)
    }

    async fn notify(&self, word: KernelNotification) -> Result<(), NotifyError> {
        match word {
            KernelNotification::Inode { node, offset } => self.0.inval_inode(node, offset).await,
            KernelNotification::Entry { parent, name } => {
                self.0.inval_entry(parent, name.as_bytes()).await
            }
            KernelNotification::Epoch => self.0.inc_epoch().await,
        }
    }

    async fn abort(&self) -> Result<(), ProbeFailure> {
        self.0.abort();
        Ok(())
    }
}

impl ProbeFile for File<ProbeServer> {
    async fn read(&self, at: u64) -> Result<Option<u8>, Errno> {
        File::read(self, at).await
    }

    async fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        File::write(self, at, bytes).await
    }

    async fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        File::append(self, bytes).await
    }

    async fn splice(&self) -> Result<(), Errno> {
        File::splice(self).await
    }

    async fn store(&self, byte: u8) -> Result<(), Errno> {
        File::store(self, byte).await
    }

    async fn flock(&self) -> Result<(), Errno> {
        File::flock(self).await
    }

    async fn lock(&self) -> Result<(), Errno> {
        File::lock(self).await
    }

    /// As in close(2), the program does not wait for RELEASE.
    async fn close(self) {
        tokio::spawn(async move {
            let closed = File::close(self).await;
            debug_assert!(closed.is_ok(), "{closed:?}");
        });
    }
}
