//! Calls the method of the file system for an operation.

use std::sync::Arc;

use tracing::debug;

use super::request_memory::RequestMemory;
use super::{HandlerTask, ReplyFuture, Worker};
use crate::buffer::Buffer;
use crate::notify::RETRIEVED;
use crate::op::{self, LockKind};
use crate::pending::RequestOrder;
use crate::reply::{IntoReply, Number32, Number64, Reply};
use crate::request::{Operation, Request};
use crate::responder::{Responder, reply_through_entry};
use crate::transport::ring::EntryRef;
use crate::wire::RequestHeader;
use crate::{Call, Errno, FileSystem, Unique};

/// What is left to do for a request.
enum Work {
    /// Poll a handler, whose result is the reply.
    Handler(ReplyFuture),
    /// Poll a handler whose request has no reply.
    Task(HandlerTask),
    /// Send a reply: the file system does not see the request.
    Reply(Result<(), Errno>),
    /// Nothing: the request has no reply.
    Done,
}

/// The handler that calls a method and converts its result to a reply. A macro, because each future is then only as large as its
/// own method needs.
macro_rules! handler {
    ($method:expr) => {
        Work::Handler(Box::pin(async move { $method.await.into_reply() }))
    };
    ($method:expr, $number:expr) => {
        Work::Handler(Box::pin(
            async move { $method.await.map($number).into_reply() },
        ))
    };
}

impl<F: FileSystem> Worker<F> {
    /// Starts the method for `request`; returns the buffer unless the request keeps it.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        header: RequestHeader,
        request: Request,
        mut memory: RequestMemory,
    ) -> Option<Buffer> {
        tracing::trace!(target: "walk", file = file!(), "dispatch");
        let Request { groups, operation } = request;
        let unique = header.unique;
        let order = RequestOrder::of(&header, &operation);
        let body_max = operation.reply_body_max();
        let entry = memory.lend_entry(&self.call_context);
        let call = Call::new(&header, groups, self.call_context.clone(), entry);
        let work = self.work_of(operation, call, &mut memory);
        let (buffer, entry) = memory.into_parts();
        let responder = |entry| Responder::new(self.writer.clone(), unique, entry, body_max);
        match work {
            Work::Handler(handler) => self.run_handler(order, responder(entry), handler),
            Work::Reply(result) => responder(entry).reply(result.into_reply()),
            Work::Task(task) => {
                return_ring_entry(entry, unique);
                self.run_unanswered(unique, task);
            }
            Work::Done => return_ring_entry(entry, unique),
        }
        buffer
    }

    /// The method of the file system for `operation`, called with its arguments and not yet polled.
    fn work_of(&self, operation: Operation, mut call: Call, memory: &mut RequestMemory) -> Work {
        let (fs, context) = (self.fs.clone(), &*self.call_context);
        match operation {
            Operation::Lookup(op) => handler!(fs.lookup(call, op)),
            Operation::Getattr(op) => handler!(fs.getattr(call, op)),
            Operation::Setattr(op) => handler!(fs.setattr(call, op)),
            Operation::Readlink => handler!(fs.readlink(call, ())),
            Operation::Symlink(op) => handler!(fs.symlink(call, op)),
            Operation::Mknod(op) => handler!(fs.mknod(call, op)),
            Operation::Mkdir(op) => handler!(fs.mkdir(call, op)),
            Operation::Unlink(op) => handler!(fs.unlink(call, op)),
            Operation::Rmdir(op) => handler!(fs.rmdir(call, op)),
            Operation::Rename(op) => handler!(fs.rename(call, op)),
            Operation::Link(op) => handler!(fs.link(call, op)),
            Operation::Open(op) => handler!(fs.open(call, op)),
            Operation::Create(op) => handler!(fs.create(call, op)),
            Operation::Tmpfile(op) => handler!(fs.tmpfile(call, op)),
            Operation::Read(op) => handler!(fs.read(call, op)),
            Operation::Write(head) => {
                let data = memory.take_payload(head.size, context);
                let op = head.with(data);
                handler!(fs.write(call, op), Number32)
            }
            Operation::Flush(op) => handler!(fs.flush(call, op)),
            Operation::Release(op) => handler!(fs.release(call, op)),
            Operation::Fsync(op) => handler!(fs.fsync(call, op)),
            Operation::Opendir(op) => handler!(fs.opendir(call, op)),
            Operation::Readdir(op) => handler!(fs.readdir(call, op)),
            Operation::Readdirplus(op) => handler!(fs.readdirplus(call, op)),
            Operation::Releasedir(op) => handler!(fs.releasedir(call, op)),
            Operation::Fsyncdir(op) => handler!(fs.fsyncdir(call, op)),
            Operation::Statfs => handler!(fs.statfs(call, ())),
            Operation::Syncfs => handler!(fs.syncfs(call, ())),
            Operation::Setxattr(op) => handler!(fs.setxattr(call, op)),
            Operation::Getxattr(op) => handler!(fs.getxattr(call, op)),
            Operation::Listxattr(op) => handler!(fs.listxattr(call, op)),
            Operation::Removexattr(op) => handler!(fs.removexattr(call, op)),
            Operation::Getlk(op) => handler!(fs.getlk(call, op)),
            Operation::Setlk(op) => handler!(fs.setlk(call, op)),
            // A request that waits for a lock occupies its ring entry; some entries must stay free for the requests that
            // release such locks.
            Operation::Setlkw(op) if memory.is_crowded() && op.lock.kind != LockKind::Unlock => {
                Work::Reply(Err(Errno::ENOLCK))
            }
            Operation::Setlkw(op) => handler!(fs.setlkw(call, op)),
            Operation::Access(op) => handler!(fs.access(call, op)),
            Operation::Fallocate(op) => handler!(fs.fallocate(call, op)),
            Operation::Lseek(op) => handler!(fs.lseek(call, op), Number64),
            Operation::CopyFileRange(op) => Work::Handler(Box::pin(async move {
                let copied = fs.copy_file_range(call, op).await;
                // The copied length is at most the requested length, which has 32 bits.
                let copied = copied.map(|copied| copied.min(u64::from(u32::MAX)) as u32);
                copied.map(Number32).into_reply()
            })),
            Operation::CopyFileRange64(op) => handler!(fs.copy_file_range(call, op), Number64),
            Operation::Bmap(op) => handler!(fs.bmap(call, op), Number64),
            Operation::Ioctl(op) => handler!(fs.ioctl(call, op)),
            Operation::Poll(op) => handler!(fs.poll(call, op), Number32),
            Operation::Statx(op) => handler!(fs.statx(call, op)),
            Operation::Forget(batch) => Work::Task(Box::pin(async move { fs.forget(batch).await })),
            Operation::Retrieved(head) => {
                let op = op::Retrieved {
                    offset: head.offset,
                    data: memory.take_payload(head.size, context),
                };
                call.unique.0 &= !RETRIEVED;
                Work::Task(Box::pin(async move { fs.retrieved(call, op).await }))
            }
            Operation::Interrupt(target) => {
                context.pending.interrupt(target);
                Work::Done
            }
            Operation::Destroy => Work::Reply(Ok(())),
            Operation::Unsupported(opcode) => {
                debug!(opcode, "unsupported operation; replying ENOSYS");
                Work::Reply(Err(Errno::ENOSYS))
            }
        }
    }
}

/// A message without a reply returns its ring entry to the kernel with an empty reply.
fn return_ring_entry(entry: Option<EntryRef>, unique: Unique) {
    if let Some(entry) = entry {
        reply_through_entry(entry, unique, Reply::empty());
    }
}
