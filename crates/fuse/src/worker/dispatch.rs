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
    fn work_of(
        self: &Arc<Self>,
        operation: Operation,
        mut call: Call,
        memory: &mut RequestMemory,
    ) -> Work {
        // Not the file system's count of references, which all workers share.
        let (worker, context) = (self.clone(), &*self.call_context);
        match operation {
            Operation::Lookup(op) => handler!(worker.fs.lookup(call, op)),
            Operation::Getattr(op) => handler!(worker.fs.getattr(call, op)),
            Operation::Setattr(op) => handler!(worker.fs.setattr(call, op)),
            Operation::Readlink => handler!(worker.fs.readlink(call, ())),
            Operation::Symlink(op) => handler!(worker.fs.symlink(call, op)),
            Operation::Mknod(op) => handler!(worker.fs.mknod(call, op)),
            Operation::Mkdir(op) => handler!(worker.fs.mkdir(call, op)),
            Operation::Unlink(op) => handler!(worker.fs.unlink(call, op)),
            Operation::Rmdir(op) => handler!(worker.fs.rmdir(call, op)),
            Operation::Rename(op) => handler!(worker.fs.rename(call, op)),
            Operation::Link(op) => handler!(worker.fs.link(call, op)),
            Operation::Open(op) => handler!(worker.fs.open(call, op)),
            Operation::Create(op) => handler!(worker.fs.create(call, op)),
            Operation::Tmpfile(op) => handler!(worker.fs.tmpfile(call, op)),
            Operation::Read(op) => handler!(worker.fs.read(call, op)),
            Operation::Write(head) => {
                let data = memory.take_payload(head.size, context);
                let op = head.with(data);
                handler!(worker.fs.write(call, op), Number32)
            }
            Operation::Flush(op) => handler!(worker.fs.flush(call, op)),
            Operation::Release(op) => handler!(worker.fs.release(call, op)),
            Operation::Fsync(op) => handler!(worker.fs.fsync(call, op)),
            Operation::Opendir(op) => handler!(worker.fs.opendir(call, op)),
            Operation::Readdir(op) => handler!(worker.fs.readdir(call, op)),
            Operation::Readdirplus(op) => handler!(worker.fs.readdirplus(call, op)),
            Operation::Releasedir(op) => handler!(worker.fs.releasedir(call, op)),
            Operation::Fsyncdir(op) => handler!(worker.fs.fsyncdir(call, op)),
            Operation::Statfs => handler!(worker.fs.statfs(call, ())),
            Operation::Syncfs => handler!(worker.fs.syncfs(call, ())),
            Operation::Setxattr(op) => handler!(worker.fs.setxattr(call, op)),
            Operation::Getxattr(op) => handler!(worker.fs.getxattr(call, op)),
            Operation::Listxattr(op) => handler!(worker.fs.listxattr(call, op)),
            Operation::Removexattr(op) => handler!(worker.fs.removexattr(call, op)),
            Operation::Getlk(op) => handler!(worker.fs.getlk(call, op)),
            Operation::Setlk(op) => handler!(worker.fs.setlk(call, op)),
            // A request that waits for a lock occupies its ring entry; some entries must stay free for the requests that
            // release such locks.
            Operation::Setlkw(op) if memory.is_crowded() && op.lock.kind != LockKind::Unlock => {
                Work::Reply(Err(Errno::ENOLCK))
            }
            Operation::Setlkw(op) => handler!(worker.fs.setlkw(call, op)),
            Operation::Access(op) => handler!(worker.fs.access(call, op)),
            Operation::Fallocate(op) => handler!(worker.fs.fallocate(call, op)),
            Operation::Lseek(op) => handler!(worker.fs.lseek(call, op), Number64),
            Operation::CopyFileRange(op) => Work::Handler(Box::pin(async move {
                let copied = worker.fs.copy_file_range(call, op).await;
                // The copied length is at most the requested length, which has 32 bits.
                let copied = copied.map(|copied| copied.min(u64::from(u32::MAX)) as u32);
                copied.map(Number32).into_reply()
            })),
            Operation::CopyFileRange64(op) => {
                handler!(worker.fs.copy_file_range(call, op), Number64)
            }
            Operation::Bmap(op) => handler!(worker.fs.bmap(call, op), Number64),
            Operation::Ioctl(op) => handler!(worker.fs.ioctl(call, op)),
            Operation::Poll(op) => handler!(worker.fs.poll(call, op), Number32),
            Operation::Statx(op) => handler!(worker.fs.statx(call, op)),
            Operation::Forget(batch) => {
                Work::Task(Box::pin(async move { worker.fs.forget(batch).await }))
            }
            Operation::Retrieved(head) => {
                let op = op::Retrieved {
                    offset: head.offset,
                    data: memory.take_payload(head.size, context),
                };
                call.unique.0 &= !RETRIEVED;
                Work::Task(Box::pin(async move { worker.fs.retrieved(call, op).await }))
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
