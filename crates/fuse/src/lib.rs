//! # fuse: the kernel's FUSE protocol, implemented without libfuse
//!
//! Owns   the messages of the protocol, their transport over /dev/fuse and io_uring, mounting and unmounting.
//! Never  caches, decides policy, or knows the file system that it serves; the only errors it creates itself are EIO and
//!        ENOSYS.
//! Enter  at [`FileSystem`] and [`mount`].
//!
//! ## A tour
//!
//! Implement [`FileSystem`]: one async method per operation, with typed arguments and results that carry everything the kernel
//! sends.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc, time::Duration};
//! use gupfs_fuse::{AttrReply, Call, Errno, FileSystem, InodeAttr, MountConfig, NodeId, Result, Spawner, mount, op};
//!
//! struct Empty;
//!
//! impl FileSystem for Empty {
//!     async fn getattr(&self, call: Call, _: op::Getattr) -> Result<AttrReply> {
//!         if call.node != NodeId::ROOT {
//!             return Err(Errno::ESTALE);
//!         }
//!         let attr = InodeAttr { ino: 1, mode: 0o040755, nlink: 2, ..InodeAttr::default() };
//!         Ok(AttrReply { attr, ttl: Duration::from_secs(1) })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = tokio::runtime::Runtime::new()?;
//! let handle = runtime.handle().clone();
//! let spawner: Spawner = Arc::new(move |task| drop(handle.spawn(task)));
//! let mut config = MountConfig::new("nothing", "empty");
//! let handle = runtime.handle().clone();
//! config.around_worker = Some(Arc::new(move |run| {
//!     let _in_runtime = handle.enter();
//!     run()
//! }));
//! let session = mount(Path::new("/mnt"), &config, Arc::new(Empty), spawner)?;
//! session.wait();
//! # Ok(()) }
//! ```
//!
//! - A FUSE *worker* thread reads a request and polls the method once. If the future is ready, the same thread writes the reply
//!   with one system call. If not, the future goes to the [`Spawner`] when its waker is called, and writes the reply when it is
//!   done.
//! - [`Call`] names the caller and the node; [`Call::interrupted`] tells a waiting handler that the calling program received a
//!   signal.
//! - Over io_uring the worker is pinned to one CPU, and the system call that commits its replies also fetches the next
//!   requests; see [`FuseTransport`]. The worker also polls handlers that are woken on its thread, and reads files for them
//!   over its ring ([`gupfs_uring::read`]), so a read that waits for a disk wakes no second thread. A worker that reads from
//!   the device may block in such a read itself ([`gupfs_uring::acquire_blocking_permit`]) as long as another device worker is left.
//! - WRITE passes a [`Payload`]: the memory that the message was read into, with the bytes on a page boundary. READ replies
//!   with [`ReplyData`]: a `Vec<u8>`, one or many `bytes::Bytes`, or [`Scratch`] memory from [`Call::scratch`].
//! - [`FuseSession`] is the mount: [`FuseSession::unmount`], [`FuseSession::abort`], [`FuseSession::wait`],
//!   [`FuseSession::counts`].
//! - [`Notifier`] (from [`FileSystem::mounted`] or the session) invalidates the kernel's caches; never call it from a worker
//!   thread.
//! - [`mountpoint`], [`connection`], [`watchdog`], [`read_ahead`], [`pages_limit`] and [`mountinfo`] contain functions
//!   for the program that mounts.
//! - If a handler panics, its task is dropped, or its last waker is dropped, the kernel gets EIO. No program waits for such a
//!   request.
//!
//! [`wire`] documents the layout of every message.

// This crate is not behind the platform seams: it talks to the real kernel. Simulations use the model of the kernel in crate
// `sim`.

mod attach;
mod buffer;
mod call;
mod config;
pub mod connection;
mod dirents;
mod errno;
mod error;
mod fs;
mod fusermount;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod ids;
pub mod limits;
mod mount_info;
pub mod mountinfo;
pub mod mountpoint;
mod notify;
pub mod nullfs;
pub mod op;
pub mod over_io_uring;
pub mod pages_limit;
mod pending;
pub mod read_ahead;
mod reader;
mod reply;
mod request;
mod responder;
mod ring_threads;
mod session;
pub mod synthetic;
mod sys;
mod transport;
mod values;
pub mod watchdog;
pub mod wire;
mod worker;
mod worker_group;
mod worker_thread;

pub use buffer::{Payload, Scratch};
pub use call::Call;
pub use config::MountConfig;
pub use dirents::{Dirents, DirentsPlus};
pub use errno::{Errno, Result};
pub use error::MountError;
pub use fs::FileSystem;
pub use ids::{FileHandle, LockOwner, NodeId, Unique};
pub use mount_info::{MountInfo, Negotiated};
pub use notify::{Notifier, NotifyError};
pub use pending::{Interrupted, ReplyDeadlines};
pub use reader::{AttachReader, RequestReader};
pub use session::{FuseSession, RequestCounts, UnmountOutcome, mount};
pub use transport::FuseTransport;
pub use values::{
    AttrReply, CreateReply, EntryReply, FuseTimestamp, InodeAttr, IoctlReply, OpenReply, ReplyData,
    StatfsReply, Statx, StatxReply, XattrReply,
};
pub use wire::{
    AttrFlags, FsyncFlags, GetattrFlags, InitFlags, IoctlFlags, LockFlags, OpenFlags,
    OpenReplyFlags, PollFlags, ReadFlags, ReleaseFlags, SetattrValid, SetxattrFlags, WriteFlags,
};
pub use worker::{HandlerTask, ReadProgress, Spawner};
pub use worker_thread::AroundWorker;
