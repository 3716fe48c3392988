//! # files: the file system by path, for programs without a mount
//!
//! Owns   how a host connects to a cluster (`connect`, which mounts use, too), the resolution of paths, open files and the lookups that
//!        they hold, the rules that a kernel adds to the servers' (`host_rules`), the deadline of a call.
//! Never  speaks FUSE, checks what the servers check (permissions of files and directories), keeps a working directory.
//! Enter  at `ClusterFiles::connect`, then `ClusterFiles::user`; mounts at `DialedCluster::dial`.
//!
//! ## Tour
//!
//! ```no_run
//! # use gupfs_files::*; use gupfs_proto::Caller; use bytes::Bytes;
//! # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
//! let files = ClusterFiles::connect(ConnectOptions::new("node1")).await?;
//! let me = files.user(Caller::new(1000, 1000, []), 0o022);
//! me.make_directory(b"/data", 0o777).await?;
//! let file = me.open(b"/data/greeting", OpenRequest::create(0o666)).await?;
//! file.write_at(0, Bytes::from_static(b"hello")).await?;
//! let bytes: Vec<Bytes> = file.read_at(0, 4096).await?; // segments, not joined
//! file.close().await?;
//! files.stop(std::time::Duration::from_secs(30)).await?;
//! # Ok(()) }
//! ```
//!
//! - **Paths** are bytes, and begin at the root of the file system, also without a leading '/'. An absolute symbolic link does, too: the
//!   library does not know where a host mounts the file system.
//! - **Futures** may be dropped: the operation then runs to its end in the background (`RunToEnd`). The same if a call misses its deadline.
//! - **Permissions** are the servers': each request carries the caller's uid, gid and groups, and a server checks them at each step of a path,
//!   at open and at each change. A kernel adds rules for links and files in directories that all users may write: `host_rules`.

mod connect;
mod entries;
mod file;
mod file_system;
mod held_inode;
mod host_rules;
pub mod limits;
mod ops;
mod run_to_end;
mod shared_session;
mod user_files;
mod walk;

pub use connect::{
    ClusterSession, DialedCluster, MDS_PORT, OSS_PORT, SetupError, SetupErrorKind, TlsOptions,
    check_private_key, host_name, host_number, identity, mds_addresses, read_cluster_key, read_key,
    read_tls, with_port, write_client_key,
};
pub use entries::{DirectoryEntry, FileRange, OpenRequest};
pub use file::FileHandle;
pub use file_system::{ClusterFiles, ConnectOptions};
pub use host_rules::HostRules;
pub use run_to_end::RunToEnd;
pub use user_files::{FollowLinks, UserFiles};
