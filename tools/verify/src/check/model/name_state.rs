//! The state of names, and the acts on them.
//!
//! A file is its number, generation and the tag of its bytes; directories are all alike, and symbolic links are their
//! targets.

use crate::history::{Kind, Rename};
use crate::subject;

pub const SLOTS: usize = subject::SLOTS as usize;

/// The file that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Node {
    None,
    Dir,
    File(File),
    Symlink(u64),
    /// Something: what an operation without an answer may have left there.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File {
    pub inode: u64,
    pub generation: u32,
    pub tag: u64,
}

pub type State = [Node; SLOTS];

/// An act on names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAction {
    /// Opens what is there, unless exclusive, or makes this file.
    Create {
        at: u8,
        exclusive: bool,
        /// Not known when it was refused.
        file: Option<File>,
    },
    /// Opens a file for reading.
    Get {
        at: u8,
        seen: Option<File>,
    },
    /// stat(2): the kind of the file, and its number if it is a regular one.
    Look {
        at: u8,
        seen: Option<(Kind, u64)>,
    },
    ReadLink {
        at: u8,
        seen: Option<u64>,
    },
    /// A listing had the name, or had not.
    Listed {
        at: u8,
        there: bool,
    },
    /// So many names of a file.
    Links {
        inode: u64,
        count: u64,
    },
    Unlink {
        at: u8,
    },
    Rename {
        from: u8,
        to: u8,
        how: Rename,
        /// Another changes one of the two meanwhile. Linux looks both names up, one after the other, before it asks the file
        /// system: if both lead to one file by then it does nothing, and what it refuses by their kinds it refuses.
        racing: bool,
    },
    /// A name for the file of this number.
    LinkFile {
        inode: u64,
        to: u8,
    },
    /// A name for a symbolic link.
    LinkSymlink {
        tag: u64,
        to: u8,
    },
    LinkDir {
        to: u8,
    },
    Symlink {
        at: u8,
        tag: u64,
    },
    MakeDir {
        at: u8,
    },
    RemoveDir {
        at: u8,
    },
    /// A file from elsewhere is renamed to here.
    Publish {
        at: u8,
        file: File,
    },
    /// It was not answered, and may have put something here.
    PutAny {
        at: u8,
    },
}
