//! # file: what is inside of files
//!
//! Owns   open files, what is held for writing, where reads and writes go, what is synced.
//! Never  looks up a name; decides who may (the metadata server does, when a file is opened).
//! Enter  at `Client::open`, `Client::read`, `Client::write`, `Client::fsync`, `Client::release`.

mod allocate;
mod copy;
mod errors;
mod flags;
mod flush;
mod handle;
mod hold;
mod inline;
mod left;
mod object;
mod objects;
mod open;
mod read;
mod read_shared;
mod recall;
mod release;
mod seek;
mod state;
mod sync;
pub(crate) mod table;
mod tell;
mod truncate;
mod write;

pub use allocate::AllocateHow;
pub use handle::{Durability, OpenFile, OpenFlags};
pub use open::OpenedFile;
pub use read::ReadHow;
pub use seek::SeekTo;
pub use write::{WriteDone, WriteHow};

pub(crate) use handle::Handles;
