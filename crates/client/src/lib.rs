//! # client: the file system as a library
//!
//! Owns   a session: open files, write leases, range locks, kernel lookup counts (`lookup_counts`), session slots; the
//!        programs' file locks, where other clients share the files (`locks`).
//! Never  speaks FUSE or errno, resolves a path, checks permissions.
//! Enter  at `Client::connect`.
//!
//! ## Parts
//!
//! `Client` composes them; each reaches only the parts that it is made of.
//!
//! - `MdsSession` sends one operation of the metadata server and returns its reply; `OstCalls` does the same for an OST.
//! - `InodeTable` and `OpenFileTable` have the state of inodes that are open or have a write lease here; they call no server.
//! - `Files`: `FileIo` reads and writes, `FileLeases` exchanges an inode's state with the metadata server, `FileSync` syncs, all
//!   over `ObjectIo`, the calls about one inode's objects. `Opens` opens and releases files.
//! - `Namespace` has names and attributes, `Locks` the locks of programs, `Lookups` what the kernel knows, `Space` statfs.
//!
//! ## Tour
//!
//! Each call names an inode and carries the credentials of the calling process.
//!
//! ```no_run
//! # use gupfs_client::*; use gupfs_proto::{Caller, Name}; use gupfs_proto::meta::*; use bytes::Bytes;
//! # async fn tour(mds: MdsPeer, osts: Vec<(gupfs_proto::OstId, OstPeer)>) -> Result<(), gupfs_proto::FsError> {
//! let client = Client::connect(mds, osts, gupfs_platform::Platform::real(), SessionOptions::default()).await?;
//! let (me, name) = (Caller::root(), Name::new(b"greeting")?);
//! let mode = OpenMode { access: AccessMode::READ | AccessMode::WRITE, truncate: false, kill_privileges: false };
//! let create_mode = CreateMode { mode: 0o644, umask: 0o022 };
//! let new = client.create(&me, client.root(), &name, create_mode, true, mode, OpenFileFlags::default()).await?;
//! let file = new.file; // an Arc<OpenFile>; `file.id()` is what FUSE calls fh, `client.file(id)` finds it again
//! client.write(&file, WritePosition::Offset(0), Bytes::from_static(b"hello"), WriteOptions::default()).await?;
//! let bytes: Vec<Bytes> = client.read(&file, 0, 4096, ReadOptions::default()).await?; // segments, not joined
//! client.fsync(&file, false).await?;
//! client.release(file.id()).await?;
//! let attr = client.lookup(&me, client.root(), &name).await?;
//! client.forget([(attr.ino, 2)]); // `create` and `lookup` each added one lookup
//! client.stop().await
//! # }
//! ```
//!
//! - **Lookups are counted.** `lookup`, `lookup_parent`, `mkdir`, `mknod`, `symlink`, `link`, `create`, `tmpfile` each add one
//!   lookup to the inode they return; if the kernel does not take the reply, undo it with `forget`. `readdir` adds none: call
//!   `add_lookups` for each entry with attributes that the caller passes on, except "." and "..".
//! - **Open files** live from `open`, `create`, `tmpfile` until `release`. `flush` lets close(2) return an error.
//! - **Size and content** change by `write`, `truncate`, `allocate`, `copy_range`; all other attributes by `setattr`.
//! - **Futures** must run to their end. A dropped future releases its locks and slots, but then it is unknown whether its
//!   change was made: its bytes may be written or not, and the client may report a wrong file size until the file is closed.
//! - **Shared files** (`SessionOptions::shared`): at most one client has the write lease of a file. The metadata server sends
//!   its callbacks (glimpse, revoke) to the client before it answers requests of other clients (`callback`): give it
//!   `Peer::local(client)`, or serve it over the client's connection.
//! - **Access times** follow `SessionOptions::atime`. For a file without a write lease the client sends the access time at the
//!   last close, with a `SetAttr` that carries the unchanged ctime; it does the same for listed directories and symbolic links.

mod client;
mod data_cache;
mod file;
mod forget_queue;
mod inodes;
mod join;
mod kernel_attributes;
mod kernel_pages;
mod lease_cache;
mod lease_number;
pub mod limits;
mod lock_table;
mod locks;
mod lookup_counts;
mod lookups;
mod mds_connection;
mod metrics;
mod names;
mod open_dirs;
mod options;
mod osts;
mod pending_calls;
mod relay_targets;
mod reply;
mod reserved_space;
mod route;
mod server_call;
mod session;
mod space;
mod status;
mod write_numbers;

pub use client::Client;
pub use file::{AllocateMode, OpenedFile, ReadOptions, SeekTo, WriteDone, WriteOptions};
pub use inodes::{Durability, OpenFile, OpenFileFlags};
pub use kernel_attributes::{Invalidated, KernelInodes};
pub use locks::LockSpec;
pub use mds_connection::{ClientCallbacks, renew_after_reconnect};
pub use metrics::{ClientCounts, Observer};
pub use names::{DirListing, EntryName, ListedEntry};
pub use options::{AtimeMode, RelayMode, SessionOptions};
pub use route::{ClusterPeer, MdsPeer, OstPeer, Route};
pub use server_call::{CalledServer, ServerCall};
pub use space::{FileSystemSpace, TargetSpace};
pub use status::{ClientStatus, FileStatus, PendingCallStatus, TargetReservationStatus};
