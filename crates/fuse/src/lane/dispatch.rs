//! From what is asked for to the method that answers it.

use std::sync::Arc;

use tracing::debug;

use super::{Lane, Ticket, Work};
use crate::answer::{Answer, IntoAnswer, Number32, Number64};
use crate::buffer::{Buffer, Payload};
use crate::notify::RETRIEVED;
use crate::op;
use crate::request::{Operation, Request};
use crate::transport::ring::Hold;
use crate::waits::Order;
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
        let order = Order::of(&header, &operation);
        let in_time = self.desk.kit.waits.answers_in_time();
        // An answer that may have to be given before the handler is done needs its place for itself.
        let lends = hold.clone().filter(|_| !in_time);
        let mut call = Call::new(&header, groups, self.desk.kit.clone(), lends);
        let payload = |buffer: Option<Buffer>, hold: &Option<Hold>, size| match buffer {
            Some(buffer) => Payload::new(buffer, size, self.desk.kit.pool.clone()),
            None => {
                let lent = hold.as_ref().and_then(Hold::lend);
                let lent = lent.expect("nothing was lent of a new request");
                let payload = Payload::lent(lent, begins, size);
                match in_time {
                    true => payload.copied(self.desk.kit.pool.clone()),
                    false => payload,
                }
            }
        };
        let (lane, room) = (self.clone(), operation.answer_room());
        let ticket = |hold| Ticket::new(self.desk.clone(), unique, hold, room);

        // Each future is as large as its own method needs, and owns the lane that its method borrows from.
        macro_rules! work {
            ($method:ident, $op:expr) => {
                work!($method, $op, |answer| answer)
            };
            ($method:ident, $op:expr, |$answer:ident| $finish:expr) => {{
                let op = $op;
                Box::pin(async move {
                    let $answer = lane.fs.$method(call, op).await;
                    $finish.into_answer()
                }) as Work
            }};
        }

        let work = match operation {
            Operation::Lookup(op) => work!(lookup, op),
            Operation::Getattr(op) => work!(getattr, op),
            Operation::Setattr(op) => work!(setattr, op),
            Operation::Readlink => work!(readlink, ()),
            Operation::Symlink(op) => work!(symlink, op),
            Operation::Mknod(op) => work!(mknod, op),
            Operation::Mkdir(op) => work!(mkdir, op),
            Operation::Unlink(op) => work!(unlink, op),
            Operation::Rmdir(op) => work!(rmdir, op),
            Operation::Rename(op) => work!(rename, op),
            Operation::Link(op) => work!(link, op),
            Operation::Open(op) => work!(open, op),
            Operation::Create(op) => work!(create, op),
            Operation::Tmpfile(op) => work!(tmpfile, op),
            Operation::Read(op) => work!(read, op),
            Operation::Write(head) => {
                let payload = payload(buffer, &hold, head.size);
                let work = work!(write, head.with(payload), |answer| answer.map(Number32));
                self.drive(order, ticket(hold), work);
                return None;
            }
            Operation::Flush(op) => work!(flush, op),
            Operation::Release(op) => work!(release, op),
            Operation::Fsync(op) => work!(fsync, op),
            Operation::Opendir(op) => work!(opendir, op),
            Operation::Readdir(op) => work!(readdir, op),
            Operation::Readdirplus(op) => work!(readdirplus, op),
            Operation::Releasedir(op) => work!(releasedir, op),
            Operation::Fsyncdir(op) => work!(fsyncdir, op),
            Operation::Statfs => work!(statfs, ()),
            Operation::Syncfs => work!(syncfs, ()),
            Operation::Setxattr(op) => work!(setxattr, op),
            Operation::Getxattr(op) => work!(getxattr, op),
            Operation::Listxattr(op) => work!(listxattr, op),
            Operation::Removexattr(op) => work!(removexattr, op),
            Operation::Getlk(op) => work!(getlk, op),
            Operation::Setlk(op) => work!(setlk, op),
            // Who waits long keeps its place of the queue: some must be left for those it waits for.
            Operation::Setlkw(op) if crowded && op.lock.kind != op::LockKind::Unlock => {
                ticket(hold).answer(Answer::error(Errno::ENOLCK));
                return buffer;
            }
            Operation::Setlkw(op) => work!(setlkw, op),
            Operation::Access(op) => work!(access, op),
            Operation::Fallocate(op) => work!(fallocate, op),
            Operation::Lseek(op) => work!(lseek, op, |answer| answer.map(Number64)),
            Operation::CopyFileRange(op) => work!(copy_file_range, op, |answer| {
                // Cannot be more than the length asked for, which has 32 bits.
                answer.map(|copied| Number32(copied.min(u64::from(u32::MAX)) as u32))
            }),
            Operation::CopyFileRange64(op) => {
                work!(copy_file_range, op, |answer| answer.map(Number64))
            }
            Operation::Bmap(op) => work!(bmap, op, |answer| answer.map(Number64)),
            Operation::Ioctl(op) => work!(ioctl, op),
            Operation::Poll(op) => work!(poll, op, |answer| answer.map(Number32)),
            Operation::Statx(op) => work!(statx, op),
            Operation::Forget(batch) => {
                give_back(hold, unique);
                let task = Box::pin(async move { lane.fs.forget(batch).await });
                self.drive_unanswered(unique, task);
                return buffer;
            }
            Operation::Retrieved(head) => {
                let data = payload(buffer, &hold, head.size);
                let op = op::Retrieved {
                    offset: head.offset,
                    data,
                };
                give_back(hold, unique);
                call.unique.0 &= !RETRIEVED;
                let task = Box::pin(async move { lane.fs.retrieved(call, op).await });
                self.drive_unanswered(unique, task);
                return None;
            }
            Operation::Interrupt(target) => {
                self.desk.kit.waits.interrupt(target);
                give_back(hold, unique);
                return buffer;
            }
            Operation::Destroy => {
                ticket(hold).answer(Answer::empty());
                return buffer;
            }
            Operation::Unsupported(opcode) => {
                debug!(opcode, "a request of a kind that is not supported");
                ticket(hold).answer(Answer::error(Errno::ENOSYS));
                return buffer;
            }
        };
        self.drive(order, ticket(hold), work);
        buffer
    }
}

/// A message that wants no answer gives its place in a ring back by one.
fn give_back(hold: Option<Hold>, unique: Unique) {
    if let Some(hold) = hold {
        hold.answer(unique, Answer::empty());
    }
}
