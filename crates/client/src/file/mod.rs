//! # file: data of regular files
//!
//! Owns   open files, write leases, where reads and writes go, which objects are synced.
//! Never  looks up a name; checks permissions (the metadata server does, when a file is opened).
//! Enter  at `Client::open`, `Client::read`, `Client::write`, `Client::fsync`, `Client::release`.

mod allocate;
mod attr_report;
mod callback;
mod chunks;
mod closed_unsynced;
mod copy;
mod flags;
mod inline;
mod inode_state;
pub(crate) mod inode_table;
mod object_calls;
mod object_state;
mod open;
mod open_file;
mod read;
mod read_shared;
mod release;
mod seek;
mod sync;
mod truncate;
mod write;
mod write_lease;
mod writeback_errors;

pub use allocate::AllocateMode;
pub use open::OpenedFile;
pub use open_file::{Durability, OpenFile, OpenFileFlags};
pub use read::ReadOptions;
pub use seek::SeekTo;
pub use write::{WriteDone, WriteOptions};

pub(crate) use open_file::OpenFileTable;
