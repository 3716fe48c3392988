//! Two hosts, each with a kernel of its own: the model of the kernel above `mount` above `client`.

use super::call_arguments::caller;
use super::client_host::ClientHost;
use super::fault_plan::FaultPlan;
use super::metadata_servers::MetadataKind;
use super::simulated_cluster::SimulatedCluster;
use crate::event_log::EventLog;
use crate::kernel::Kernel;
use gupfs_fuse::synthetic::CallerIds;
use gupfs_fuse::{InitFlags, MountConfig, NodeId, NotifyError};
use gupfs_mount::{FuseMountOptions, GupfsFileSystem, KernelCaches, NotifyFuture};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// A kernel that has mounted gupfs.
pub type GupfsKernel = Kernel<GupfsFileSystem>;

/// The caches of a kernel that keeps the file system itself.
struct CachesOf(Weak<GupfsKernel>);

impl KernelCaches for CachesOf {
    fn inval_attributes(&self, node: NodeId) -> Result<(), NotifyError> {
        let kernel = self.0.upgrade().ok_or(NotifyError::Gone)?;
        kernel.inval_attributes(node)
    }

    fn inval_pages(&self, node: NodeId, range: Range<u64>) -> NotifyFuture {
        let kernel = self.0.clone();
        Box::pin(async move {
            let kernel = kernel.upgrade().ok_or(NotifyError::Gone)?;
            kernel.inval_pages(node, range).await
        })
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
    fs.set_kernel_caches(Arc::new(CachesOf(Arc::downgrade(&kernel))));
    kernel
}

/// Runs a test with the kernels of two hosts of a new cluster. No fault is injected.
pub fn with_two_kernels(seed: u64, test: impl AsyncFnOnce([Arc<GupfsKernel>; 2])) {
    crate::process::on_paused_time(async {
        let plan = (FaultPlan::of(seed), MetadataKind::Single);
        let cluster = SimulatedCluster::start(seed, plan, EventLog::new(false)).await;
        let (_, client) = cluster.client_hosts[0].wait_for_client().await;
        cluster.set_small_layout(&client).await;
        let hosts = &cluster.client_hosts;
        let kernels = [mount(&hosts[0]).await, mount(&hosts[1]).await];
        // Boxed: the test's future contains all that its programs do at once.
        Box::pin(test(kernels)).await;
    });
}
