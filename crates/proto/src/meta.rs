//! What a metadata server is asked and answers.
//!
//! A changing request carries (session, slot, sequence): its answer is stored in the batch that makes the change, so asking
//! again with the same three gives the same answer. Reading requests and refusals are simply done again.

use crate::attr::{Attr, FileKind, InodeFlags};
use crate::caller::Caller;
use crate::capability::{Capability, OpenProof, Pass, Rights};
use crate::ids::{InodeId, MapEpoch, OstId, OwnerEpoch, Seq, SessionId, Slot};
use crate::layout::{Layout, LayoutRule};
use crate::lock;
use crate::name::Name;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One question to the owner of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    pub session: SessionId,
    /// Which lane and which of its changes; None for reading requests.
    pub lane: Option<Lane>,
    pub caller: Caller,
    /// What the caller's site calls the job, for accounting; 0 is unknown.
    pub job: u64,
    /// The life of the server that this client counts on: `Refusal::AnotherLife` if it is another's (`Op::Return`).
    pub life: OwnerEpoch,
    /// The newest change this client has seen in that life: the answer's view is at least as new.
    pub seen: Seq,
    pub op: Op,
}

/// A session's lane and the number of the change in it, rising by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lane {
    pub slot: Slot,
    pub sequence: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The newest change that the answer rests on; it is committed.
    pub seq: Seq,
    /// All changes up to here survive a power cut.
    pub durable: Seq,
    pub map_epoch: MapEpoch,
    /// What the request changed; None if nothing.
    pub change: Option<Change>,
    pub result: Result<Answer, Refusal>,
}

/// The change that a request made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Its number in the log.
    pub seq: Seq,
    /// The time it gave to what it changed.
    pub at: Timestamp,
}

/// A change that was answered and may be lost if the server's power is: what the client says to have it made again, as it
/// was. (docs/decisions, "Changes said again".)
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub change: Change,
    pub lane: Lane,
    pub caller: Caller,
    /// The operation, written down (`wire::op_bytes`): an operation cannot hold operations.
    pub op: Bytes,
    /// The inode that it made.
    pub made: Option<InodeId>,
    /// The layout that the file got or had.
    pub layout: Option<Layout>,
}

/// What may be asked. Each is one file in `names/ops/`.
///
/// | operation | answer |
/// |---|---|
/// | lookup, lookup_parent | `Entry` |
/// | getattr | `Attr` |
/// | access, set_layout_rule, close_session, forgotten, return | `Done` |
/// | renew | `Renewed` |
/// | permit | `Permitted` |
/// | create, open, open_tmpfile, truncate, begin_write | `Opened`: where the bytes are now |
/// | proven | what the operation in it is answered |
/// | mkdir, mknod, symlink, tmpfile, link | `Entry` |
/// | unlink, rmdir, rename | `Removed` |
/// | setattr, setxattr, removexattr, set_flags, spilled, end_write, kill_privileges | `Attr` |
/// | write_inline | `Attr`, or `Outgrown` and nothing written |
/// | lock | `Lock` |
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Op {
    // Looking.
    Lookup {
        dir: InodeId,
        name: Name,
    },
    /// The directory above a directory.
    LookupParent {
        dir: InodeId,
    },
    GetAttr {
        ino: InodeId,
    },
    /// access(2) with the caller's credentials.
    Access {
        ino: InodeId,
        want: Access,
    },
    Readlink {
        ino: InodeId,
    },
    /// Entries after `after` (0 is the start) in cookie order; with attributes if `plus`. "." and ".." are the client's affair
    /// (cookies 1 and 2); the first real entry's cookie is above 2.
    Readdir {
        dir: InodeId,
        after: u64,
        limit: u32,
        plus: bool,
    },
    GetXattr {
        ino: InodeId,
        name: XattrName,
    },
    ListXattr {
        ino: InodeId,
    },
    StatFs,
    GetLayoutRule {
        ino: InodeId,
    },

    // Changing names.
    /// A regular file, opened with `open.access`. Without `exclusive` an existing file is opened (and cut, if `open.truncate`).
    Create {
        dir: InodeId,
        name: Name,
        make: Make,
        exclusive: bool,
        open: OpenHow,
    },
    Mkdir {
        dir: InodeId,
        name: Name,
        make: Make,
    },
    /// Fifo, socket, device or an empty regular file.
    Mknod {
        dir: InodeId,
        name: Name,
        kind: FileKind,
        rdev: u32,
        make: Make,
    },
    Symlink {
        dir: InodeId,
        name: Name,
        target: Vec<u8>,
    },
    /// A file without a name, held by this session until forgotten or linked.
    TmpFile {
        dir: InodeId,
        make: Make,
    },
    Link {
        ino: InodeId,
        dir: InodeId,
        name: Name,
    },
    Unlink {
        dir: InodeId,
        name: Name,
    },
    Rmdir {
        dir: InodeId,
        name: Name,
    },
    Rename {
        from: InodeId,
        name: Name,
        to: InodeId,
        new_name: Name,
        how: RenameHow,
    },

    // Changing files.
    SetAttr {
        ino: InodeId,
        set: SetAttr,
    },
    SetXattr {
        ino: InodeId,
        name: XattrName,
        value: Bytes,
        how: XattrHow,
    },
    RemoveXattr {
        ino: InodeId,
        name: XattrName,
    },
    SetLayoutRule {
        ino: InodeId,
        rule: Option<LayoutRule>,
    },
    /// Opens an existing file: permission, truncation if asked, and where its bytes are.
    Open {
        ino: InodeId,
        open: OpenHow,
    },
    /// A new size. `by_handle`: through a file opened for writing, so permission was given at open.
    Truncate {
        ino: InodeId,
        to: u64,
        by_handle: bool,
        kill_privileges: bool,
    },
    /// Bytes of a file so small that it lives in its inode. `Answer::Outgrown` when it would not be.
    WriteInline {
        ino: InodeId,
        at: WriteAt,
        data: Bytes,
        kill_privileges: bool,
    },
    /// This session starts to write objects of the file: its size, mtime and presence are the session's until `EndWrite`
    /// without `keep`. Lays the file out if it never was; presence `Never` becomes `Maybe`.
    BeginWrite {
        ino: InodeId,
        kill_privileges: bool,
    },
    /// The inline bytes lie in the objects now (written there, not necessarily synced… the caller syncs first).
    Spilled {
        ino: InodeId,
        written: Written,
    },
    /// What was written since `BeginWrite` or the last `EndWrite`.
    EndWrite {
        ino: InodeId,
        written: Written,
        keep: bool,
    },
    /// setuid and setgid go because somebody unprivileged wrote.
    KillPrivileges {
        ino: InodeId,
    },

    // Sessions.
    OpenSession {
        client: String,
    },
    CloseSession,
    /// The kernel knows these inodes no more: those without a name are purged.
    Forgotten {
        inodes: Vec<InodeId>,
    },
    /// Answered when every change up to `upto` survives a power cut.
    Sync {
        upto: Seq,
    },
    /// This session lives. `SessionEnded` if it does not any more.
    Renew,
    /// The session comes back to a server that was started again, with the changes that it cannot be sure of. Said in parts;
    /// after the last one answered when all sessions are back, and everything they brought is made again and durable.
    Return {
        /// The life in which they were made: only there their numbers say which came first.
        of: OwnerEpoch,
        kept: Vec<Kept>,
        /// Locks that its programs hold.
        locks: Vec<lock::Lock>,
        last: bool,
    },
    /// The capability for a file that this session has open (to write: that it holds), anew: the one it had is not believed
    /// any more, or the file lies on other OSTs by now.
    Permit {
        ino: InodeId,
        rights: Rights,
    },

    /// Locks of programs: they change no record.
    Lock(lock::Ask),

    // Since version 7. New operations stand at the end: a variant's number is what travels.
    /// Immutable, append-only: FS_IOC_SETFLAGS.
    SetFlags {
        ino: InodeId,
        flags: InodeFlags,
    },

    // Since version 8.
    /// The operation, written down (`wire::op_bytes`), with proofs of what the session has open: for what a client does on
    /// behalf of open files, whose rights were decided when they were opened. It is done, stored and said again as the
    /// operation itself.
    Proven {
        proofs: Vec<OpenProof>,
        op: Bytes,
    },
    /// O_TMPFILE: as `TmpFile`, and answered `Opened`, with the proof that the file is open with `access`.
    OpenTmpFile {
        dir: InodeId,
        make: Make,
        access: Access,
    },
}

impl Op {
    /// Whether the request changes records, and so needs a lane.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Op::Lookup { .. }
                | Op::LookupParent { .. }
                | Op::GetAttr { .. }
                | Op::Access { .. }
                | Op::Readlink { .. }
                | Op::Readdir { .. }
                | Op::GetXattr { .. }
                | Op::ListXattr { .. }
                | Op::StatFs
                | Op::GetLayoutRule { .. }
                | Op::OpenSession { .. }
                | Op::Sync { .. }
                | Op::Renew
                | Op::Return { .. }
                | Op::Permit { .. }
                | Op::Lock(_)
                // What is in it may.
                | Op::Proven { .. }
        )
    }

    /// The operation's name, for spans and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Lookup { .. } => "lookup",
            Op::LookupParent { .. } => "lookup_parent",
            Op::GetAttr { .. } => "getattr",
            Op::Access { .. } => "access",
            Op::Readlink { .. } => "readlink",
            Op::Readdir { .. } => "readdir",
            Op::GetXattr { .. } => "getxattr",
            Op::ListXattr { .. } => "listxattr",
            Op::StatFs => "statfs",
            Op::GetLayoutRule { .. } => "get_layout_rule",
            Op::Create { .. } => "create",
            Op::Mkdir { .. } => "mkdir",
            Op::Mknod { .. } => "mknod",
            Op::Symlink { .. } => "symlink",
            Op::TmpFile { .. } => "tmpfile",
            Op::Link { .. } => "link",
            Op::Unlink { .. } => "unlink",
            Op::Rmdir { .. } => "rmdir",
            Op::Rename { .. } => "rename",
            Op::SetAttr { .. } => "setattr",
            Op::SetXattr { .. } => "setxattr",
            Op::RemoveXattr { .. } => "removexattr",
            Op::SetLayoutRule { .. } => "set_layout_rule",
            Op::Open { .. } => "open",
            Op::Truncate { .. } => "truncate",
            Op::WriteInline { .. } => "write_inline",
            Op::BeginWrite { .. } => "begin_write",
            Op::Spilled { .. } => "spilled",
            Op::EndWrite { .. } => "end_write",
            Op::KillPrivileges { .. } => "kill_privileges",
            Op::SetFlags { .. } => "set_flags",
            Op::OpenSession { .. } => "open_session",
            Op::CloseSession => "close_session",
            Op::Forgotten { .. } => "forgotten",
            Op::Sync { .. } => "sync",
            Op::Renew => "renew",
            Op::Return { .. } => "return",
            Op::Permit { .. } => "permit",
            Op::Lock(_) => "lock",
            Op::Proven { .. } => "proven",
            Op::OpenTmpFile { .. } => "tmpfile",
        }
    }
}

bitflags::bitflags! {
    /// Rights asked of a file, as in access(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    pub struct Access: u8 {
        const EXECUTE = 1;
        const WRITE = 2;
        const READ = 4;
        /// Of an open, beside WRITE: O_APPEND. No right that a mode gives.
        const APPEND = 8;
    }
}

/// How a new inode is made: `mode` as the program asked, `umask` of the program (a default ACL overrides it).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Make {
    pub mode: u32,
    pub umask: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenHow {
    pub access: Access,
    pub truncate: bool,
    pub kill_privileges: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RenameHow {
    Replace,
    NoReplace,
    Exchange,
}

/// Where an inline write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WriteAt {
    Offset(u64),
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// Set by the kernel itself for changes it made; programs cannot.
    pub ctime: Option<Timestamp>,
    /// The kernel asks that setuid and setgid go with this change.
    pub kill_privileges: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SetTime {
    /// utimensat's UTIME_NOW: whoever may write may do it.
    Now,
    /// Only the owner may.
    To(Timestamp),
}

/// A validated attribute name with its namespace ("user.colour").
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct XattrName(Box<[u8]>);

impl XattrName {
    /// What execve(2) gives a program's capabilities by. A write takes it away.
    pub const CAPABILITY: &[u8] = b"security.capability";

    /// # Errors
    /// `TooLarge`-like kinds as setxattr(2) has them: `Invalid` empty, `NameTooLong` (ERANGE is the mount's affair) above 255 bytes.
    pub fn new(bytes: &[u8]) -> Result<XattrName, Refusal> {
        if bytes.len() > crate::limits::XATTR_NAME_MAX {
            return Err(Refusal::TooSmall);
        }
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(Refusal::Invalid);
        }
        Ok(XattrName(bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum XattrHow {
    Either,
    Create,
    Replace,
}

/// What a session wrote: its word on size, time and objects. Absolute, not differences, so saying it twice does no harm.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Written {
    pub size: u64,
    /// Time of the last write; None if nothing was written since the last word.
    pub mtime: Option<Timestamp>,
    /// Time of the last read, if the file keeps one.
    pub atime: Option<Timestamp>,
    /// Space in use over all objects, in units of 512 bytes.
    pub blocks: u64,
    /// Objects that exist and survive a power cut: (component index, stripe index).
    pub present: Vec<(u32, u32)>,
    /// Objects that exist, of which a power cut may leave nothing.
    pub unsynced: Vec<(u32, u32)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    Done,
    Attr(Attr),
    /// A name's inode. Also of mkdir, mknod, symlink, link, tmpfile.
    Entry(Attr),
    Opened(Opened),
    Link(Vec<u8>),
    Entries {
        entries: Vec<DirEntry>,
        end: bool,
    },
    Xattr(Bytes),
    XattrNames(Vec<XattrName>),
    /// What went away by unlink, rmdir or rename-over; still readable for who holds it, until `Forgotten`.
    Removed(Removed),
    LayoutRule {
        rule: LayoutRule,
        inherited: bool,
    },
    StatFs(StatFs),
    /// The write would not fit into the inode: begin a real one.
    Outgrown,
    Session {
        session: crate::ids::SessionId,
        life: OwnerEpoch,
        /// None where OSTs ask for none.
        pass: Option<Pass>,
    },
    Renewed {
        pass: Option<Pass>,
    },
    Permitted {
        pass: Option<Pass>,
        capability: Option<Capability>,
    },
    Synced,
    Lock(lock::Said),
}

/// A file as its user needs it: attributes and where the bytes are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Opened {
    pub attr: Attr,
    pub layout: Layout,
    /// The bytes of a file that lives in its inode; its length is `attr.size` or less (the rest is a hole).
    pub inline: Option<Bytes>,
    /// Create only: the file was made by this request.
    pub created: bool,
    /// What the OSTs of the layout are shown. None where they ask for none, and where there is no layout.
    pub capability: Option<Capability>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirEntry {
    pub name: Name,
    pub ino: InodeId,
    pub kind: FileKind,
    /// Where readdir goes on after this entry.
    pub cookie: u64,
    pub attr: Option<Attr>,
}

/// The inode that lost a name by this change, if one did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Removed {
    pub victim: Option<InodeId>,
    /// That was its last name: it goes when it is forgotten.
    pub orphan: bool,
    /// Attributes of the moved or linked inode after the change (rename), if it changed.
    pub attr: Option<Attr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatFs {
    /// Inodes in use.
    pub inodes: u64,
    /// Removed files whose space is not given back yet.
    pub purging: u64,
}

/// A target as the metadata server knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetState {
    pub ost: OstId,
    pub usable: bool,
    pub why_not: Option<String>,
    pub total: u64,
    pub free: u64,
}
