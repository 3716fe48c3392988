//! Tests without a kernel: replies go into a socket.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::*;
use crate::op;
use crate::request::Operation;
use crate::responder::ReplyWriter;
use crate::transport::Device;
use crate::wire::{FsyncFlags, RequestHeader};
use crate::{Errno, FileHandle, NodeId};

/// Pending requests, and a socket that receives their replies.
struct Fixture {
    pending: Arc<PendingRequests>,
    writer: Arc<ReplyWriter>,
    kernel: std::os::fd::OwnedFd,
}

impl Fixture {
    fn new(deadlines: Option<ReplyDeadlines>) -> Fixture {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let pending = Arc::new(PendingRequests::new(deadlines));
        let writer = ReplyWriter::new(Arc::new(Device::of(ours)));
        Fixture {
            pending,
            writer: Arc::new(writer),
            kernel,
        }
    }

    fn responder(&self, unique: u64) -> Responder {
        Responder::new(self.writer.clone(), Unique(unique), None, usize::MAX)
    }

    fn enter(&self, unique: u64) -> PendingGuard {
        self.enter_with(order(unique, 1, &Operation::Statfs), true)
    }

    fn enter_with(&self, order: RequestOrder, begun: bool) -> PendingGuard {
        self.pending
            .insert(order, self.responder(order.unique().0), begun)
    }

    /// Error number and unique number of the next reply; waits for it.
    fn next_reply(&self) -> (i32, u64) {
        let mut bytes = [0; 64];
        recv(&self.kernel, &mut bytes, RecvFlags::empty()).unwrap();
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        (-error, u64::from_ne_bytes(bytes[8..16].try_into().unwrap()))
    }
}

fn order(unique: u64, node: u64, operation: &Operation) -> RequestOrder {
    let header = RequestHeader {
        length: 0,
        opcode: 0,
        unique: Unique(unique),
        node: NodeId(node),
        uid: 0,
        gid: 0,
        pid: 0,
        extensions: 0,
    };
    RequestOrder::of(&header, operation)
}

fn fsync() -> Operation {
    Operation::Fsync(op::Fsync {
        fh: FileHandle(1),
        flags: FsyncFlags::empty(),
    })
}

fn release() -> Operation {
    Operation::Release(op::Release {
        fh: FileHandle(1),
        open_flags: 0,
        flags: crate::wire::ReleaseFlags::empty(),
        lock_owner: crate::LockOwner(0),
    })
}

fn deadlines(deadline_ms: u64) -> Option<ReplyDeadlines> {
    Some(ReplyDeadlines {
        deadline: Some(Duration::from_millis(deadline_ms)),
        overdue_errno: Errno::ETIMEDOUT,
        killed_errno: Errno::EINTR,
    })
}

fn poll_begin(waiting: &PendingGuard, count: &Arc<Count>) -> Poll<bool> {
    waiting.poll_begin(&mut Context::from_waker(&Waker::from(count.clone())))
}

struct Count(AtomicUsize);

impl std::task::Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll(future: &mut Interrupted, count: &Arc<Count>) -> bool {
    Pin::new(future)
        .poll(&mut Context::from_waker(&Waker::from(count.clone())))
        .is_ready()
}

fn count() -> Arc<Count> {
    Arc::new(Count(AtomicUsize::new(0)))
}

#[test]
fn an_interrupt_wakes_only_its_request() {
    let fixture = Fixture::new(None);
    let registry = fixture.pending.clone();
    let (one, other) = (count(), count());
    let _waiting = fixture.enter(2);
    let _also = fixture.enter(4);
    let mut first = Interrupted::new(Unique(2), registry.clone());
    let mut second = Interrupted::new(Unique(4), registry.clone());
    assert!(!poll(&mut first, &one) && !poll(&mut second, &other));
    registry.interrupt(Unique(2));
    assert_eq!(
        (
            one.0.load(Ordering::Relaxed),
            other.0.load(Ordering::Relaxed)
        ),
        (1, 0)
    );
    assert!(poll(&mut first, &one) && !poll(&mut second, &other));
    assert!(registry.is_interrupted(Unique(2)) && !registry.is_interrupted(Unique(4)));
}

#[test]
fn an_interrupt_before_its_request_is_registered_is_found_later() {
    let fixture = Fixture::new(None);
    let registry = fixture.pending.clone();
    registry.interrupt(Unique(6));
    let _waiting = fixture.enter(6);
    assert!(poll(
        &mut Interrupted::new(Unique(6), registry.clone()),
        &count()
    ));
}

#[test]
fn a_future_polled_before_its_request_is_registered_is_woken() {
    let fixture = Fixture::new(None);
    let registry = fixture.pending.clone();
    let wakes = count();
    let mut future = Interrupted::new(Unique(8), registry.clone());
    assert!(!poll(&mut future, &wakes));
    let _waiting = fixture.enter(8);
    registry.interrupt(Unique(8));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(poll(&mut future, &wakes));
}

#[test]
fn no_entry_remains_after_the_last_reference() {
    let fixture = Fixture::new(None);
    let registry = fixture.pending.clone();
    let waiting = fixture.enter(10);
    let mut future = Interrupted::new(Unique(10), registry.clone());
    assert!(!poll(&mut future, &count()));
    registry.interrupt(Unique(10));
    drop(waiting);
    assert_eq!(registry.waiting(), 1);
    drop(future);
    assert_eq!(registry.waiting(), 0);
    for unique in 0..10_000 {
        registry.interrupt(Unique(unique));
    }
    let early: usize = registry
        .shards
        .iter()
        .map(|shard| shard.lock().unwrap().early.len())
        .sum();
    assert_eq!(early, EARLY_INTERRUPTS_MAX * PENDING_SHARDS);
}

#[test]
fn a_request_past_its_deadline_gets_a_reply_and_its_handler_goes_on() {
    let fixture = Fixture::new(deadlines(100));
    fixture.pending.start_watcher(true).unwrap();
    let waiting = fixture.enter_with(order(2, 7, &fsync()), true);
    assert_eq!(fixture.next_reply(), (libc::ETIMEDOUT, 2));
    assert_eq!((fixture.pending.waiting(), fixture.pending.late()), (1, 1));
    assert!(waiting.take_responder().is_none());
    drop(waiting);
    assert_eq!((fixture.pending.waiting(), fixture.pending.late()), (0, 0));
    fixture.pending.end();
}

#[test]
fn a_request_after_a_late_change_begins_after_it_or_never() {
    // The two requests below wait for a twentieth of the deadline; the test sees each of them waiting before that.
    let fixture = Fixture::new(deadlines(4_000));
    fixture.pending.start_watcher(true).unwrap();
    let late = fixture.enter_with(order(2, 7, &fsync()), true);
    assert_eq!(fixture.next_reply(), (libc::ETIMEDOUT, 2));
    // On the same node another change and the release of an open file must wait; attributes and other nodes need not.
    let (change, end) = (order(4, 7, &fsync()), order(6, 7, &release()));
    assert!(fixture.pending.must_wait(&change) && fixture.pending.must_wait(&end));
    assert!(!fixture.pending.must_wait(&order(8, 7, &Operation::Statfs)));
    assert!(!fixture.pending.must_wait(&order(8, 9, &fsync())));
    // The late change may wait until the kernel has dropped a page, and the kernel for the READ that fills it.
    let read = |lock_owner| {
        let flags = match lock_owner {
            Some(_) => crate::wire::ReadFlags::LOCKOWNER,
            None => crate::wire::ReadFlags::empty(),
        };
        Operation::Read(op::Read {
            fh: FileHandle(1),
            offset: 0,
            size: 4096,
            flags,
            lock_owner,
            open_flags: 0,
        })
    };
    assert!(!fixture.pending.must_wait(&order(8, 7, &read(None))));
    let direct = read(Some(crate::LockOwner(0)));
    assert!(fixture.pending.must_wait(&order(8, 7, &direct)));
    let (change, end) = (
        fixture.enter_with(change, false),
        fixture.enter_with(end, false),
    );
    let (of_change, of_end) = (count(), count());
    assert_eq!(poll_begin(&change, &of_change), Poll::Pending);
    assert_eq!(poll_begin(&end, &of_end), Poll::Pending);
    // Both get a deadline error, but the release must be executed all the same.
    let mut next_reply = [fixture.next_reply(), fixture.next_reply()];
    next_reply.sort();
    assert_eq!(next_reply, [(libc::ETIMEDOUT, 4), (libc::ETIMEDOUT, 6)]);
    assert_eq!(poll_begin(&change, &of_change), Poll::Ready(false));
    assert_eq!(poll_begin(&end, &of_end), Poll::Pending);
    drop(change);
    let before = of_end.0.load(Ordering::Relaxed);
    drop(late);
    assert!(of_end.0.load(Ordering::Relaxed) > before);
    assert_eq!(poll_begin(&end, &of_end), Poll::Ready(true));
    drop(end);
    assert!(!fixture.pending.must_wait(&order(10, 7, &fsync())));
    assert_eq!((fixture.pending.waiting(), fixture.pending.late()), (0, 0));
    fixture.pending.end();
}

#[test]
fn a_repeated_request_waits_for_earlier_late_handlers() {
    let fixture = Fixture::new(deadlines(60));
    fixture.pending.start_watcher(true).unwrap();
    let statfs = |unique| order(unique, 1, &Operation::Statfs);
    let mut late = Vec::new();
    for unique in 0..crate::limits::LATE_HANDLERS_PER_NODE_MAX as u64 {
        assert!(!fixture.pending.must_wait(&statfs(2 * unique)));
        late.push(fixture.enter_with(statfs(2 * unique), true));
        assert_eq!(fixture.next_reply().0, libc::ETIMEDOUT);
    }
    assert!(fixture.pending.must_wait(&statfs(1000)));
    assert!(!fixture.pending.must_wait(&order(1000, 1, &release())));
    late.pop();
    assert!(!fixture.pending.must_wait(&statfs(1000)));
    fixture.pending.end();
}

fn lock_of(owner: u64) -> op::Lock {
    op::Lock {
        fh: FileHandle(1),
        owner: crate::LockOwner(owner),
        lock: op::FileLock {
            start: 0,
            end: op::FileLock::EOF,
            kind: op::LockKind::Write,
            pid: 0,
        },
        flags: crate::wire::LockFlags::empty(),
    }
}

#[test]
fn a_wait_for_a_lock_has_no_deadline() {
    let fixture = Fixture::new(deadlines(60));
    fixture.pending.start_watcher(true).unwrap();
    let lock = lock_of(1);
    let _lock = fixture.enter_with(order(2, 7, &Operation::Setlkw(lock)), true);
    let _other = fixture.enter_with(order(4, 8, &Operation::Setlk(lock)), true);
    assert_eq!(fixture.next_reply(), (libc::ETIMEDOUT, 4));
    assert_eq!(fixture.pending.late(), 1);
    fixture.pending.end();
}

#[test]
fn no_lock_is_taken_before_a_replied_close_is_done() {
    let fixture = Fixture::new(deadlines(60_000));
    let late = order(2, 7, &fsync());
    fixture.pending.late_handlers.add(&late, Duration::ZERO);
    let flush = Operation::Flush(op::Flush {
        fh: FileHandle(1),
        lock_owner: crate::LockOwner(1),
    });
    let close = order(4, 7, &flush);
    assert!(fixture.pending.must_wait(&close));
    let waiting = fixture.enter_with(close, false);
    waiting
        .take_responder_of_close()
        .unwrap()
        .reply(crate::reply::Reply::empty());
    assert_eq!(fixture.next_reply(), (0, 4));
    let lock = order(6, 7, &Operation::Setlk(lock_of(1)));
    let waiting_lock = fixture.enter_with(lock, false);
    let wakes = count();
    fixture.pending.late_handlers.remove(&late);
    // The late handler is done: the close and other requests may begin now, but not the lock.
    assert_eq!(poll_begin(&waiting, &wakes), Poll::Ready(true));
    assert_eq!(poll_begin(&waiting_lock, &wakes), Poll::Pending);
    assert!(!fixture.pending.must_wait(&order(8, 7, &fsync())));
    assert!(
        !fixture
            .pending
            .must_wait(&order(10, 9, &Operation::Setlk(lock_of(1))))
    );
    drop(waiting);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(poll_begin(&waiting_lock, &wakes), Poll::Ready(true));
    drop(waiting_lock);
    assert_eq!((fixture.pending.waiting(), fixture.pending.late()), (0, 0));
}
