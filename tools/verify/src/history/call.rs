//! Operations and answers.

use serde::{Deserialize, Serialize};

use crate::subject::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rename {
    Over,
    NoReplace,
    Exchange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Allocate {
    Plain,
    KeepSize,
    Punch,
    Zero,
}

/// A system call that passes the pages of a file on instead of copying its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SpliceCall {
    /// sendfile(2) into a memory file.
    Sendfile,
    /// splice(2) into a pipe.
    Splice,
    /// copy_file_range(2) into another file of the mount.
    CopyFileRange,
}

/// Through which descriptor bytes are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Flavour {
    /// The session's, opened before for reading and writing.
    Session,
    /// One of its own, opened before and closed after within the operation.
    Fresh,
}

/// An operation. Numbers `at`, `from`, `to` of names are slots of [`crate::subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    // Names.
    Create {
        at: u8,
        exclusive: bool,
    },
    /// open, read it all, close.
    Get {
        at: u8,
    },
    Look {
        at: u8,
    },
    /// Directory 0 or 1 of the subject.
    List {
        directory: u8,
    },
    Unlink {
        at: u8,
    },
    Rename {
        from: u8,
        to: u8,
        how: Rename,
    },
    Link {
        from: u8,
        to: u8,
    },
    Symlink {
        at: u8,
        tag: u64,
    },
    ReadLink {
        at: u8,
    },
    MakeDir {
        at: u8,
    },
    RemoveDir {
        at: u8,
    },
    /// rename(2) of a file that was written elsewhere, under a name that no other worker knows.
    Publish {
        at: u8,
        tag: u64,
    },

    // Bytes.
    Open,
    Close,
    Write {
        range: Range,
        tag: u64,
        flavour: Flavour,
    },
    Read {
        range: Range,
        flavour: Flavour,
    },
    Truncate {
        to: u64,
    },
    Allocate {
        range: Range,
        how: Allocate,
    },
    Size {
        flavour: Flavour,
    },
    Sync,
    MapRead {
        range: Range,
    },
    MapWrite {
        range: Range,
        tag: u64,
    },

    // Logs.
    Append {
        tag: u64,
    },
    ReadLog,
    LogSize,
    CutLog,

    // Attributes.
    SetMode {
        mode: u32,
    },
    SetTime {
        seconds: u64,
    },
    SetXattr {
        tag: u64,
    },
    RemoveXattr,
    GetXattr,
    Stat,

    // Locks, without waiting, on units `first..last` (flock: all of them).
    Lock {
        first: u8,
        last: u8,
        exclusive: bool,
    },
    Unlock {
        first: u8,
        last: u8,
    },

    /// fstat(2), as programs ask for the size first, then the range through a call that passes pages on.
    Splice {
        range: Range,
        how: SpliceCall,
        flavour: Flavour,
    },

    // Held directories; in them `Create`, `Look` and `Unlink`, whose slots are their names.
    /// renameat(2) of the directory in its parent, which is held too, from the other of its two names.
    MoveDir {
        to: u8,
    },
    /// getcwd(2): the directory's own name.
    GetCwd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    File,
    Dir,
    Symlink,
}

/// The answer of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Nothing yet, or never.
    None,
    Done,
    Errno(i32),
    /// A file was opened: its number, and what distinguishes it from former files of that number.
    File {
        inode: u64,
        generation: u32,
        /// The tag of its bytes' writer; 0 when there are none, [`super::tag::BAD`] when no worker wrote them. Not known by `Create`.
        tag: u64,
    },
    /// `Look`. `tag` is a symbolic link's target.
    Seen {
        kind: Kind,
        inode: u64,
        links: u64,
    },
    Target {
        tag: u64,
    },
    /// `Link`: what `from` was, then what linkat(2) said (0: done).
    Linked {
        kind: Kind,
        inode: u64,
        tag: u64,
        errno: i32,
    },
    /// Slots of the directory that were listed, a bit each, and whether there was a name that is none.
    Listed {
        slots: u32,
        stranger: bool,
    },
    /// So many bytes, and the tags of their writers: runs that end at an offset, in order.
    Bytes {
        count: u64,
        runs: Vec<(u64, u64)>,
    },
    Size(u64),
    /// Tags of a log's records.
    Log(Vec<u64>),
    /// `GetXattr`; 0 when there is none.
    Value(u64),
    Attributes {
        mode: u32,
        seconds: u64,
    },
    /// `GetCwd`: which of its two names the directory has; 2: another.
    Called(u8),
}

impl Call {
    /// Whether it leaves everything as it is, whatever it answers.
    pub fn only_looks(&self) -> bool {
        use Call::*;
        matches!(
            self,
            Get { .. }
                | Look { .. }
                | List { .. }
                | ReadLink { .. }
                | Open
                | Close
                | Read { .. }
                | Splice { .. }
                | GetCwd
                | Size { .. }
                | Sync
                | MapRead { .. }
                | ReadLog
                | LogSize
                | GetXattr
                | Stat
        )
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        use Call::*;
        match self {
            Create {
                exclusive: true, ..
            } => "create-exclusive",
            Create { .. } => "create",
            Get { .. } => "get",
            Look { .. } => "lstat",
            List { .. } => "readdir",
            Unlink { .. } => "unlink",
            Rename {
                how: self::Rename::Over,
                ..
            } => "rename",
            Rename {
                how: self::Rename::NoReplace,
                ..
            } => "rename-noreplace",
            Rename { .. } => "rename-exchange",
            Link { .. } => "link",
            Symlink { .. } => "symlink",
            ReadLink { .. } => "readlink",
            MakeDir { .. } => "mkdir",
            RemoveDir { .. } => "rmdir",
            Publish { .. } => "publish",
            Open => "open",
            Close => "close",
            Write { .. } => "write",
            Read { .. } => "read",
            Truncate { .. } => "truncate",
            Allocate {
                how: self::Allocate::Plain,
                ..
            } => "fallocate",
            Allocate {
                how: self::Allocate::KeepSize,
                ..
            } => "fallocate-keep",
            Allocate {
                how: self::Allocate::Punch,
                ..
            } => "fallocate-punch",
            Allocate { .. } => "fallocate-zero",
            Size { .. } => "stat-size",
            Sync => "fsync",
            MapRead { .. } => "mmap-read",
            MapWrite { .. } => "mmap-write",
            Append { .. } => "append",
            ReadLog => "read-log",
            LogSize => "stat-log",
            CutLog => "truncate-log",
            SetMode { .. } => "chmod",
            SetTime { .. } => "utimensat",
            SetXattr { .. } => "setxattr",
            RemoveXattr => "removexattr",
            GetXattr => "getxattr",
            Stat => "stat",
            Lock { .. } => "lock",
            Unlock { .. } => "unlock",
            MoveDir { .. } => "rename-directory",
            GetCwd => "getcwd",
            Splice { how, .. } => match how {
                SpliceCall::Sendfile => "sendfile",
                SpliceCall::Splice => "splice",
                SpliceCall::CopyFileRange => "copy_file_range",
            },
        }
    }
}

impl Answer {
    pub fn errno(&self) -> Option<i32> {
        match self {
            Answer::Errno(errno) => Some(*errno),
            Answer::Linked { errno, .. } if *errno != 0 => Some(*errno),
            _ => None,
        }
    }

    /// Whether the operation did not do what it was asked, for sure.
    pub fn refused(&self) -> bool {
        self.errno().is_some()
    }
}
