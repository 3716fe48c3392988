//! # client: the file system as a library
//!
//! Owns   a session: open files, what is held for writing, range locks, what the kernel knows (`ledger`), lanes; the locks of
//!        programs, where others share the files (`locks`).
//! Never  speaks FUSE or errno, resolves a path, decides who may.
//! Enter  at `Client::connect`.
//!
//! ## Tour
//!
//! Everything goes by inode, with the credentials of whoever asks.
//!
//! ```no_run
//! # use gupfs_client::*; use gupfs_proto::{Caller, Name}; use gupfs_proto::meta::*; use bytes::Bytes;
//! # async fn tour(mds: Mds, osts: Vec<(gupfs_proto::OstId, Ost)>) -> Result<(), gupfs_proto::Refusal> {
//! let client = Client::connect(mds, osts, gupfs_platform::Platform::real(), Options::default()).await?;
//! let (me, name) = (Caller::root(), Name::new(b"greeting")?);
//! let how = OpenHow { access: Access::READ | Access::WRITE, truncate: false, kill_privileges: false };
//! let make = Make { mode: 0o644, umask: 0o022 };
//! let new = client.create(&me, client.root(), &name, make, true, how, OpenFlags::default()).await?;
//! let file = new.file; // an Arc<OpenFile>; `file.id()` is what FUSE calls fh, `client.file(id)` finds it again
//! client.write(&file, WriteAt::Offset(0), Bytes::from_static(b"hello"), WriteHow::default()).await?;
//! let bytes: Vec<Bytes> = client.read(&file, 0, 4096, ReadHow::default()).await?; // segments, not joined
//! client.fsync(&file, false).await?;
//! client.release(file.id()).await?;
//! let attr = client.lookup(&me, client.root(), &name).await?;
//! client.forget([(attr.ino, 2)]); // `create` and `lookup` each gave the entry once
//! client.stop().await
//! # }
//! ```
//!
//! - **Entries are counted.** `lookup`, `lookup_parent`, `mkdir`, `mknod`, `symlink`, `link`, `create`, `tmpfile` count
//!   the entry they return as given; if the kernel does not take the reply, give it back with `forget`. `readdir` does
//!   not count: call `gave` for each entry with attributes that is passed on, "." and ".." excepted.
//! - **Open files** live from `open`, `create`, `tmpfile` until `release`. `flush` is close(2)'s chance to tell an error.
//! - **Size and content** change by `write`, `truncate`, `allocate`, `copy_range`; all other attributes by `setattr`.
//! - **Futures** are to be run to their end. One that is dropped gives its locks and lanes back, but nobody knows then
//!   whether its change was made: bytes may be there or not, and the file's size may be told wrong until it is closed.
//! - **Shared files** (`Options::shared`): a file that is held for writing is held by one client. The client is the service
//!   that the metadata server asks before others are answered (`recall`): hand it `Peer::local(client)`, or serve it over
//!   the client's connection.
//! - **Times** of reading are kept as `Options::atime` says. A file that is not held tells its own at its last close, by
//!   a `SetAttr` that carries the ctime it leaves alone; so do directories when they are listed, and symbolic links.

mod answer;
mod ask;
mod back;
mod calls;
mod file;
mod forgets;
mod join;
mod lanes;
mod ledger;
pub mod limits;
mod locks;
mod metrics;
mod names;
mod opening;
mod options;
mod ranges;
mod recall;
mod route;
mod service;
mod session;
mod status;
mod verify;
mod view;
mod warrants;

pub use calls::{Call, Whom};
pub use file::{
    AllocateHow, Durability, OpenFile, OpenFlags, OpenedFile, ReadHow, SeekTo, WriteDone, WriteHow,
};
pub use locks::LockWish;
pub use metrics::{Counted, Observer};
pub use names::{EntryName, Listed, Listing, Room, Space};
pub use options::{AtimeRule, Options};
pub use route::{Cluster, Dial, Mds, Ost, Route};
pub use service::Client;
pub use status::{FileStatus, Status, Waiting};
