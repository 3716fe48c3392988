//! # door: the kernel's FUSE protocol, spoken by ourselves
//!
//! Owns   the messages of the protocol, their way through /dev/fuse and rings, mounting and unmounting.
//! Never  caches, decides, or knows what is behind it; the only errors it makes are EIO and ENOSYS.
//! Enter  at [`FileSystem`] and [`mount`].
//!
//! ## A tour
//!
//! Implement [`FileSystem`]: one async method an operation, typed in and out, with everything the kernel sends.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc, time::Duration};
//! use gupfs_fuse::{Attr, Attributes, Call, Config, Errno, FileSystem, NodeId, Result, Spawner, mount, op};
//!
//! struct Empty;
//!
//! impl FileSystem for Empty {
//!     async fn getattr(&self, call: Call, _: op::Getattr) -> Result<Attributes> {
//!         if call.node != NodeId::ROOT {
//!             return Err(Errno::ESTALE);
//!         }
//!         let attr = Attr { ino: 1, mode: 0o040755, nlink: 2, ..Attr::default() };
//!         Ok(Attributes { attr, ttl: Duration::from_secs(1) })
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = tokio::runtime::Runtime::new()?;
//! let handle = runtime.handle().clone();
//! let spawner: Spawner = Arc::new(move |task| drop(handle.spawn(task)));
//! let mut config = Config::new("nothing", "empty");
//! let handle = runtime.handle().clone();
//! config.around_reactor = Some(Arc::new(move |run| {
//!     let _in_runtime = handle.enter();
//!     run()
//! }));
//! let session = mount(Path::new("/mnt"), &config, Arc::new(Empty), spawner)?;
//! session.wait();
//! # Ok(()) }
//! ```
//!
//! - A *reactor* thread reads a request and polls the method once. Ready: the same thread writes the answer, with one
//!   system call. Not ready: when it is woken the future goes to the [`Spawner`], and writes the answer when it is done.
//! - [`Call`] says who asks, about which node; [`Call::interrupted`] tells a handler that waits of a signal.
//! - Over io_uring the same thread keeps to one CPU and answers with the system call that brings the next request; see
//!   [`Transport`]. It goes on with handlers that were woken on it, and reads files for them ([`gupfs_uring::read`]): a read
//!   that waits for a disk wakes no second thread. A thread that reads from the device may wait for one itself
//!   ([`gupfs_uring::may_wait_here`]) as long as another is left.
//! - WRITE hands over a [`Payload`]: the memory it was read into, on a page boundary. READ answers with [`Data`]: a
//!   `Vec<u8>`, one or many `bytes::Bytes`, or [`Scratch`] memory from [`Call::scratch`].
//! - [`Session`] is the mount: [`Session::unmount`], [`Session::abort`], [`Session::wait`], [`Session::counts`].
//! - [`Notifier`] (from [`FileSystem::mounted`] or the session) tells the kernel what to forget; never call it from a
//!   reactor.
//! - [`mountpoint`], [`connection`], [`guardian`], [`read_ahead`], [`pages_limit`] and [`mountinfo`] are what a mounting program needs
//!   around it.
//! - A handler that panics, whose task is dropped, or that nobody can wake any more, answers EIO. Nothing hangs for it.
//!
//! The layout of every message stands in [`wire`].

// The door stands outside the simulated world: it is the real kernel's counterpart, and its simulated one is another
// crate's model of the kernel.

mod answer;
mod buffer;
mod call;
mod config;
pub mod connection;
mod dirents;
mod errno;
mod error;
mod fs;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod guardian;
mod handshake;
mod ids;
pub mod imagined;
mod lane;
pub mod limits;
mod mount;
pub mod mountinfo;
pub mod mountpoint;
mod notify;
pub mod nullfs;
pub mod op;
pub mod over_io_uring;
pub mod pages_limit;
pub mod read_ahead;
mod reader;
mod request;
mod rings;
mod session;
mod sys;
mod transport;
mod values;
mod waits;
pub mod wire;

pub use buffer::{Payload, Scratch};
pub use call::Call;
pub use config::{AroundReactor, Config, InTime, OnLoop, Transport};
pub use dirents::{Dirents, DirentsPlus};
pub use errno::{Errno, Result};
pub use error::MountError;
pub use fs::FileSystem;
pub use handshake::Negotiated;
pub use ids::{Handle, LockOwner, NodeId, Unique};
pub use lane::{Spawner, Task};
pub use notify::{Notifier, NotifyError};
pub use reader::{Reader, Turn};
pub use session::{Counts, Mounted, Session, Unmounted, mount};
pub use values::{
    Attr, Attributes, Created, Data, Entry, Ioctled, Opened, Statfs, Statx, Statxed, Timestamp,
    Xattr,
};
pub use waits::Interrupted;
pub use wire::{
    AttrFlags, FsyncFlags, GetattrFlags, InitFlags, IoctlFlags, LockFlags, OpenFlags, OpenedFlags,
    PollFlags, ReadFlags, ReleaseFlags, SetattrValid, SetxattrFlags, WriteFlags,
};
