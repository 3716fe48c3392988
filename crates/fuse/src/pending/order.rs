//! Ordering of a request relative to earlier requests, and how to undo its result if the kernel does not get the reply.

use crate::limits::LATE_PAYLOAD_UNIT;
use crate::op::{self, LockKind};
use crate::request::Operation;
use crate::wire::{RequestHeader, WriteFlags};
use crate::{NodeId, Unique};

/// The part of a request that is kept while it is pending.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOrder {
    pub header: RequestHeader,
    /// The second node that the request concerns.
    other: Option<NodeId>,
    class: OrderClass,
    pub undo: Undo,
    /// Memory of its payload, in units of `LATE_PAYLOAD_UNIT`.
    payload: usize,
}

/// How a request relates to other requests on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderClass {
    /// Returns attributes or status and may do so while a change is late; also requests that concern no node.
    Observes,
    /// Returns names or data: a change that was requested before must not take effect after it.
    Reads,
    /// Returns data for the page cache. The kernel locks the pages until it has the reply, and a late change may have these pages dropped
    /// first. The file system orders it among changes of the file.
    FillsPages,
    /// Changes the node: later requests on the node wait for it, also when its handler is late.
    Changes,
    /// A change that may wait for a lock as long as the program waits.
    WaitsForLock,
    /// A change from the page cache: it must be done even if the program that stored the bytes has ended. A late change may have the pages
    /// written first.
    WritesBack,
    /// Releases something: it must be done whether or not a program waits for it, and may be done late.
    Releases,
    /// Releases one descriptor: a program that closes it need not wait for other requests.
    Closes,
}

/// The resource that a reply gives out and that must be released if the kernel does not get the reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Undo {
    Nothing,
    /// A lookup reference to a node.
    Entry,
    /// An open file or directory, with these O_… flags.
    Opened {
        directory: bool,
        flags: u32,
    },
    /// A lookup reference and an open file.
    Created {
        flags: u32,
    },
    /// A lookup reference for each entry of a listing.
    Listing,
    Lock(op::Lock),
}

impl RequestOrder {
    pub fn of(header: &RequestHeader, operation: &Operation) -> RequestOrder {
        let (class, undo, other) = classify(operation);
        let payload = match operation {
            Operation::Write(write) => write.size / LATE_PAYLOAD_UNIT,
            _ => 0,
        };
        RequestOrder {
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

    /// Whether it must wait for late changes.
    pub fn waits_for_changes(&self) -> bool {
        self.class != OrderClass::Observes
    }

    /// Whether it begins at once: what is late may wait for it.
    pub fn never_waits(&self) -> bool {
        matches!(self.class, OrderClass::FillsPages | OrderClass::WritesBack)
    }

    pub fn changes(&self) -> bool {
        matches!(
            self.class,
            OrderClass::Changes | OrderClass::WaitsForLock | OrderClass::WritesBack
        )
    }

    /// Whether it must be executed even if no program waits for the reply any more.
    pub fn must_run(&self) -> bool {
        matches!(self.class, OrderClass::Releases | OrderClass::Closes)
    }

    /// Whether it is a close(2). A program does not depend on its reply.
    pub fn is_close(&self) -> bool {
        self.class == OrderClass::Closes
    }

    /// Whether it may take a lock.
    pub fn takes_lock(&self) -> bool {
        matches!(self.undo, Undo::Lock(_))
    }

    pub fn has_deadline(&self) -> bool {
        self.class != OrderClass::WaitsForLock
    }

    /// The calling thread; None if the end of the program must not end the request, or if the thread is unknown.
    pub fn killable_thread(&self) -> Option<u32> {
        let ends_with_it = !matches!(
            self.class,
            OrderClass::Releases | OrderClass::Closes | OrderClass::WritesBack
        );
        (ends_with_it && self.header.pid != 0).then_some(self.header.pid)
    }

    /// Its share of `LATE_HANDLERS_MAX`.
    pub fn weight(&self) -> usize {
        1 + self.payload
    }
}

fn classify(operation: &Operation) -> (OrderClass, Undo, Option<NodeId>) {
    use OrderClass::{
        Changes, Closes, FillsPages, Observes, Reads, Releases, WaitsForLock, WritesBack,
    };
    let plain = |class| (class, Undo::Nothing, None);
    match operation {
        Operation::Lookup(_) => (Reads, Undo::Entry, None),
        Operation::Read(read) if !read.is_direct() => plain(FillsPages),
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
            plain(Releases)
        }
        Operation::Setlk(lock) => (Changes, Undo::Lock(*lock), None),
        Operation::Setlkw(lock) => (WaitsForLock, Undo::Lock(*lock), None),
        Operation::Flush(_) => plain(Closes),
        Operation::Release(_) | Operation::Releasedir(_) => plain(Releases),
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
        | Operation::Unsupported(_) => plain(Observes),
    }
}
