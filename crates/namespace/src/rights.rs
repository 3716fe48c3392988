//! # rights: who may do which operation
//!
//! Owns   the table (`rule`) that says for every operation what gives the right to it, and how that is checked.
//! Never  looks at which host or process asks: what its root counts as was decided when the request came in.
//! Enter  at `check`, which runs before every operation; at `rule` for operations that the driver does itself.
//!
//! Two things give a right: the credentials that a request names, and what its session has open. POSIX decides about an open file
//! once, when it is opened: whoever writes through a descriptor may do so although the file is 0444 by now, or was made so.
//! A session proves that with what the server gave it for the open (`gupfs_proto::capability::OpenProof`). A request that
//! proves nothing is judged by its credentials alone, whatever else it says.

use crate::key::Key;
use crate::may;
use crate::record::{Inode, Writer};
use crate::step::Outcome;
use crate::view::View;
use gupfs_proto::capability::Rights;
use gupfs_proto::lock::{Ask, Kind, Lock, Mode};
use gupfs_proto::meta::{Access, Op, OpenHow, SetAttr};
use gupfs_proto::{Caller, InodeId, Refusal};

/// What gives the right to an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Every session has it: it is about the session itself, or about what every host with a session may know.
    Session,
    /// The credentials. The operation checks them itself (`may`), as it comes to directories and files, in the order in which
    /// Linux does.
    Credentials,
    /// The session has the inode open so, or the credentials give the right to open it so now.
    Open(InodeId, Access),
    /// The same for writing, or the credentials are the owner's.
    WriteOrOwn(InodeId),
    /// The session holds the file for writing: the records say so.
    Holder(InodeId),
    /// Each operation and each lock in it by its own rule.
    Parts,
}

/// The table.
pub fn rule(op: &Op) -> Rule {
    match op {
        // Names. By its number every host may ask how an inode is (fstat(2)), and where a symbolic link leads.
        Op::Lookup { .. } => Rule::Credentials,
        Op::LookupParent { dir } => Rule::Open(*dir, Access::EXECUTE),
        Op::GetAttr { .. } => Rule::Session,
        Op::Access { .. } => Rule::Credentials,
        Op::Readlink { .. } => Rule::Session,
        Op::Readdir { dir, .. } => Rule::Open(*dir, Access::READ),
        Op::GetXattr { .. } => Rule::Credentials,
        Op::ListXattr { .. } => Rule::Session,
        Op::StatFs => Rule::Session,
        Op::GetLayoutRule { .. } => Rule::Session,

        Op::Create { .. } => Rule::Credentials,
        Op::Mkdir { .. } => Rule::Credentials,
        Op::Mknod { .. } => Rule::Credentials,
        Op::Symlink { .. } => Rule::Credentials,
        Op::TmpFile { .. } | Op::OpenTmpFile { .. } => Rule::Credentials,
        Op::Link { .. } => Rule::Credentials,
        Op::Unlink { .. } => Rule::Credentials,
        Op::Rmdir { .. } => Rule::Credentials,
        Op::Rename { .. } => Rule::Credentials,

        // Files. A client tells when a file was read: that is for who may read it.
        Op::SetAttr { ino, set } => match set {
            set if tells_reading(set) => Rule::Open(*ino, Access::READ),
            set if sets_nothing(set) => Rule::WriteOrOwn(*ino),
            _ => Rule::Credentials,
        },
        Op::SetXattr { .. } => Rule::Credentials,
        Op::RemoveXattr { .. } => Rule::Credentials,
        Op::SetLayoutRule { .. } => Rule::Credentials,
        Op::SetFlags { .. } => Rule::Credentials,
        // What is open is asked for again without access: where its bytes are, and those that live in the inode.
        Op::Open { ino, open } => match asks_again(*open) {
            true => Rule::Open(*ino, Access::READ),
            false => Rule::Credentials,
        },
        Op::Truncate { ino, by_handle, .. } => match by_handle {
            true => Rule::Open(*ino, Access::WRITE),
            false => Rule::Credentials,
        },
        Op::WriteInline { ino, .. } => Rule::Open(*ino, Access::WRITE),
        Op::BeginWrite { ino, .. } => Rule::Open(*ino, Access::WRITE),
        Op::Spilled { ino, .. } => Rule::Holder(*ino),
        Op::EndWrite { ino, .. } => Rule::Holder(*ino),
        Op::KillPrivileges { ino } => Rule::WriteOrOwn(*ino),
        Op::Permit { ino, rights } => match rights.contains(Rights::WRITE) {
            true => Rule::Holder(*ino),
            false => Rule::Open(*ino, Access::READ),
        },

        // A session's own affairs.
        Op::OpenSession { .. } => Rule::Session,
        Op::CloseSession => Rule::Session,
        // Only what is recorded as kept for this session goes by it.
        Op::Forgotten { .. } => Rule::Session,
        Op::Sync { .. } => Rule::Session,
        Op::Renew => Rule::Session,
        Op::Return { .. } => Rule::Parts,
        Op::Proven { .. } => Rule::Parts,
        // Locks keep others from theirs. What is given up is the session's own.
        Op::Lock(Ask::Take { lock, .. } | Ask::Test { lock }) => {
            Rule::Open(lock.holder.ino, access_to_lock(lock))
        }
        Op::Lock(Ask::Free { .. } | Ask::Cancel { .. }) => Rule::Session,
    }
}

/// Whether it is no open(2) of a program: a client asks for what it has open.
pub(crate) fn asks_again(how: OpenHow) -> bool {
    Rights::of_open(how.access).is_empty() && !how.truncate
}

/// What fcntl(2) asks of the descriptor; flock(2) takes any.
pub fn access_to_lock(lock: &Lock) -> Access {
    match (lock.holder.kind, lock.mode) {
        (Kind::Record, Mode::Exclusive) => Access::WRITE,
        (Kind::Record, Mode::Shared) | (Kind::Flock, _) => Access::READ,
    }
}

/// A client's word on an access time: nothing else was changed, so the time of change stays. No program can say this.
pub(crate) fn tells_reading(set: &SetAttr) -> bool {
    set.ctime.is_some()
}

/// At most that setuid and setgid go; that it was asked shows in the time of change all the same.
fn sets_nothing(set: &SetAttr) -> bool {
    let rest = SetAttr {
        kill_privileges: set.kill_privileges,
        ..SetAttr::default()
    };
    *set == rest
}

/// What a request proves that its session has open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opens(Vec<(InodeId, Rights)>);

impl Opens {
    /// A request that proves nothing.
    pub const NONE: &'static Opens = &Opens(Vec::new());

    /// From proofs that were verified.
    pub fn new(mut proved: Vec<(InodeId, Rights)>) -> Opens {
        proved.sort_unstable_by_key(|(ino, _)| *ino);
        Opens(proved)
    }

    fn allow(&self, ino: InodeId, access: Access) -> bool {
        let from = self.0.partition_point(|(of, _)| *of < ino);
        let of_this = self.0[from..].iter().take_while(|(of, _)| *of == ino);
        of_this.into_iter().any(|(_, rights)| rights.allow(access))
    }

    /// Whether these alone, or credentials that need no record, give the right to use the inode so.
    pub fn suffice(&self, caller: &Caller, ino: InodeId, access: Access) -> bool {
        caller.is_root() && !access.contains(Access::EXECUTE) || self.allow(ino, access)
    }
}

/// `Rule::Open`.
///
/// # Errors
/// `Denied`.
pub fn may_use(
    inode: &Inode,
    caller: &Caller,
    opens: &Opens,
    access: Access,
) -> Result<(), Refusal> {
    match opens.suffice(caller, inode.ino, access) || may::grants(inode, caller, access) {
        true => Ok(()),
        false => Err(Refusal::Denied),
    }
}

/// Whether the operation may be done; what it checks itself it is still to check.
pub(crate) fn check(view: &mut View, op: &Op) -> Outcome<()> {
    match rule(op) {
        Rule::Session | Rule::Credentials | Rule::Parts => {}
        Rule::Open(ino, access) => {
            let inode = view.inode(ino)?;
            may_use(&inode, view.ctx.caller, view.ctx.opens, access)?;
        }
        Rule::WriteOrOwn(ino) => {
            let inode = view.inode(ino)?;
            if !may::owns(&inode, view.ctx.caller) {
                may_use(&inode, view.ctx.caller, view.ctx.opens, Access::WRITE)?;
            }
        }
        Rule::Holder(ino) => {
            view.inode(ino)?;
            must_hold(view, ino)?;
        }
    }
    Ok(())
}

fn must_hold(view: &View, ino: InodeId) -> Outcome<()> {
    let session = view.ctx.session;
    match view.get::<Writer>(&Key::writer(ino, session))? {
        Some(_) => Ok(()),
        None => {
            let why = format!("session {session} does not write inode {:x}", ino.0);
            Err(Refusal::Malformed(why).into())
        }
    }
}

#[cfg(test)]
mod tests;
