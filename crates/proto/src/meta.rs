//! Requests to the metadata server and their replies.
//!
//! A changing request carries (session, slot, sequence). The server stores its reply in the batch that makes the change, so a
//! retransmission with the same three numbers gets the same reply. The server executes a retransmitted reading request, or one
//! that failed, again.

use crate::access::Rights;
use crate::attr::{Attr, FileKind, InodeFlags};
use crate::caller::Caller;
use crate::capability::{Capability, OpenCapability, SessionCapability};
use crate::error::FsError;
use crate::ids::{InodeId, MapEpoch, OstId, OwnerEpoch, Seq, SessionId, Slot};
use crate::jobs::{JobId, JobLabel};
use crate::layout::{ConversionState, DefaultLayout, Layout, LayoutChange};
use crate::lock;
use crate::name::Name;
use crate::time::Timestamp;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use crate::access::AccessMode;

/// A request to the owner of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MetaRequest {
    pub session: SessionId,
    /// Slot and sequence number of a changing request; None for reading requests.
    pub slot_seq: Option<SlotSeq>,
    pub caller: Caller,
    /// The job that the caller belongs to, for accounting.
    pub job: JobId,
    /// The server instance that this client has its session state with; another instance replies `FsError::OtherInstance` (see
    /// `MetaOp::Replay`).
    pub instance: OwnerEpoch,
    /// The newest change of that instance that this client has seen: the reply is computed on a state at least as new.
    pub last_seen: Seq,
    pub op: MetaOp,
}

/// A slot of the session, and the sequence number of the change in the slot, which rises by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotSeq {
    pub slot: Slot,
    pub sequence: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MetaReply {
    /// The newest change that the reply depends on; it is committed.
    pub seq: Seq,
    /// All changes up to this one survive a power loss.
    pub durable: Seq,
    pub map_epoch: MapEpoch,
    /// The change that the request made; None if it made none.
    pub change: Option<AppliedChange>,
    pub result: Result<MetaReplyBody, FsError>,
}

/// A change that a request made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AppliedChange {
    /// Its number in the log.
    pub seq: Seq,
    /// The time stamp that it set on the inodes that it changed.
    pub at: Timestamp,
}

/// A change that the server has acknowledged and that a power loss at the server may undo: the client keeps this record and sends
/// it to a restarted server, which makes the same change again (docs/decisions, "Clients replay changes").
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplayRecord {
    pub change: AppliedChange,
    pub slot_seq: SlotSeq,
    pub caller: Caller,
    /// The encoded operation (`wire::encode_op`): the type `MetaOp` cannot contain itself.
    pub op: Bytes,
    /// The inode that the operation created.
    pub created: Option<InodeId>,
    /// The layout of the file after the operation.
    pub layout: Option<Layout>,
}

/// A metadata operation. Each has a row in the table of `operations`, and a file in `namespace/ops/`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MetaOp {
    // Reading.
    Lookup {
        dir: InodeId,
        name: Name,
    },
    /// The parent of a directory.
    LookupParent {
        dir: InodeId,
    },
    GetAttr {
        ino: InodeId,
    },
    /// access(2) with the caller's credentials.
    Access {
        ino: InodeId,
        want: AccessMode,
    },
    Readlink {
        ino: InodeId,
    },
    /// Entries after the cookie `after` (0 is the start) in cookie order; with attributes if `plus`. The client adds "." and ".."
    /// (cookies 1 and 2); the cookies of real entries are above 2.
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
    GetDefaultLayout {
        ino: InodeId,
    },

    // Changing names.
    /// Creates a regular file and opens it with `open.access`. Without `exclusive` it opens an existing file (and truncates it,
    /// if
    /// `open.truncate`).
    Create {
        dir: InodeId,
        name: Name,
        create_mode: CreateMode,
        exclusive: bool,
        open: OpenMode,
    },
    Mkdir {
        dir: InodeId,
        name: Name,
        create_mode: CreateMode,
    },
    /// Fifo, socket, device or an empty regular file.
    Mknod {
        dir: InodeId,
        name: Name,
        kind: FileKind,
        rdev: u32,
        create_mode: CreateMode,
    },
    Symlink {
        dir: InodeId,
        name: Name,
        target: Vec<u8>,
    },
    /// Creates a file without a name; it exists until this session forgets it, or gets a name by `Link`.
    TmpFile {
        dir: InodeId,
        create_mode: CreateMode,
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
        mode: RenameMode,
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
        mode: XattrMode,
    },
    RemoveXattr {
        ino: InodeId,
        name: XattrName,
    },
    SetDefaultLayout {
        ino: InodeId,
        layout: Option<DefaultLayout>,
    },
    /// Opens an existing file: checks permission, truncates if requested, and returns its layout.
    Open {
        ino: InodeId,
        open: OpenMode,
    },
    /// Sets a file's size. `by_handle`: through a file opened for writing, so that the open has checked the permission.
    Truncate {
        ino: InodeId,
        to: u64,
        by_handle: bool,
        kill_privileges: bool,
    },
    /// Writes bytes of a file that is stored in its inode. The reply is `InlineTooLarge` when the file would become too large for
    /// that.
    WriteInline {
        ino: InodeId,
        at: WritePosition,
        data: Bytes,
        kill_privileges: bool,
    },
    /// Acquires the exclusive write lease: only this session writes objects of the file, and it owns the file's size, mtime and presence
    /// until `EndWrite` without `keep_lease`. Creates the layout if the file has none; presence `Never` becomes `Maybe`.
    BeginWrite {
        ino: InodeId,
        kill_privileges: bool,
    },
    /// The client has written the inline bytes to the objects (and synced them, if a program may rely on them): the inode record
    /// drops them.
    SpillInline {
        ino: InodeId,
        report: AttrReport,
    },
    /// Updates or releases the write lease: reports the writes since `BeginWrite` or the last `EndWrite`. Reports of sessions with
    /// concurrent write leases are merged.
    EndWrite {
        ino: InodeId,
        report: AttrReport,
        keep_lease: bool,
    },
    /// Clears setuid and setgid, because an unprivileged process wrote the file.
    KillPrivileges {
        ino: InodeId,
    },

    // Sessions.
    OpenSession {
        client: String,
    },
    CloseSession,
    /// The client's kernel has forgotten these inodes (FUSE FORGET): the server purges those without a name.
    Forget {
        inodes: Vec<InodeId>,
    },
    /// The reply means that every change up to `upto` survives a power loss.
    Sync {
        upto: Seq,
    },
    /// Renews the session. `SessionEnded` if the server has ended it.
    Renew,
    /// The session reconnects to a restarted server, replays the changes that may not be durable, and reclaims its locks. A
    /// client sends it in parts; the server replies to the last part when all sessions have reconnected and their replayed
    /// changes are durable.
    Replay {
        /// The server instance in which the changes were made: their sequence numbers order them only within it.
        instance: OwnerEpoch,
        records: Vec<ReplayRecord>,
        /// Locks that the session's programs hold.
        locks: Vec<lock::AdvisoryLock>,
        last: bool,
    },
    /// Issues a new capability for a file that this session has open (with WRITE: whose write lease it has): an OST rejected the
    /// old one, or the file's layout has changed.
    IssueCapability {
        ino: InodeId,
        rights: Rights,
    },

    /// Advisory locks: the request changes no record.
    Lock(lock::LockRequest),

    // Since version 7. New operations come last, because a message contains the number of its variant.
    /// Sets the immutable and append-only flags (FS_IOC_SETFLAGS).
    SetFlags {
        ino: InodeId,
        flags: InodeFlags,
    },

    // Since version 8.
    /// An encoded operation (`wire::encode_op`) with open capabilities: the client sends it on behalf of open files, whose rights
    /// the server decided at open. The server executes and stores it, and the client replays it, as the operation itself.
    WithOpenCapability {
        open_capabilities: Vec<OpenCapability>,
        op: Bytes,
    },
    /// O_TMPFILE: as `TmpFile`, but the reply is `Opened`, with the open capability for `access`.
    OpenTmpFile {
        dir: InodeId,
        create_mode: CreateMode,
        access: AccessMode,
    },

    // Since version 9.
    /// The session takes leases: replies may grant them, and it answers `CallbackRequest::RevokeLeases`. The client sends it after each
    /// connect and reconnect; until the reply, it has no leases.
    AcceptLeases,

    // Since version 10.
    /// Reopens a file to read it for a cache: no other session has the write lease when the reply is sent, so it may grant a lease on the
    /// data.
    BeginRead {
        ino: InodeId,
    },

    // Since version 11.
    /// Acquires a write lease for writes at given offsets (pwrite(2)), which several sessions may do at the same time. The lease is
    /// concurrent if other sessions have concurrent ones; or if another session has the exclusive one and this file is `contended`: the
    /// driver has that session downgrade it first. Otherwise as `BeginWrite`. The reply says which (`WriteBegun`).
    BeginWriteAt {
        ino: InodeId,
        kill_privileges: bool,
        /// The session has lost its write lease of this file to another one a moment ago.
        contended: bool,
    },
    /// Makes the session's write lease a concurrent one, and reports its writes.
    DowngradeWrite {
        ino: InodeId,
        report: AttrReport,
    },
    /// Makes the session's concurrent write lease an exclusive one. It waits for nothing.
    ///
    /// # Errors
    /// `Busy` if another session has a write lease of the file.
    UpgradeWrite {
        ino: InodeId,
    },

    // Since version 12.
    /// Members of mirrored stripes, as (component, object index), lack a write: from the reply on, which is durable, no session reads or
    /// writes them.
    ///
    /// # Errors
    /// `Invalid` for an object that is the last full member of its stripe, or has no other.
    MarkStale {
        ino: InodeId,
        objects: Vec<(u32, u32)>,
    },

    // Since version 13.
    /// As `Create`, but a file that this request creates comes with a layout and the exclusive write lease, as if `BeginWrite` followed: then
    /// the reply is `WriteBegun`. It is `Opened`, without a lease, if the file existed, if no target can take objects, or if the lease has
    /// ended since (in the reply to a repeated request).
    CreateForWriting {
        dir: InodeId,
        name: Name,
        create_mode: CreateMode,
        exclusive: bool,
        open: OpenMode,
    },
    /// As `EndWrite`, of a session with the exclusive write lease.
    ReportWrites {
        ino: InodeId,
        report: AttrReport,
        keep_lease: bool,
        /// When the session last changed the inode; None: with the last write. A program has set times: mtime does not tell.
        ctime: Option<Timestamp>,
        /// No object of the file exists, and these are its bytes: the inode record takes them, and has no layout any more. (The rest up to the
        /// size is a hole.) Only without `keep_lease`.
        inline: Option<Bytes>,
    },

    // Since version 14.
    /// Changes the layout of a file that has objects: the server copies its bytes to new objects while no session writes it. Only the owner
    /// may. The reply is a `Conversion`, within a second or two; the request is sent again until it says `Done` or `Left`.
    ///
    /// # Errors
    /// `Invalid` for what is no file, for a layout that no file can have, or with fewer failure domains than copies.
    ConvertLayout {
        ino: InodeId,
        change: LayoutChange,
    },

    // Since version 15.
    /// What the job numbers in this client's requests stand for: of jobs that the server cannot know yet. It forgets them when it ends.
    NameJobs {
        labels: Vec<JobLabel>,
    },
}

/// Mode of a new inode: `mode` as the program requested it, and the `umask` of the program (a default ACL overrides it).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CreateMode {
    pub mode: u32,
    pub umask: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenMode {
    pub access: AccessMode,
    pub truncate: bool,
    pub kill_privileges: bool,
}

impl OpenMode {
    /// A client gets the layout of a file that it has open.
    pub const REOPEN: OpenMode = OpenMode {
        access: AccessMode::empty(),
        truncate: false,
        kill_privileges: false,
    };

    /// Whether the request is not an open(2) of a program but a client that gets the layout of a file that it has open.
    pub fn is_reopen(self) -> bool {
        Rights::for_open(self.access).is_empty() && !self.truncate
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RenameMode {
    Replace,
    NoReplace,
    Exchange,
}

/// Position of an inline write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WritePosition {
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
    /// The client's kernel sets it for its own changes; programs cannot.
    pub ctime: Option<Timestamp>,
    /// The kernel requests that the change clears setuid and setgid.
    pub kill_privileges: bool,
}

impl SetAttr {
    /// Whether the request is a client's report of an access time: nothing else changes, so ctime stays. No system call sends a
    /// ctime.
    pub fn is_atime_report(&self) -> bool {
        self.ctime.is_some()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SetTime {
    /// UTIME_NOW of utimensat(2): write permission suffices.
    Now,
    /// Only the owner may set it.
    To(Timestamp),
}

/// A validated attribute name with its namespace ("user.colour").
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct XattrName(Box<[u8]>);

impl XattrName {
    /// File capabilities for execve(2). A write removes the attribute.
    pub const CAPABILITY: &[u8] = b"security.capability";

    /// # Errors
    /// As setxattr(2): `Invalid` for an empty name or one with NUL, `TooSmall` (ERANGE) above 255 bytes.
    pub fn new(bytes: &[u8]) -> Result<XattrName, FsError> {
        if bytes.len() > crate::limits::XATTR_NAME_MAX {
            return Err(FsError::TooSmall);
        }
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(FsError::Invalid);
        }
        Ok(XattrName(bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum XattrMode {
    CreateOrReplace,
    Create,
    Replace,
}

/// Attribute report: size, times and objects of a file after the writes of the session with its write lease. The values are
/// absolute, not differences, so that a duplicate report has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AttrReport {
    pub size: u64,
    /// Time of the last write; None if the session wrote nothing since its last report.
    pub mtime: Option<Timestamp>,
    /// Time of the last read, if the file has an atime.
    pub atime: Option<Timestamp>,
    /// Space in use over all objects, in units of 512 bytes.
    pub blocks: u64,
    /// Objects that exist and survive a power loss: (component index, stripe index).
    pub present: Vec<(u32, u32)>,
    /// Objects that exist, and that a power loss may remove.
    pub unsynced: Vec<(u32, u32)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MetaReplyBody {
    Done,
    Attr(Attr),
    /// The inode of a name. Also the reply to mkdir, mknod, symlink, link and tmpfile.
    Entry(Attr),
    Opened(OpenInfo),
    LinkTarget(Vec<u8>),
    Entries {
        entries: Vec<DirEntry>,
        end: bool,
    },
    Xattr(Bytes),
    XattrNames(Vec<XattrName>),
    /// The inode that unlink, rmdir or a replacing rename removed; sessions that have it open can use it until `Forget`.
    Removed(RemovedName),
    DefaultLayout {
        layout: DefaultLayout,
        inherited: bool,
    },
    StatFs(StatFs),
    /// The file would be too large for its inode record: the client writes to objects (`BeginWrite`).
    InlineTooLarge,
    Session {
        session: crate::ids::SessionId,
        instance: OwnerEpoch,
        /// None where OSTs require no capabilities.
        session_capability: Option<SessionCapability>,
    },
    Renewed {
        session_capability: Option<SessionCapability>,
    },
    CapabilityIssued {
        session_capability: Option<SessionCapability>,
        capability: Option<Capability>,
    },
    Synced,
    Lock(lock::LockReply),

    // Since version 9, and only to sessions that have sent `AcceptLeases`.
    LeasesAccepted {
        /// The server squashes root of this client's host: the client checks permissions as the server does.
        root_squashed: bool,
    },
    /// The outcome of an operation, with leases.
    LeaseReply(crate::lease::LeaseReply),

    // Since version 11, to operations of that version and later ones.
    WriteBegun {
        opened: OpenInfo,
        /// Other sessions may write the file, too.
        is_concurrent: bool,
    },

    // Since version 14, to operations of that version.
    Conversion(ConversionState),
}

/// An open file: its attributes, layout and capability.
impl MetaReplyBody {
    /// The first version of META whose peers know mirrored layouts.
    pub const MIRRORS_SINCE: u8 = 12;
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenInfo {
    pub attr: Attr,
    pub layout: Layout,
    /// The bytes of a file that is stored in its inode; at most `attr.size` bytes (the rest is a hole).
    pub inline: Option<Bytes>,
    /// To `Create` only: this request created the file.
    pub created: bool,
    /// The capability for the OSTs of the layout. None where OSTs require none, and where the file has no layout.
    pub capability: Option<Capability>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirEntry {
    pub name: Name,
    pub ino: InodeId,
    pub kind: FileKind,
    /// The cookie at which readdir continues after this entry.
    pub cookie: u64,
    pub attr: Option<Attr>,
}

/// The inode that lost a name by this change, if one did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RemovedName {
    pub victim: Option<InodeId>,
    /// The name was its last: the server removes the inode when all sessions have forgotten it.
    pub is_orphan: bool,
    /// Attributes of the moved or linked inode after the change (rename), if it changed.
    pub attr: Option<Attr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatFs {
    /// Inodes in use.
    pub inodes: u64,
    /// Removed files whose space is not freed yet.
    pub purging: u64,
}

/// A target as the placement of new objects sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlacementTarget {
    pub ost: OstId,
    /// Targets with the same number may be lost together; `UNKNOWN_DOMAIN` if it is not known with which others this one may be.
    pub domain: u32,
    /// Its server serves it.
    pub is_up: bool,
    /// It is up and has space, and is not being drained.
    pub usable: bool,
    /// It is being drained: objects are placed there only if a mirrored stripe would lack a member otherwise.
    pub is_draining: bool,
    pub why_not: Option<String>,
    pub total: u64,
    pub free: u64,
}

impl PlacementTarget {
    /// No member of a mirrored stripe is placed there.
    pub const UNKNOWN_DOMAIN: u32 = u32::MAX;
}
