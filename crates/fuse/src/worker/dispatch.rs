//! Calls the method of the file system for an operation.

use std::sync::Arc;

use tracing::debug;

use super::{ReplyFuture, Responder, Worker};
use crate::buffer::{Buffer, Payload};
use crate::notify::RETRIEVED;
use crate::op;
use crate::pending::RequestOrder;
use crate::reply::{IntoReply, Number32, Number64, Reply};
use crate::request::{Operation, Request};
use crate::transport::ring::EntryRef;
use crate::wire::RequestHeader;
use crate::{Call, Errno, FileSystem, Unique};

/// The memory that contains a request's bytes.
pub(super) enum MessageSource {
    Device(Buffer),
    Ring {
        entry: EntryRef,
        /// Offset of the data bytes in the ring entry's payload.
        payload_start: usize,
        /// Few ring entries are left: this request should not wait long.
        crowded: bool,
    },
}

impl<F: FileSystem> Worker<F> {
    /// Starts the method for `request`; returns the buffer unless the request keeps it.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        header: RequestHeader,
        request: Request,
        source: MessageSource,
    ) -> Option<Buffer> {
        let Request { groups, operation } = request;
        let unique = header.unique;
        let (buffer, entry, payload_start, crowded) = match source {
            MessageSource::Device(buffer) => (Some(buffer), None, 0, false),
            MessageSource::Ring {
                entry,
                payload_start,
                crowded,
            } => (None, Some(entry), payload_start, crowded),
        };
        let order = RequestOrder::of(&header, &operation);
        let replies_early = self.context.call_context.pending.may_reply_early();
        // A reply that may be sent before the handler is done needs the ring entry's payload for itself, so the handler cannot
        // have it.
        let lendable = entry.clone().filter(|_| !replies_early);
        let mut call = Call::new(&header, groups, self.context.call_context.clone(), lendable);
        let payload = |buffer: Option<Buffer>, entry: &Option<EntryRef>, size| match buffer {
            Some(buffer) => Payload::new(buffer, size, self.context.call_context.pool.clone()),
            None => {
                let ring_payload = entry.as_ref().and_then(EntryRef::take_payload);
                let ring_payload = ring_payload.expect("the payload of a new request is not taken");
                let payload = Payload::in_entry(ring_payload, payload_start, size);
                match replies_early {
                    true => payload.copied(self.context.call_context.pool.clone()),
                    false => payload,
                }
            }
        };
        let (worker, body_max) = (self.clone(), operation.reply_body_max());
        let responder = |entry| Responder::new(self.context.clone(), unique, entry, body_max);

        // Each future is only as large as its own method needs, and owns the `Worker` that the method borrows from.
        macro_rules! handler {
            ($method:ident, $op:expr) => {
                handler!($method, $op, |reply| reply)
            };
            ($method:ident, $op:expr, |$reply:ident| $finish:expr) => {{
                let op = $op;
                Box::pin(async move {
                    let $reply = worker.fs.$method(call, op).await;
                    $finish.into_reply()
                }) as ReplyFuture
            }};
        }

        let handler = match operation {
            Operation::Lookup(op) => handler!(lookup, op),
            Operation::Getattr(op) => handler!(getattr, op),
            Operation::Setattr(op) => handler!(setattr, op),
            Operation::Readlink => handler!(readlink, ()),
            Operation::Symlink(op) => handler!(symlink, op),
            Operation::Mknod(op) => handler!(mknod, op),
            Operation::Mkdir(op) => handler!(mkdir, op),
            Operation::Unlink(op) => handler!(unlink, op),
            Operation::Rmdir(op) => handler!(rmdir, op),
            Operation::Rename(op) => handler!(rename, op),
            Operation::Link(op) => handler!(link, op),
            Operation::Open(op) => handler!(open, op),
            Operation::Create(op) => handler!(create, op),
            Operation::Tmpfile(op) => handler!(tmpfile, op),
            Operation::Read(op) => handler!(read, op),
            Operation::Write(head) => {
                let payload = payload(buffer, &entry, head.size);
                let handler = handler!(write, head.with(payload), |reply| reply.map(Number32));
                self.run_handler(order, responder(entry), handler);
                return None;
            }
            Operation::Flush(op) => handler!(flush, op),
            Operation::Release(op) => handler!(release, op),
            Operation::Fsync(op) => handler!(fsync, op),
            Operation::Opendir(op) => handler!(opendir, op),
            Operation::Readdir(op) => handler!(readdir, op),
            Operation::Readdirplus(op) => handler!(readdirplus, op),
            Operation::Releasedir(op) => handler!(releasedir, op),
            Operation::Fsyncdir(op) => handler!(fsyncdir, op),
            Operation::Statfs => handler!(statfs, ()),
            Operation::Syncfs => handler!(syncfs, ()),
            Operation::Setxattr(op) => handler!(setxattr, op),
            Operation::Getxattr(op) => handler!(getxattr, op),
            Operation::Listxattr(op) => handler!(listxattr, op),
            Operation::Removexattr(op) => handler!(removexattr, op),
            Operation::Getlk(op) => handler!(getlk, op),
            Operation::Setlk(op) => handler!(setlk, op),
            // A request that waits for a lock occupies its ring entry; some entries must stay free for the requests that
            // release such locks.
            Operation::Setlkw(op) if crowded && op.lock.kind != op::LockKind::Unlock => {
                responder(entry).reply(Reply::error(Errno::ENOLCK));
                return buffer;
            }
            Operation::Setlkw(op) => handler!(setlkw, op),
            Operation::Access(op) => handler!(access, op),
            Operation::Fallocate(op) => handler!(fallocate, op),
            Operation::Lseek(op) => handler!(lseek, op, |reply| reply.map(Number64)),
            Operation::CopyFileRange(op) => handler!(copy_file_range, op, |reply| {
                // The copied length is at most the requested length, which has 32 bits.
                reply.map(|copied| Number32(copied.min(u64::from(u32::MAX)) as u32))
            }),
            Operation::CopyFileRange64(op) => {
                handler!(copy_file_range, op, |reply| reply.map(Number64))
            }
            Operation::Bmap(op) => handler!(bmap, op, |reply| reply.map(Number64)),
            Operation::Ioctl(op) => handler!(ioctl, op),
            Operation::Poll(op) => handler!(poll, op, |reply| reply.map(Number32)),
            Operation::Statx(op) => handler!(statx, op),
            Operation::Forget(batch) => {
                return_ring_entry(entry, unique);
                let task = Box::pin(async move { worker.fs.forget(batch).await });
                self.run_unanswered(unique, task);
                return buffer;
            }
            Operation::Retrieved(head) => {
                let data = payload(buffer, &entry, head.size);
                let op = op::Retrieved {
                    offset: head.offset,
                    data,
                };
                return_ring_entry(entry, unique);
                call.unique.0 &= !RETRIEVED;
                let task = Box::pin(async move { worker.fs.retrieved(call, op).await });
                self.run_unanswered(unique, task);
                return None;
            }
            Operation::Interrupt(target) => {
                self.context.call_context.pending.interrupt(target);
                return_ring_entry(entry, unique);
                return buffer;
            }
            Operation::Destroy => {
                responder(entry).reply(Reply::empty());
                return buffer;
            }
            Operation::Unsupported(opcode) => {
                debug!(opcode, "unsupported operation; replying ENOSYS");
                responder(entry).reply(Reply::error(Errno::ENOSYS));
                return buffer;
            }
        };
        self.run_handler(order, responder(entry), handler);
        buffer
    }
}

/// A message without a reply returns its ring entry to the kernel with an empty reply.
fn return_ring_entry(entry: Option<EntryRef>, unique: Unique) {
    if let Some(entry) = entry {
        entry.reply(unique, Reply::empty());
    }
}
