//! # mount: FUSE requests as calls of the client
//!
//! Owns   the conversion both ways, the kernel's cache lifetimes, the cache mode of each open file.
//! Never  implements file system semantics: the client and the servers do.
//! Enter  at `Mount::start`, or at `GupfsFileSystem::new` above a model of the kernel; `requests.rs` has the method of each FUSE request, `ops/` its function.

mod cache_lifetimes;
mod convert;
mod credentials;
mod errno;
mod filesystem;
mod fuse_op;
mod kernel_caches;
mod limits;
mod metrics;
mod mount;
mod ops;
mod options;
mod process_jobs;
mod requests;
mod runtime_reader;
mod setid_inodes;
mod signals;

pub use cache_lifetimes::{AttributeLifetime, CacheLifetimes};
pub use errno::errno;
pub use filesystem::GupfsFileSystem;
pub use kernel_caches::{KernelCaches, NotifyFuture};
pub use metrics::{MountStats, OpMetrics, OpStats};
pub use mount::Mount;
pub use options::{AtimeFlags, CallDeadlines, FuseMountOptions};
pub use process_jobs::JobFinder;
