//! A mounted file system, from its start to its end.

use crate::filesystem::GupfsFileSystem;
use crate::metrics::{MountStats, OpMetrics};
use crate::options::FuseMountOptions;
use gupfs_client::Client;
use gupfs_fuse::{FuseSession, MountError, Spawner, pages_limit};
use gupfs_platform::Clock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mounted file system. Unmount it before stopping the client.
pub struct Mount {
    session: FuseSession,
    metrics: Arc<OpMetrics>,
    at: PathBuf,
}

impl Mount {
    /// Mounts at an empty directory and starts serving; tasks that must wait run on `runtime`.
    ///
    /// # Errors
    /// The kernel's or mount point's error, worded for the user.
    pub fn start(
        client: Arc<Client>,
        at: &Path,
        options: &FuseMountOptions,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Mount, MountError> {
        let config = options.to_config(runtime);
        let waiting_runtime = runtime.clone();
        let spawner: Spawner = Arc::new(move |task| drop(waiting_runtime.spawn(task)));
        let fs = Arc::new(GupfsFileSystem::new(client, Clock::real(), options));
        let metrics = fs.metrics.clone();
        raise_pages_limit(config.max_pages);
        let session = gupfs_fuse::mount(at, &config, fs, spawner)?;
        if let Some(kib) = options.read_ahead_kib
            && let Err(error) = session.set_read_ahead(kib)
        {
            tracing::info!(%error, "could not set the mount's read-ahead; the kernel's default stays");
        }
        Ok(Mount {
            session,
            metrics,
            at: at.to_owned(),
        })
    }

    pub fn at(&self) -> &Path {
        &self.at
    }

    pub fn session(&self) -> &FuseSession {
        &self.session
    }

    pub fn stats(&self) -> MountStats {
        self.metrics.stats()
    }
}

/// Lets one request carry `max_pages` pages, if this process may change the kernel's limit.
fn raise_pages_limit(max_pages: u16) {
    match pages_limit::raise(max_pages) {
        Ok(None) => {}
        Ok(Some(before)) => tracing::info!(
            before,
            now = max_pages,
            "raised fs.fuse.max_pages_limit, so that one request carries 1 MiB of any buffer"
        ),
        Err(error) => {
            tracing::info!(%error, "could not raise fs.fuse.max_pages_limit: a 1 MiB read or write of an unaligned buffer takes two requests");
        }
    }
}
