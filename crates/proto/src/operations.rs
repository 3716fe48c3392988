//! # operations: one row for each metadata operation
//!
//! Owns   the table of metadata operations: name, subject, execution, access rule, reply, origin, session, version. The client (slots,
//!        sessions, callbacks, open capabilities), the permission checks, the place of a stored reply, statistics and the choice of the
//!        wire's version read it; tests check every reply and batch against it.
//! Never  executes an operation.
//! Enter  at `MetaOp::operation`.
//!
//! A new operation needs its variant at the end of `meta::MetaOp` (a message contains the variant's number), its row here, and a new
//! version of META in `wire`; in the crate `namespace` its file in `ops/` with the line in `ops/mod.rs` that calls it. An operation
//! of the driver has its arm in `mds/src/request.rs` instead.

use crate::access::{AccessMode, Rights};
use crate::ids::InodeId;
use crate::jobs::CallClass;
use crate::lock::{AdvisoryLock, LockFamily, LockMode, LockRequest};
use crate::meta::{MetaOp, MetaReplyBody, OpenMode, SetAttr};
use bytes::Bytes;

/// The row of an operation, for the values in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationRow {
    /// The inode that the operation is about; the directory for operations on names. None for operations on no inode, or on several. The
    /// stored reply is in the virtual shard of this inode (`MetaOp::home`).
    pub subject: Option<InodeId>,
    pub execution: Execution,
    pub rule: AccessRule,
    /// Tests check replies against it.
    pub reply: ReplyKind,
    pub origin: OperationOrigin,
    pub session: SessionScope,
    /// The first version of the META protocol that has the operation with these values.
    pub since: u8,
}

/// The part of the server that executes an operation, and what the operation may do to the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Execution {
    /// The state machine, without any change. The server executes a retransmission again.
    Read,
    /// The state machine, with changes. The request has a slot and a sequence number, the server stores its reply, and the client
    /// replays it after a restart of the server.
    Change,
    /// The state machine, with changes, but without a slot: the session does not exist yet.
    OpenSession,
    /// The driver, which does not pass it to the state machine.
    Driver,
}

/// The condition under which a session may execute an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessRule {
    /// Every session may: the operation concerns the session itself, or returns what every host with a session may know.
    Session,
    /// By the credentials. The operation checks them itself for each directory and file that it reaches, in the order of Linux.
    Credentials,
    /// The session has the inode open with this access, or the credentials give the right to open it with this access now.
    Open(InodeId, AccessMode),
    /// As `Open` with write access, or the credentials are those of the owner.
    WriteOrOwner(InodeId),
    /// The session has the file's write lease, according to the records.
    LeaseHolder(InodeId),
    /// Each operation and each lock that it contains is checked by its own rule.
    PerPart,
}

/// The variant of `meta::MetaReplyBody` in the reply to an operation that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyKind {
    Done,
    Attr,
    /// `Attr`, or `InlineTooLarge` and nothing written.
    AttrOrTooLarge,
    Entry,
    /// With the current layout, or the inline bytes.
    Opened,
    LinkTarget,
    Entries,
    Xattr,
    XattrNames,
    Removed,
    DefaultLayout,
    StatFs,
    Session,
    Renewed,
    CapabilityIssued,
    Synced,
    Lock,
    LeasesAccepted,
    /// With the current layout, and the mode of the lease.
    WriteBegun,
    /// `Opened`, or `WriteBegun` if the session has the exclusive lease.
    OpenedOrBegun,
    Conversion,
    /// The reply to the operation in it.
    Inner,
}

/// The cause of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationOrigin {
    /// A system call of a program, which may have returned already: an access time, or the truncate of a failed write's leftovers, is
    /// reported later.
    Program,
    /// The client: it reports its own state, or maintains its session.
    Client,
}

/// What a client does with a call that begins while its session is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionScope {
    /// It waits for the next session: the operation depends on no lease and no open file, and its caller holds no lock of a file.
    Any,
    /// The call fails with `Stale`.
    Same,
}

macro_rules! operations {
    ($(
        $variant:ident $({ $($field:ident),* })? $(($inner:ident))? =
        $name:literal, $subject:expr, $execution:ident, $rule:expr, $reply:ident, $origin:ident, $session:expr, $since:expr;
    )*) => {
        /// An operation without its values.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum OperationKind { $($variant),* }

        impl OperationKind {
            /// All, in the order of the table: `ALL[kind as usize] == kind`.
            pub const ALL: &[OperationKind] = &[$(OperationKind::$variant),*];

            /// The name in trace spans, logs and metrics. Two kinds may share one.
            pub const fn name(self) -> &'static str {
                match self { $(OperationKind::$variant => $name),* }
            }

            pub const fn execution(self) -> Execution {
                match self { $(OperationKind::$variant => Execution::$execution),* }
            }
        }

        impl MetaOp {
            /// The operation's row.
            #[inline]
            pub fn operation(&self) -> OperationRow {
                use AccessRule::*;
                use SessionScope::*;
                match self {$(
                    MetaOp::$variant { $(0: $inner,)? $($($field,)*)? .. } => OperationRow {
                        subject: $subject,
                        execution: Execution::$execution,
                        rule: $rule,
                        reply: ReplyKind::$reply,
                        origin: OperationOrigin::$origin,
                        session: $session,
                        since: $since,
                    },
                )*}
            }

            #[inline]
            pub fn kind(&self) -> OperationKind {
                match self { $(MetaOp::$variant { .. } => OperationKind::$variant),* }
            }
        }
    };
}

operations! {
//  operation                  name               subject                    executed by  access rule                          reply             asked by  session                 since
    Lookup { dir }           = "lookup",          Some(*dir),                Read,        Credentials,                         Entry,            Program,  Any,                    6;
    LookupParent { dir }     = "lookup_parent",   Some(*dir),                Read,        Open(*dir, AccessMode::EXECUTE),     Entry,            Program,  Any,                    6;
    // Every host may get an inode's attributes (fstat(2)) and a symbolic link's target by inode number.
    GetAttr { ino }          = "getattr",         Some(*ino),                Read,        Session,                             Attr,             Program,  Any,                    6;
    Access { ino }           = "access",          Some(*ino),                Read,        Credentials,                         Done,             Program,  Any,                    6;
    Readlink { ino }         = "readlink",        Some(*ino),                Read,        Session,                             LinkTarget,       Program,  Any,                    6;
    Readdir { dir }          = "readdir",         Some(*dir),                Read,        Open(*dir, AccessMode::READ),        Entries,          Program,  Any,                    6;
    GetXattr { ino }         = "getxattr",        Some(*ino),                Read,        Credentials,                         Xattr,            Program,  Any,                    6;
    ListXattr { ino }        = "listxattr",       Some(*ino),                Read,        Session,                             XattrNames,       Program,  Any,                    6;
    StatFs                   = "statfs",          None,                      Read,        Session,                             StatFs,           Program,  Any,                    6;
    GetDefaultLayout { ino } = "get_layout_rule", Some(*ino),                Read,        Session,                             DefaultLayout,    Program,  Any,                    6;

    Create { dir, open }     = "create",          Some(*dir),                Change,      Credentials,                         Opened,           Program,  Any,                    version_with(open);
    Mkdir { dir }            = "mkdir",           Some(*dir),                Change,      Credentials,                         Entry,            Program,  Any,                    6;
    Mknod { dir }            = "mknod",           Some(*dir),                Change,      Credentials,                         Entry,            Program,  Any,                    6;
    Symlink { dir }          = "symlink",         Some(*dir),                Change,      Credentials,                         Entry,            Program,  Any,                    6;
    TmpFile { dir }          = "tmpfile",         Some(*dir),                Change,      Credentials,                         Entry,            Program,  Any,                    6;
    OpenTmpFile { dir }      = "tmpfile",         Some(*dir),                Change,      Credentials,                         Opened,           Program,  Any,                    8;
    Link { dir }             = "link",            Some(*dir),                Change,      Credentials,                         Entry,            Program,  Any,                    6;
    Unlink { dir }           = "unlink",          Some(*dir),                Change,      Credentials,                         Removed,          Program,  Any,                    6;
    Rmdir { dir }            = "rmdir",           Some(*dir),                Change,      Credentials,                         Removed,          Program,  Any,                    6;
    Rename { from }          = "rename",          Some(*from),               Change,      Credentials,                         Removed,          Program,  Any,                    6;

    SetAttr { ino, set }     = "setattr",         Some(*ino),                Change,      rule_of_setattr(*ino, set),          Attr,             Program,  Same,                   6;
    SetXattr { ino }         = "setxattr",        Some(*ino),                Change,      Credentials,                         Attr,             Program,  Same,                   6;
    RemoveXattr { ino }      = "removexattr",     Some(*ino),                Change,      Credentials,                         Attr,             Program,  Same,                   6;
    SetDefaultLayout { ino } = "set_layout_rule", Some(*ino),                Change,      Credentials,                         Done,             Program,  Same,                   6;
    SetFlags { ino }         = "set_flags",       Some(*ino),                Change,      Credentials,                         Attr,             Program,  Same,                   7;
    Open { ino, open }       = "open",            Some(*ino),                Change,      rule_of_open(*ino, *open),           Opened,           Program,  session_of_open(*open), version_with(open);
    Truncate { ino, by_handle } = "truncate",     Some(*ino),                Change,      rule_of_truncate(*ino, *by_handle),  Opened,           Program,  Same,                   6;
    WriteInline { ino }      = "write_inline",    Some(*ino),                Change,      Open(*ino, AccessMode::WRITE),       AttrOrTooLarge,   Program,  Same,                   6;
    BeginWrite { ino }       = "begin_write",     Some(*ino),                Change,      Open(*ino, AccessMode::WRITE),       Opened,           Program,  Same,                   6;
    KillPrivileges { ino }   = "kill_privileges", Some(*ino),                Change,      WriteOrOwner(*ino),                  Attr,             Program,  Same,                   6;
    SpillInline { ino }      = "spilled",         Some(*ino),                Change,      LeaseHolder(*ino),                   Attr,             Client,   Same,                   6;
    EndWrite { ino }         = "end_write",       Some(*ino),                Change,      LeaseHolder(*ino),                   Attr,             Client,   Same,                   6;
    // The server removes only orphans that are recorded for this session.
    Forget                   = "forgotten",       None,                      Change,      Session,                             Done,             Client,   Same,                   6;

    OpenSession              = "open_session",    None,                      OpenSession, Session,                             Session,          Client,   Same,                   6;
    CloseSession             = "close_session",   None,                      Change,      Session,                             Done,             Client,   Same,                   6;
    Sync                     = "sync",            None,                      Driver,      Session,                             Synced,           Client,   Same,                   6;
    Renew                    = "renew",           None,                      Driver,      Session,                             Renewed,          Client,   Same,                   6;
    Replay                   = "return",          None,                      Driver,      PerPart,                             Done,             Client,   Same,                   6;
    IssueCapability { ino, rights } = "permit",   Some(*ino),                Driver,      rule_of_capability(*ino, *rights),   CapabilityIssued, Client,   Same,                   6;
    Lock(request)            = "lock",            inode_of_lock(request),    Driver,      rule_of_lock(request),               Lock,             Program,  Same,                   6;
    WithOpenCapability       = "proven",          None,                      Driver,      PerPart,                             Inner,            Client,   Same,                   8;
    AcceptLeases             = "accept_leases",   None,                      Driver,      Session,                             LeasesAccepted,   Client,   Same,                   9;
    BeginRead { ino }        = "begin_read",      Some(*ino),                Read,        Open(*ino, AccessMode::READ),        Opened,           Program,  Same,                   10;
    BeginWriteAt { ino }     = "begin_write_at",  Some(*ino),                Change,      Open(*ino, AccessMode::WRITE),       WriteBegun,       Program,  Same,                   11;
    DowngradeWrite { ino }   = "downgrade_write", Some(*ino),                Change,      LeaseHolder(*ino),                   Attr,             Client,   Same,                   11;
    UpgradeWrite { ino }     = "upgrade_write",   Some(*ino),                Change,      LeaseHolder(*ino),                   Opened,           Client,   Same,                   11;
    MarkStale { ino }        = "mark_stale",      Some(*ino),                Change,      LeaseHolder(*ino),                   Opened,           Client,   Same,                   12;
    CreateForWriting { dir } = "create",          Some(*dir),                Change,      Credentials,                         OpenedOrBegun,    Program,  Any,                    13;
    ReportWrites { ino }     = "end_write",       Some(*ino),                Change,      LeaseHolder(*ino),                   Attr,             Client,   Same,                   13;
    ConvertLayout { ino }    = "convert_layout",  Some(*ino),                Read,        Credentials,                         Conversion,       Program,  Same,                   14;
    NameJobs                 = "name_jobs",       None,                      Driver,      Session,                             Done,             Client,   Same,                   15;
}

/// The version of META that has an open with these flags: version 7 added O_APPEND.
fn version_with(open: &OpenMode) -> u8 {
    match open.access.contains(AccessMode::APPEND) {
        true => 7,
        false => 6,
    }
}

/// A client reports a file's access time with a `SetAttr`: that needs read access.
fn rule_of_setattr(ino: InodeId, set: &SetAttr) -> AccessRule {
    match set {
        set if set.is_atime_report() => AccessRule::Open(ino, AccessMode::READ),
        set if changes_no_attribute(set) => AccessRule::WriteOrOwner(ino),
        _ => AccessRule::Credentials,
    }
}

/// Whether the request clears at most setuid and setgid; it updates ctime all the same.
fn changes_no_attribute(set: &SetAttr) -> bool {
    let rest = SetAttr {
        kill_privileges: set.kill_privileges,
        ..SetAttr::default()
    };
    *set == rest
}

/// A client reopens a file that it has open without any access: to get the layout again, or the inline bytes.
fn rule_of_open(ino: InodeId, open: OpenMode) -> AccessRule {
    match open.is_reopen() {
        true => AccessRule::Open(ino, AccessMode::READ),
        false => AccessRule::Credentials,
    }
}

/// The client sends reopens and opens that truncate under the lock of a file that it has open.
fn session_of_open(open: OpenMode) -> SessionScope {
    match open.access.is_empty() || open.truncate {
        true => SessionScope::Same,
        false => SessionScope::Any,
    }
}

fn rule_of_truncate(ino: InodeId, by_handle: bool) -> AccessRule {
    match by_handle {
        true => AccessRule::Open(ino, AccessMode::WRITE),
        false => AccessRule::Credentials,
    }
}

fn rule_of_capability(ino: InodeId, rights: Rights) -> AccessRule {
    match rights.contains(Rights::WRITE) {
        true => AccessRule::LeaseHolder(ino),
        false => AccessRule::Open(ino, AccessMode::READ),
    }
}

/// A lock blocks other sessions, so acquiring it needs access. A session releases only its own locks.
fn rule_of_lock(request: &LockRequest) -> AccessRule {
    match request {
        LockRequest::Acquire { lock, .. } | LockRequest::Test { lock } => {
            AccessRule::Open(lock.holder.ino, access_for_lock(lock))
        }
        LockRequest::Release { .. } | LockRequest::Cancel { .. } => AccessRule::Session,
    }
}

/// The access that fcntl(2) requires of the descriptor; flock(2) accepts any.
pub fn access_for_lock(lock: &AdvisoryLock) -> AccessMode {
    match (lock.holder.family, lock.mode) {
        (LockFamily::Record, LockMode::Exclusive) => AccessMode::WRITE,
        (LockFamily::Record, LockMode::Shared) | (LockFamily::Flock, _) => AccessMode::READ,
    }
}

fn inode_of_lock(request: &LockRequest) -> Option<InodeId> {
    match request {
        LockRequest::Acquire { lock, .. } | LockRequest::Test { lock } => Some(lock.holder.ino),
        LockRequest::Release { holder, .. } => Some(holder.ino),
        LockRequest::Cancel { .. } => None,
    }
}

impl OperationKind {
    /// The class in which servers count the operation.
    pub fn class(self) -> CallClass {
        use OperationKind::*;
        match self {
            Lookup | LookupParent | GetAttr | Access | Readlink | GetXattr | ListXattr | StatFs
            | GetDefaultLayout => CallClass::Stat,
            Readdir => CallClass::List,
            Open | BeginRead => CallClass::Open,
            Create | Mkdir | Mknod | Symlink | TmpFile | OpenTmpFile | Link | CreateForWriting => {
                CallClass::Create
            }
            Unlink | Rmdir => CallClass::Remove,
            Rename => CallClass::Rename,
            SetAttr | SetXattr | RemoveXattr | SetDefaultLayout | SetFlags | Truncate
            | KillPrivileges | ConvertLayout => CallClass::Change,
            WriteInline => CallClass::Write,
            Lock => CallClass::Lock,
            Sync => CallClass::Sync,
            BeginWrite | BeginWriteAt | SpillInline | EndWrite | Forget | OpenSession
            | CloseSession | Renew | Replay | IssueCapability | WithOpenCapability
            | AcceptLeases | DowngradeWrite | UpgradeWrite | MarkStale | ReportWrites
            | NameJobs => CallClass::Client,
        }
    }
}

impl MetaOp {
    /// The operation's name in trace spans, logs and metrics.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The class in which servers count the operation.
    pub fn class(&self) -> CallClass {
        self.kind().class()
    }

    /// The bytes of a file that the request brings to its inode record.
    pub fn bytes_written(&self) -> u64 {
        match self {
            MetaOp::WriteInline { data, .. } => data.len() as u64,
            MetaOp::ReportWrites { inline, .. } => inline.as_ref().map_or(0, Bytes::len) as u64,
            _ => 0,
        }
    }

    /// Whether the request changes records, and so needs a slot.
    pub fn changes(&self) -> bool {
        self.kind().execution() == Execution::Change
    }

    /// The inode in whose virtual shard the stored reply is kept: the same for a retransmission of the request.
    pub fn home(&self) -> InodeId {
        let subject = match self {
            MetaOp::Forget { inodes } => inodes.first().copied(),
            op => op.operation().subject,
        };
        subject.unwrap_or(InodeId::ROOT)
    }

    /// Whether the client reports its own state with the request: its leases, its objects, the inodes that it has forgotten.
    pub fn reports_client_state(&self) -> bool {
        let operation = self.operation();
        operation.execution == Execution::Change && operation.origin == OperationOrigin::Client
    }
}

impl ReplyKind {
    /// Whether a successful reply has this body.
    pub fn is(self, body: &MetaReplyBody) -> bool {
        match body {
            MetaReplyBody::Done => self == ReplyKind::Done,
            MetaReplyBody::Attr(_) => matches!(self, ReplyKind::Attr | ReplyKind::AttrOrTooLarge),
            MetaReplyBody::Entry(_) => self == ReplyKind::Entry,
            MetaReplyBody::Opened(_) => {
                matches!(self, ReplyKind::Opened | ReplyKind::OpenedOrBegun)
            }
            MetaReplyBody::WriteBegun { .. } => {
                matches!(self, ReplyKind::WriteBegun | ReplyKind::OpenedOrBegun)
            }
            MetaReplyBody::Conversion(_) => self == ReplyKind::Conversion,
            MetaReplyBody::LinkTarget(_) => self == ReplyKind::LinkTarget,
            MetaReplyBody::Entries { .. } => self == ReplyKind::Entries,
            MetaReplyBody::Xattr(_) => self == ReplyKind::Xattr,
            MetaReplyBody::XattrNames(_) => self == ReplyKind::XattrNames,
            MetaReplyBody::Removed(_) => self == ReplyKind::Removed,
            MetaReplyBody::DefaultLayout { .. } => self == ReplyKind::DefaultLayout,
            MetaReplyBody::StatFs(_) => self == ReplyKind::StatFs,
            MetaReplyBody::InlineTooLarge => self == ReplyKind::AttrOrTooLarge,
            MetaReplyBody::Session { .. } => self == ReplyKind::Session,
            MetaReplyBody::Renewed { .. } => self == ReplyKind::Renewed,
            MetaReplyBody::CapabilityIssued { .. } => self == ReplyKind::CapabilityIssued,
            MetaReplyBody::Synced => self == ReplyKind::Synced,
            MetaReplyBody::Lock(_) => self == ReplyKind::Lock,
            MetaReplyBody::LeasesAccepted { .. } => self == ReplyKind::LeasesAccepted,
            // The outcome in it has the kind.
            MetaReplyBody::LeaseReply(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_ways_to_do_the_same_share_a_name() {
        let mut names: Vec<&str> = OperationKind::ALL.iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        let twice: Vec<&str> = names
            .windows(2)
            .filter(|two| two[0] == two[1])
            .map(|two| two[0])
            .collect();
        assert_eq!(twice, ["create", "end_write", "tmpfile"]);
    }

    #[test]
    fn an_operation_in_the_same_session_depends_on_an_open_file_or_a_lease() {
        let ino = InodeId(7);
        let open = |access, truncate| MetaOp::Open {
            ino,
            open: OpenMode {
                access,
                truncate,
                kill_privileges: false,
            },
        };
        let session = |op: MetaOp| op.operation().session;
        assert_eq!(session(open(AccessMode::READ, false)), SessionScope::Any);
        assert_eq!(
            session(open(AccessMode::empty(), false)),
            SessionScope::Same
        );
        assert_eq!(session(open(AccessMode::WRITE, true)), SessionScope::Same);
        assert_eq!(session(MetaOp::KillPrivileges { ino }), SessionScope::Same);
    }
}
