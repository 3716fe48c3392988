//! Programs of two hosts, each above a kernel of its own: the model of the kernel above `mount` above `client`.

use super::call_arguments::caller;
use super::client_host::ClientHost;
use super::simulated_cluster::SimulatedCluster;
use crate::event_log::EventLog;
use crate::kernel::{Directory, Kernel};
use gupfs_fuse::synthetic::CallerIds;
use gupfs_fuse::{Errno, InitFlags, MountConfig, NodeId, NotifyError, Result};
use gupfs_mount::{FuseMountOptions, GupfsFileSystem, KernelCaches};
use libc::{O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TMPFILE};
use std::sync::{Arc, Weak};

type GupfsKernel = Kernel<GupfsFileSystem>;

/// The caches of a kernel that keeps the file system itself.
struct CachesOf(Weak<GupfsKernel>);

impl KernelCaches for CachesOf {
    fn inval_attributes(&self, node: NodeId) -> std::result::Result<(), NotifyError> {
        let kernel = self.0.upgrade().ok_or(NotifyError::Gone)?;
        kernel.inval_attributes(node)
    }
}

/// Mounts the file system of a host's client, as other hosts use it too. Programs run as the user of all simulated programs, in no
/// process of this host.
async fn mount(host: &ClientHost) -> Arc<GupfsKernel> {
    let (_, client) = host.wait_for_client().await;
    let clock = host.host.platform().platform().clock;
    let options = FuseMountOptions::new("simulated").shared();
    let fs = Arc::new(GupfsFileSystem::new(client, clock, &options));
    let user = caller();
    let caller = CallerIds {
        uid: user.uid,
        gid: user.gid,
        pid: 0,
    };
    let flags = MountConfig::FLAGS | InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
    let kernel = Kernel::mount_for(caller, fs.clone(), flags, None);
    fs.set_kernel_caches(Box::new(CachesOf(Arc::downgrade(&kernel))));
    kernel
}

/// Programs of two hosts use the same files through their kernels; each sees at once what the other has changed.
///
/// # Panics
/// When a program sees something else.
pub fn run_two_kernels(seed: u64) {
    crate::process::on_paused_time(async {
        let cluster = SimulatedCluster::start(seed, EventLog::new(false)).await;
        let (_, client) = cluster.client_hosts[0].wait_for_client().await;
        cluster.set_small_layout(&client).await;
        let kernels = [
            mount(&cluster.client_hosts[0]).await,
            mount(&cluster.client_hosts[1]).await,
        ];
        let roots = [kernels[0].root(), kernels[1].root()];
        let used = use_files([&roots[0], &roots[1]]).await;
        used.expect("no call fails: no fault is injected");
        for kernel in kernels {
            kernel.shrink().await;
            assert_eq!(kernel.dentries(), 0, "a file or directory is still in use");
        }
    });
}

async fn use_files([one, other]: [&Directory<GupfsFileSystem>; 2]) -> Result<()> {
    one.mkdir(b"d", 0o755).await?;
    let file = one
        .open(b"d/file", O_CREAT | O_EXCL | O_RDWR, 0o644)
        .await?;
    file.write(0, b"one").await?;
    let taken = other
        .open(b"d/file", O_CREAT | O_EXCL | O_RDWR, 0o644)
        .await;
    assert_eq!(taken.err(), Some(Errno::EEXIST));
    assert_eq!(other.stat(b"d/file").await?.size, 3);
    assert_eq!(read(other, b"d/file").await?, b"one");

    let appending = other.open(b"d/file", O_RDWR | O_APPEND, 0).await?;
    // The offset of an append is the size that the kernel has cached; the server does not use it.
    file.write(3, b", two").await?;
    appending.append(b", three").await?;
    appending.close().await?;
    assert_eq!(file.read(0, 100).await?, b"one, two, three");
    assert_eq!(file.stat().await?.size, 15);

    let unnamed = other.open(b"d", O_TMPFILE | O_RDWR, 0o600).await?;
    unnamed.write(0, b"bytes").await?;
    assert_eq!(unnamed.read(0, 100).await?, b"bytes");
    assert_eq!(unnamed.stat().await?.nlink, 0);
    unnamed.close().await?;

    let inside = other.enter(b"d").await?;
    one.rename(b"d", b"e").await?;
    assert_eq!(inside.stat(b"file").await?.size, 15);
    assert_eq!(other.stat(b"d").await.err(), Some(Errno::ENOENT));
    assert_eq!(read(other, b"e/file").await?, b"one, two, three");
    assert_eq!(inside.path()?, b"/e");

    other.chmod(b"e/file", 0o600).await?;
    other.truncate(b"e/file", 3).await?;
    let attr = file.stat().await?;
    assert_eq!((attr.size, attr.mode & 0o777), (3, 0o600));

    other.link(b"e/file", b"e/link").await?;
    other.unlink(b"e/file").await?;
    let names = one.list(b"e").await?.into_iter();
    let names: Vec<Vec<u8>> = names.map(|listed| listed.name).collect();
    assert_eq!(names, [b"link"]);
    assert_eq!(file.stat().await?.nlink, 1);
    other.unlink(b"e/link").await?;
    assert_eq!(file.read(0, 100).await?, b"one");
    file.close().await?;
    drop(inside);
    one.rmdir(b"e").await?;
    assert_eq!(other.list(b".").await?, []);
    Ok(())
}

async fn read(dir: &Directory<GupfsFileSystem>, path: &[u8]) -> Result<Vec<u8>> {
    let file = dir.open(path, O_RDONLY, 0).await?;
    let bytes = file.read(0, 100).await;
    file.close().await?;
    bytes
}
