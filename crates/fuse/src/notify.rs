//! # notify: invalidates the kernel's caches
//!
//! Owns   the notifications of the protocol, one write each.
//! Never  runs in the background: each call blocks its thread until the kernel has processed it.
//! Enter  at `Notifier`.
//!
//! A notification may wait for a lock that an unfinished request of this mount holds (of a page that is being read, of the
//! directory in which a file is being created). Never send one that may wait from the task that must reply to that request, nor
//! from a worker thread: that panics, because no other worker may be left to send the reply.

use std::io::IoSlice;
use std::sync::Arc;

use thiserror::Error;

use crate::limits::OUT_HEADER;
use crate::transport::Device;
use crate::wire::Put;
use crate::worker_thread::on_worker_thread;
use crate::{Errno, NodeId, Unique};

/// Marks the unique numbers of `retrieve`: the kernel counts its own requests up from 2.
pub(crate) const RETRIEVED: u64 = 1 << 62;

/// Why the kernel rejected a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// ENOENT: the kernel does not have the node, the name or the request. A LOOKUP reply that it accepted a moment ago may not
    /// be in its tables yet.
    #[error("the kernel does not have this node, name or request")]
    Unknown,
    /// EBUSY: a file system is mounted there.
    #[error("another file system is mounted there")]
    Busy,
    /// ENOTEMPTY: the kernel still caches names of this directory.
    #[error("the directory is not empty")]
    NotEmpty,
    /// ENOTDIR: the parent is no directory.
    #[error("not a directory")]
    NotDirectory,
    /// EINVAL, ENOSYS: this kernel does not have the notification, or its flag was not negotiated.
    #[error("the kernel does not support this notification")]
    Unsupported,
    /// ENODEV, ECONNABORTED, EPERM: the connection is closed. After an abort or an unmount the kernel may also accept a
    /// notification, or report `Unknown`.
    #[error("the mount has ended")]
    Gone,
    #[error("the kernel rejected the notification: {0}")]
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
enum NotifyKind {
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

/// A handle to the kernel's caches of one mount; clones use the same connection.
#[derive(Clone)]
pub struct Notifier {
    device: Arc<Device>,
}

type NotifyResult = Result<(), NotifyError>;

impl Notifier {
    pub(crate) fn new(device: Device) -> Notifier {
        Notifier {
            device: Arc::new(device),
        }
    }

    /// Sends a notification that may wait for a lock in the kernel.
    fn send_that_may_wait(&self, kind: NotifyKind, body: &[u8], data: &[u8]) -> NotifyResult {
        assert!(
            !on_worker_thread(),
            "{kind:?} may wait for a request that this worker thread must reply to"
        );
        self.send(kind, body, data)
    }

    fn send(&self, kind: NotifyKind, body: &[u8], data: &[u8]) -> NotifyResult {
        let mut head = Vec::with_capacity(OUT_HEADER);
        let length = OUT_HEADER + body.len() + data.len();
        head.put_u32(u32::try_from(length).map_err(|_| NotifyError::Other(Errno::E2BIG))?);
        head.put_i32(kind as i32);
        head.put_u64(0);
        let slices = [IoSlice::new(&head), IoSlice::new(body), IoSlice::new(data)];
        Ok(self.device.write(&slices)?)
    }

    /// Invalidates the attributes of `node`, and its cached pages from `offset` on: `length` bytes, all if it is 0, none if
    /// `offset` is negative. Waits for pages that are being read.
    ///
    /// # Errors
    /// `Unknown` if the kernel does not have the node, `Gone` if the connection is closed.
    pub fn inval_inode(&self, node: NodeId, offset: i64, length: i64) -> NotifyResult {
        let mut body = Vec::with_capacity(24);
        body.put_u64(node.0);
        body.put_i64(offset);
        body.put_i64(length);
        self.send_that_may_wait(NotifyKind::InvalInode, &body, &[])
    }

    /// Invalidates the attributes of `node` and none of its pages. Waits for no lock that a request of this mount holds: even
    /// the task that must reply to a change of the node may call it before it replies.
    ///
    /// # Errors
    /// As `inval_inode`.
    pub fn inval_attributes(&self, node: NodeId) -> NotifyResult {
        let mut body = Vec::with_capacity(24);
        body.put_u64(node.0);
        body.put_i64(-1);
        body.put_i64(0);
        self.send(NotifyKind::InvalInode, &body, &[])
    }

    /// Invalidates a dentry. Waits for the lock of the directory.
    ///
    /// # Errors
    /// `Unknown` if the kernel does not have the directory or the name, `NotDirectory`, `Busy` or `NotEmpty` if it keeps the dentry,
    /// `Gone` if the connection is closed.
    pub fn inval_entry(&self, parent: NodeId, name: &[u8]) -> NotifyResult {
        let mut body = Vec::with_capacity(16 + name.len() + 1);
        body.put_u64(parent.0);
        body.put_u32(length(name)?);
        body.put_u32(0);
        body.put(name);
        body.put_zeros(1);
        self.send_that_may_wait(NotifyKind::InvalEntry, &body, &[])
    }

    /// Removes a dentry because `child` was deleted: inotify watchers are notified, and open files count as unlinked.
    ///
    /// # Errors
    /// As `inval_entry`.
    pub fn delete(&self, parent: NodeId, child: NodeId, name: &[u8]) -> NotifyResult {
        let mut body = Vec::with_capacity(24 + name.len() + 1);
        body.put_u64(parent.0);
        body.put_u64(child.0);
        body.put_u32(length(name)?);
        body.put_u32(0);
        body.put(name);
        body.put_zeros(1);
        self.send_that_may_wait(NotifyKind::Delete, &body, &[])
    }

    /// Stores bytes in the page cache.
    ///
    /// # Errors
    /// `Unknown` if the kernel does not have the node, `Other` if it has no memory for the pages, `Gone` if the connection is closed.
    pub fn store(&self, node: NodeId, offset: u64, data: &[u8]) -> NotifyResult {
        let mut body = Vec::with_capacity(24);
        body.put_u64(node.0);
        body.put_u64(offset);
        body.put_u32(length(data)?);
        body.put_u32(0);
        self.send_that_may_wait(NotifyKind::Store, &body, data)
    }

    /// Requests bytes from the page cache; they arrive at `FileSystem::retrieved` under the same `unique`, which must be below
    /// 2⁶².
    ///
    /// # Errors
    /// `Unknown` if the kernel does not have the node, `Gone` if the connection is closed.
    pub fn retrieve(&self, unique: Unique, node: NodeId, offset: u64, size: u32) -> NotifyResult {
        let mut body = Vec::with_capacity(32);
        // Over a ring the kernel finds requests by their number: this must not be a number of its own.
        body.put_u64(unique.0 | RETRIEVED);
        body.put_u64(node.0);
        body.put_u64(offset);
        body.put_u32(size);
        body.put_u32(0);
        self.send_that_may_wait(NotifyKind::Retrieve, &body, &[])
    }

    /// Wakes the poll(2) with this kernel handle.
    ///
    /// # Errors
    /// `Gone` if the connection is closed. A handle that the kernel does not have is no error.
    pub fn poll(&self, kh: u64) -> NotifyResult {
        self.send(NotifyKind::Poll, &kh.to_ne_bytes(), &[])
    }

    /// Expires every dentry of the mount. Waits for no lock. Does not affect attributes or pages. File systems that are mounted
    /// inside the mount are unmounted.
    ///
    /// # Errors
    /// `Unsupported` if this kernel does not have the notification, `Gone` if the connection is closed.
    pub fn inc_epoch(&self) -> NotifyResult {
        self.send(NotifyKind::IncEpoch, &[], &[])
    }

    /// Lets the kernel forget these nodes if they are unused.
    ///
    /// # Errors
    /// `Unsupported` if this kernel does not have the notification, `Gone` if the connection is closed.
    pub fn prune(&self, nodes: &[NodeId]) -> NotifyResult {
        let mut body = Vec::with_capacity(16 + 8 * nodes.len());
        body.put_u32(u32::try_from(nodes.len()).map_err(|_| NotifyError::Other(Errno::E2BIG))?);
        body.put_zeros(12);
        nodes.iter().for_each(|node| body.put_u64(node.0));
        self.send_that_may_wait(NotifyKind::Prune, &body, &[])
    }

    /// Makes the kernel resend every request that was read and not replied to. Their unique numbers satisfy `is_resent`.
    ///
    /// # Errors
    /// `Unsupported` if this kernel does not have the notification, `Gone` if the connection is closed.
    pub fn resend(&self) -> NotifyResult {
        self.send(NotifyKind::Resend, &[], &[])
    }
}

fn length(bytes: &[u8]) -> Result<u32, NotifyError> {
    u32::try_from(bytes.len()).map_err(|_| NotifyError::Other(Errno::E2BIG))
}
