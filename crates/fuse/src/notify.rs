//! # notify: telling the kernel what it may no longer believe
//!
//! Owns   the notifications of the protocol, one write each.
//! Never  runs by itself: each call blocks its thread until the kernel has done it.
//! Enter  at `Notifier`.
//!
//! A notification may wait for a lock that an unanswered request of this mount holds (a page that is being read, the
//! directory in which something is being created). Never call one that waits from the task that is to answer that
//! request, nor from a reactor: that is a mistake that panics, because another reactor may not be there to answer.

use std::io::IoSlice;
use std::sync::Arc;

use thiserror::Error;

use crate::lane::on_reactor;
use crate::limits::OUT_HEADER;
use crate::transport::Device;
use crate::wire::Put;
use crate::{Errno, NodeId, Unique};

/// Marks what was asked for by `retrieve`: the kernel counts its own requests up from 2.
pub(crate) const RETRIEVED: u64 = 1 << 62;

/// Why the kernel did not do what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// ENOENT: it does not have the node, the name or the request. A LOOKUP reply that was accepted a moment ago may
    /// still be on its way into the kernel's tables.
    #[error("the kernel does not know it")]
    Unknown,
    /// EBUSY: something is mounted there.
    #[error("a mount is in the way")]
    Busy,
    /// ENOTEMPTY: a directory that the kernel still has names of.
    #[error("the directory is not empty")]
    NotEmpty,
    /// ENOTDIR: the parent is no directory.
    #[error("not a directory")]
    NotDirectory,
    /// EINVAL, ENOSYS: this kernel does not have the notification, or the flag for it was not agreed on.
    #[error("the kernel does not support it")]
    Unsupported,
    /// ENODEV, ECONNABORTED, EPERM of a closed connection. After an abort or an unmount notifications are accepted, or
    /// `Unknown`, all the same.
    #[error("the mount is gone")]
    Gone,
    #[error("the kernel refused: {0}")]
    Other(Errno),
}

impl From<Errno> for NotifyError {
    fn from(errno: Errno) -> NotifyError {
        match errno {
            Errno::ENOENT => NotifyError::Unknown,
            Errno::EBUSY => NotifyError::Busy,
            Errno::ENOTEMPTY => NotifyError::NotEmpty,
            Errno::ENOTDIR => NotifyError::NotDirectory,
            Errno::EINVAL | Errno::ENOSYS => NotifyError::Unsupported,
            Errno::ENODEV | Errno::ECONNABORTED | Errno::EPERM => NotifyError::Gone,
            other => NotifyError::Other(other),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Poll = 1,
    InvalInode = 2,
    InvalEntry = 3,
    Store = 4,
    Retrieve = 5,
    Delete = 6,
    Resend = 7,
    IncEpoch = 8,
    Prune = 9,
}

/// A handle to the kernel's caches of one mount. Clones are the same handle.
#[derive(Clone)]
pub struct Notifier {
    device: Arc<Device>,
}

type Told = Result<(), NotifyError>;

impl Notifier {
    pub(crate) fn new(device: Device) -> Notifier {
        Notifier {
            device: Arc::new(device),
        }
    }

    /// For notifications that may wait for a lock of the kernel's.
    fn tell_and_wait(&self, kind: Kind, body: &[u8], data: &[u8]) -> Told {
        assert!(
            !on_reactor(),
            "{kind:?} may wait for a request that this reactor is to answer"
        );
        self.tell(kind, body, data)
    }

    fn tell(&self, kind: Kind, body: &[u8], data: &[u8]) -> Told {
        let mut head = Vec::with_capacity(OUT_HEADER);
        let length = OUT_HEADER + body.len() + data.len();
        head.put_u32(u32::try_from(length).map_err(|_| NotifyError::Other(Errno::E2BIG))?);
        head.put_i32(kind as i32);
        head.put_u64(0);
        let pieces = [IoSlice::new(&head), IoSlice::new(body), IoSlice::new(data)];
        Ok(self.device.write(&pieces)?)
    }

    /// Drop the attributes of `node`, and its cached pages from `offset` on: `length` bytes, all if it is 0, none if
    /// `offset` is negative. Waits for pages that are being read.
    pub fn inval_inode(&self, node: NodeId, offset: i64, length: i64) -> Told {
        let mut body = Vec::with_capacity(24);
        body.put_u64(node.0);
        body.put_i64(offset);
        body.put_i64(length);
        self.tell_and_wait(Kind::InvalInode, &body, &[])
    }

    /// Drop the attributes of `node` and none of its pages. Waits for no lock that a request of this mount holds: also the
    /// task that is to answer a change of the node may call it, before it answers.
    pub fn inval_attributes(&self, node: NodeId) -> Told {
        let mut body = Vec::with_capacity(24);
        body.put_u64(node.0);
        body.put_i64(-1);
        body.put_i64(0);
        self.tell(Kind::InvalInode, &body, &[])
    }

    /// Drop a name. Waits for the lock of the directory.
    pub fn inval_entry(&self, parent: NodeId, name: &[u8]) -> Told {
        let mut body = Vec::with_capacity(16 + name.len() + 1);
        body.put_u64(parent.0);
        body.put_u32(length(name)?);
        body.put_u32(0);
        body.put(name);
        body.put_zeros(1);
        self.tell_and_wait(Kind::InvalEntry, &body, &[])
    }

    /// Drop a name because `child` is gone: programs that watch are told, and open files count as unlinked.
    pub fn delete(&self, parent: NodeId, child: NodeId, name: &[u8]) -> Told {
        let mut body = Vec::with_capacity(24 + name.len() + 1);
        body.put_u64(parent.0);
        body.put_u64(child.0);
        body.put_u32(length(name)?);
        body.put_u32(0);
        body.put(name);
        body.put_zeros(1);
        self.tell_and_wait(Kind::Delete, &body, &[])
    }

    /// Put bytes into the page cache.
    pub fn store(&self, node: NodeId, offset: u64, data: &[u8]) -> Told {
        let mut body = Vec::with_capacity(24);
        body.put_u64(node.0);
        body.put_u64(offset);
        body.put_u32(length(data)?);
        body.put_u32(0);
        self.tell_and_wait(Kind::Store, &body, data)
    }

    /// Ask for bytes from the page cache; they come to `FileSystem::retrieved` under the same `unique`, which is below
    /// 2⁶².
    pub fn retrieve(&self, unique: Unique, node: NodeId, offset: u64, size: u32) -> Told {
        let mut body = Vec::with_capacity(32);
        // Over a ring the kernel finds requests by their number: this must be none of its own.
        body.put_u64(unique.0 | RETRIEVED);
        body.put_u64(node.0);
        body.put_u64(offset);
        body.put_u32(size);
        body.put_u32(0);
        self.tell_and_wait(Kind::Retrieve, &body, &[])
    }

    /// Something happened that the poll with this handle waits for.
    pub fn poll(&self, kh: u64) -> Told {
        self.tell(Kind::Poll, &kh.to_ne_bytes(), &[])
    }

    /// Every name of the mount is to be looked up again. Waits for no lock. Not for attributes, not for pages; and
    /// what is mounted below on the tree is unmounted.
    pub fn inc_epoch(&self) -> Told {
        self.tell(Kind::IncEpoch, &[], &[])
    }

    /// Forget these nodes if nobody uses them.
    pub fn prune(&self, nodes: &[NodeId]) -> Told {
        let mut body = Vec::with_capacity(16 + 8 * nodes.len());
        body.put_u32(u32::try_from(nodes.len()).map_err(|_| NotifyError::Other(Errno::E2BIG))?);
        body.put_zeros(12);
        nodes.iter().for_each(|node| body.put_u64(node.0));
        self.tell_and_wait(Kind::Prune, &body, &[])
    }

    /// Send everything again that was read and not answered. The uniques have `is_resent` set.
    pub fn resend(&self) -> Told {
        self.tell(Kind::Resend, &[], &[])
    }
}

fn length(bytes: &[u8]) -> Result<u32, NotifyError> {
    u32::try_from(bytes.len()).map_err(|_| NotifyError::Other(Errno::E2BIG))
}
