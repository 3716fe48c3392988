//! From what is asked for to the method that answers it.

use std::sync::Arc;

use tracing::debug;

use super::{Lane, Task};
use crate::answer::{Answer, Number32, Number64};
use crate::buffer::{Buffer, Payload};
use crate::lane::ticket::Ticket;
use crate::notify::RETRIEVED;
use crate::op;
use crate::request::{Operation, Request};
use crate::transport::ring::Hold;
use crate::wire::Header;
use crate::{Call, Errno, FileSystem, Unique};

/// Where a request's bytes lie.
pub(super) enum Source {
    Device(Buffer),
    Ring {
        hold: Hold,
        /// Where in its payload the bytes lie that are handed over.
        begins: usize,
        /// It should not wait long.
        crowded: bool,
    },
}

impl<F: FileSystem> Lane<F> {
    /// Starts the method that answers `request`; returns the buffer unless it went with the request.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        header: Header,
        request: Request,
        source: Source,
    ) -> Option<Buffer> {
        let Request { groups, operation } = request;
        let unique = header.unique;
        let (buffer, hold, begins, crowded) = match source {
            Source::Device(buffer) => (Some(buffer), None, 0, false),
            Source::Ring {
                hold,
                begins,
                crowded,
            } => (None, Some(hold), begins, crowded),
        };
        let mut call = Call::new(&header, groups, self.desk.kit.clone(), hold.clone());
        let payload = |buffer: Option<Buffer>, hold: &Option<Hold>, size| match buffer {
            Some(buffer) => Payload::new(buffer, size, self.desk.kit.pool.clone()),
            None => {
                let lent = hold.as_ref().and_then(Hold::lend);
                let lent = lent.expect("nothing was lent of a new request");
                Payload::lent(lent, begins, size)
            }
        };
        let (lane, room) = (self.clone(), operation.answer_room());
        let ticket = move |lane: &Lane<F>, hold| Ticket::new(lane.desk.clone(), unique, hold, room);

        // Each future is as large as its own method needs, and owns the lane that its method borrows from.
        macro_rules! task {
            ($method:ident, $op:expr) => {
                task!($method, $op, |ticket, answer| ticket.answer(answer))
            };
            ($method:ident, $op:expr, |$ticket:ident, $answer:ident| $finish:expr) => {{
                let op = $op;
                Box::pin(async move {
                    let $ticket = ticket(&lane, hold);
                    let $answer = lane.fs.$method(call, op).await;
                    $finish
                }) as Task
            }};
        }

        let task = match operation {
            Operation::Lookup(op) => task!(lookup, op),
            Operation::Getattr(op) => task!(getattr, op),
            Operation::Setattr(op) => task!(setattr, op),
            Operation::Readlink => task!(readlink, ()),
            Operation::Symlink(op) => task!(symlink, op),
            Operation::Mknod(op) => task!(mknod, op),
            Operation::Mkdir(op) => task!(mkdir, op),
            Operation::Unlink(op) => task!(unlink, op),
            Operation::Rmdir(op) => task!(rmdir, op),
            Operation::Rename(op) => task!(rename, op),
            Operation::Link(op) => task!(link, op),
            Operation::Open(op) => task!(open, op),
            Operation::Create(op) => task!(create, op),
            Operation::Tmpfile(op) => task!(tmpfile, op),
            Operation::Read(op) => task!(read, op),
            Operation::Write(head) => {
                let payload = payload(buffer, &hold, head.size);
                let task = task!(write, head.with(payload), |ticket, answer| ticket
                    .answer(answer.map(Number32)));
                self.drive(unique, task);
                return None;
            }
            Operation::Flush(op) => task!(flush, op),
            Operation::Release(op) => task!(release, op),
            Operation::Fsync(op) => task!(fsync, op),
            Operation::Opendir(op) => task!(opendir, op),
            Operation::Readdir(op) => task!(readdir, op),
            Operation::Readdirplus(op) => task!(readdirplus, op),
            Operation::Releasedir(op) => task!(releasedir, op),
            Operation::Fsyncdir(op) => task!(fsyncdir, op),
            Operation::Statfs => task!(statfs, ()),
            Operation::Syncfs => task!(syncfs, ()),
            Operation::Setxattr(op) => task!(setxattr, op),
            Operation::Getxattr(op) => task!(getxattr, op),
            Operation::Listxattr(op) => task!(listxattr, op),
            Operation::Removexattr(op) => task!(removexattr, op),
            Operation::Getlk(op) => task!(getlk, op),
            Operation::Setlk(op) => task!(setlk, op),
            // Who waits long keeps its place of the queue: some must be left for those it waits for.
            Operation::Setlkw(op) if crowded && op.lock.kind != op::LockKind::Unlock => {
                ticket(self, hold).answer(Err::<(), _>(Errno::ENOLCK));
                return buffer;
            }
            Operation::Setlkw(op) => task!(setlkw, op),
            Operation::Access(op) => task!(access, op),
            Operation::Fallocate(op) => task!(fallocate, op),
            Operation::Lseek(op) => task!(lseek, op, |ticket, answer| ticket
                .answer(answer.map(Number64))),
            Operation::CopyFileRange(op) => task!(copy_file_range, op, |ticket, answer| {
                // Cannot be more than the length asked for, which has 32 bits.
                ticket
                    .answer(answer.map(|copied| Number32(copied.min(u64::from(u32::MAX)) as u32)));
            }),
            Operation::CopyFileRange64(op) => {
                task!(copy_file_range, op, |ticket, answer| ticket
                    .answer(answer.map(Number64)))
            }
            Operation::Bmap(op) => task!(bmap, op, |ticket, answer| ticket
                .answer(answer.map(Number64))),
            Operation::Ioctl(op) => task!(ioctl, op),
            Operation::Poll(op) => task!(poll, op, |ticket, answer| ticket
                .answer(answer.map(Number32))),
            Operation::Statx(op) => task!(statx, op),
            Operation::Forget(batch) => {
                give_back(hold, unique);
                Box::pin(async move { lane.fs.forget(batch).await })
            }
            Operation::Retrieved(head) => {
                let data = payload(buffer, &hold, head.size);
                let op = op::Retrieved {
                    offset: head.offset,
                    data,
                };
                give_back(hold, unique);
                call.unique.0 &= !RETRIEVED;
                self.drive(
                    unique,
                    Box::pin(async move { lane.fs.retrieved(call, op).await }),
                );
                return None;
            }
            Operation::Interrupt(target) => {
                self.desk.kit.interrupts.interrupt(target);
                give_back(hold, unique);
                return buffer;
            }
            Operation::Destroy => {
                ticket(self, hold).answer(());
                return buffer;
            }
            Operation::Unsupported(opcode) => {
                debug!(opcode, "a request of a kind that is not supported");
                ticket(self, hold).answer(Err::<(), _>(Errno::ENOSYS));
                return buffer;
            }
        };
        self.drive(unique, task);
        buffer
    }
}

/// A message that wants no answer gives its place in a ring back by one.
fn give_back(hold: Option<Hold>, unique: Unique) {
    if let Some(hold) = hold {
        hold.answer(unique, Answer::empty());
    }
}
