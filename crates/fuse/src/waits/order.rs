//! How a request stands to those before it, and what of its answer must be taken back when nobody gets it.

use crate::limits::LATE_PAYLOAD;
use crate::op::{self, LockKind};
use crate::request::Operation;
use crate::wire::{Header, WriteFlags};
use crate::{NodeId, Unique};

/// What is kept of a request while it waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub header: Header,
    /// The second node that it is about.
    other: Option<NodeId>,
    class: Class,
    pub undo: Undo,
    /// The memory it keeps, in units of `LATE_PAYLOAD`.
    payload: usize,
}

/// What it may do to others of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Tells what is there, and may tell it while a change is late: attributes, and what concerns no node.
    Looks,
    /// Names and bytes: what it tells must not be changed afterwards by something that was asked before.
    Reads,
    /// What follows on the node comes after it, also when it is late.
    Changes,
    /// The same, and it may wait as long as the program likes.
    WaitsForLock,
    /// The same; bytes of mappings belong to the file, whoever ends.
    WritesBack,
    /// Ends something: it must be done whoever waits for it, and nobody minds when.
    Ends,
    /// The same, of one descriptor: who closes it need not wait for others.
    Closes,
}

/// What an answer hands out that somebody must give back.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Undo {
    Nothing,
    /// A reference to a node.
    Entry,
    /// An open file or directory, with these O_….
    Opened {
        directory: bool,
        flags: u32,
    },
    /// Both.
    Created {
        flags: u32,
    },
    /// A reference for each line.
    Listing,
    Lock(op::Lock),
}

impl Order {
    pub fn of(header: &Header, operation: &Operation) -> Order {
        let (class, undo, other) = stands(operation);
        let payload = match operation {
            Operation::Write(write) => write.size / LATE_PAYLOAD,
            _ => 0,
        };
        Order {
            header: *header,
            other,
            class,
            undo,
            payload,
        }
    }

    pub fn unique(&self) -> Unique {
        self.header.unique
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let other = self.other.filter(|other| *other != self.header.node);
        std::iter::once(self.header.node).chain(other)
    }

    /// It must come after changes that are late.
    pub fn follows(&self) -> bool {
        self.class != Class::Looks
    }

    pub fn changes(&self) -> bool {
        matches!(
            self.class,
            Class::Changes | Class::WaitsForLock | Class::WritesBack
        )
    }

    /// Also if nobody waits for the answer any more.
    pub fn must_run(&self) -> bool {
        matches!(self.class, Class::Ends | Class::Closes)
    }

    /// close(2). Its answer says nothing that the program counts on.
    pub fn is_close(&self) -> bool {
        self.class == Class::Closes
    }

    /// It may take a lock.
    pub fn locks(&self) -> bool {
        matches!(self.undo, Undo::Lock(_))
    }

    pub fn has_deadline(&self) -> bool {
        self.class != Class::WaitsForLock
    }

    /// Who asked; None where the end of a program does not end its request, or cannot be known.
    pub fn killable(&self) -> Option<u32> {
        let ends_with_it = !matches!(self.class, Class::Ends | Class::Closes | Class::WritesBack);
        (ends_with_it && self.header.pid != 0).then_some(self.header.pid)
    }

    /// How much it counts of `LATE_MAX`.
    pub fn weight(&self) -> usize {
        1 + self.payload
    }
}

fn stands(operation: &Operation) -> (Class, Undo, Option<NodeId>) {
    use Class::{Changes, Closes, Ends, Looks, Reads, WaitsForLock, WritesBack};
    let plain = |class| (class, Undo::Nothing, None);
    match operation {
        Operation::Lookup(_) => (Reads, Undo::Entry, None),
        Operation::Readlink
        | Operation::Read(_)
        | Operation::Readdir(_)
        | Operation::Lseek(_)
        | Operation::Fsyncdir(_)
        | Operation::Syncfs => plain(Reads),
        Operation::Readdirplus(_) => (Reads, Undo::Listing, None),
        Operation::Opendir(open) => {
            let (directory, flags) = (true, open.flags);
            (Reads, Undo::Opened { directory, flags }, None)
        }
        Operation::Open(open) => {
            let (directory, flags) = (false, open.flags);
            let class = match flags & libc::O_TRUNC as u32 {
                0 => Reads,
                _ => Changes,
            };
            (class, Undo::Opened { directory, flags }, None)
        }
        Operation::Create(create) => {
            let flags = create.flags;
            (Changes, Undo::Created { flags }, None)
        }
        Operation::Tmpfile(create) => {
            let flags = create.flags;
            (Changes, Undo::Created { flags }, None)
        }
        Operation::Symlink(_) | Operation::Mknod(_) | Operation::Mkdir(_) => {
            (Changes, Undo::Entry, None)
        }
        Operation::Link(link) => (Changes, Undo::Entry, Some(link.target)),
        Operation::Rename(rename) => (Changes, Undo::Nothing, Some(rename.new_directory)),
        Operation::CopyFileRange(copy) | Operation::CopyFileRange64(copy) => {
            (Changes, Undo::Nothing, Some(copy.to_node))
        }
        Operation::Write(write) if write.flags.contains(WriteFlags::CACHE) => plain(WritesBack),
        Operation::Write(_)
        | Operation::Setattr(_)
        | Operation::Unlink(_)
        | Operation::Rmdir(_)
        | Operation::Fsync(_)
        | Operation::Setxattr(_)
        | Operation::Removexattr(_)
        | Operation::Fallocate(_) => plain(Changes),
        Operation::Setlk(lock) | Operation::Setlkw(lock) if lock.lock.kind == LockKind::Unlock => {
            plain(Ends)
        }
        Operation::Setlk(lock) => (Changes, Undo::Lock(*lock), None),
        Operation::Setlkw(lock) => (WaitsForLock, Undo::Lock(*lock), None),
        Operation::Flush(_) => plain(Closes),
        Operation::Release(_) | Operation::Releasedir(_) => plain(Ends),
        Operation::Getattr(_)
        | Operation::Statx(_)
        | Operation::Statfs
        | Operation::Getxattr(_)
        | Operation::Listxattr(_)
        | Operation::Getlk(_)
        | Operation::Access(_)
        | Operation::Bmap(_)
        | Operation::Ioctl(_)
        | Operation::Poll(_)
        | Operation::Forget(_)
        | Operation::Interrupt(_)
        | Operation::Destroy
        | Operation::Retrieved(_)
        | Operation::Unsupported(_) => plain(Looks),
    }
}
