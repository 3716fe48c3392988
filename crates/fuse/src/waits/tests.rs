//! Without a kernel: requests whose answers go into a socket.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::*;
use crate::buffer::Pool;
use crate::lane::{Desk, Kit, LaneCounts};
use crate::op;
use crate::request::{Dialect, Operation};
use crate::transport::Device;
use crate::wire::{FsyncFlags, Header};
use crate::{Errno, Handle, NodeId};

/// Requests that wait, and what they are answered.
struct Rig {
    waits: Arc<Waits>,
    desk: Arc<Desk>,
    kernel: std::os::fd::OwnedFd,
}

impl Rig {
    fn new(in_time: Option<InTime>) -> Rig {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, kernel) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let waits = Arc::new(Waits::new(in_time));
        let kit = Kit {
            pool: Arc::new(Pool::new(0)),
            waits: waits.clone(),
        };
        let desk = Desk {
            device: Arc::new(Device::of(ours)),
            kit: Arc::new(kit),
            dialect: Dialect { setxattr_ext: true },
            counts: Arc::new(LaneCounts::default()),
        };
        Rig {
            waits,
            desk: Arc::new(desk),
            kernel,
        }
    }

    fn ticket(&self, unique: u64) -> Ticket {
        Ticket::new(self.desk.clone(), Unique(unique), None, usize::MAX)
    }

    fn enter(&self, unique: u64) -> Waiting {
        self.enter_with(order(unique, 1, &Operation::Statfs), true)
    }

    fn enter_with(&self, order: Order, begun: bool) -> Waiting {
        self.waits
            .enter(order, self.ticket(order.unique().0), begun)
    }

    /// Errno and unique of the next answer; waits for it.
    fn answered(&self) -> (i32, u64) {
        let mut bytes = [0; 64];
        recv(&self.kernel, &mut bytes, RecvFlags::empty()).unwrap();
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        (-error, u64::from_ne_bytes(bytes[8..16].try_into().unwrap()))
    }
}

fn order(unique: u64, node: u64, operation: &Operation) -> Order {
    let header = Header {
        length: 0,
        opcode: 0,
        unique: Unique(unique),
        node: NodeId(node),
        uid: 0,
        gid: 0,
        pid: 0,
        extensions: 0,
    };
    Order::of(&header, operation)
}

fn fsync() -> Operation {
    Operation::Fsync(op::Fsync {
        fh: Handle(1),
        flags: FsyncFlags::empty(),
    })
}

fn release() -> Operation {
    Operation::Release(op::Release {
        fh: Handle(1),
        open_flags: 0,
        flags: crate::wire::ReleaseFlags::empty(),
        lock_owner: crate::LockOwner(0),
    })
}

fn in_time(deadline_ms: u64) -> Option<InTime> {
    Some(InTime {
        deadline: Some(Duration::from_millis(deadline_ms)),
        overdue: Errno::ETIMEDOUT,
        killed: Errno::EINTR,
    })
}

fn begins(waiting: &Waiting, count: &Arc<Count>) -> Poll<bool> {
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
fn an_interrupt_wakes_the_one_it_names() {
    let rig = Rig::new(None);
    let registry = rig.waits.clone();
    let (one, other) = (count(), count());
    let _waiting = rig.enter(2);
    let _also = rig.enter(4);
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
fn an_interrupt_that_comes_before_its_request_waits_is_found_later() {
    let rig = Rig::new(None);
    let registry = rig.waits.clone();
    registry.interrupt(Unique(6));
    let _waiting = rig.enter(6);
    assert!(poll(
        &mut Interrupted::new(Unique(6), registry.clone()),
        &count()
    ));
}

#[test]
fn a_future_polled_before_its_request_waits_is_woken_all_the_same() {
    let rig = Rig::new(None);
    let registry = rig.waits.clone();
    let wakes = count();
    let mut future = Interrupted::new(Unique(8), registry.clone());
    assert!(!poll(&mut future, &wakes));
    let _waiting = rig.enter(8);
    registry.interrupt(Unique(8));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(poll(&mut future, &wakes));
}

#[test]
fn nothing_stays_behind() {
    let rig = Rig::new(None);
    let registry = rig.waits.clone();
    let waiting = rig.enter(10);
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
    assert_eq!(early, EARLY_INTERRUPTS * INTERRUPT_SHARDS);
}

#[test]
fn a_request_past_its_deadline_is_answered_and_goes_on() {
    let rig = Rig::new(in_time(100));
    rig.waits.start(true).unwrap();
    let waiting = rig.enter_with(order(2, 7, &fsync()), true);
    assert_eq!(rig.answered(), (libc::ETIMEDOUT, 2));
    assert_eq!((rig.waits.waiting(), rig.waits.late()), (1, 1));
    assert!(waiting.take_ticket().is_none());
    drop(waiting);
    assert_eq!((rig.waits.waiting(), rig.waits.late()), (0, 0));
    rig.waits.end();
}

#[test]
fn what_follows_a_late_change_begins_after_it_or_never() {
    let rig = Rig::new(in_time(100));
    rig.waits.start(true).unwrap();
    let late = rig.enter_with(order(2, 7, &fsync()), true);
    assert_eq!(rig.answered(), (libc::ETIMEDOUT, 2));
    // Of the same node: another change, the end of an open file. Not attributes, and not other nodes.
    let (change, end) = (order(4, 7, &fsync()), order(6, 7, &release()));
    assert!(rig.waits.holds_back(&change) && rig.waits.holds_back(&end));
    assert!(!rig.waits.holds_back(&order(8, 7, &Operation::Statfs)));
    assert!(!rig.waits.holds_back(&order(8, 9, &fsync())));
    let (change, end) = (rig.enter_with(change, false), rig.enter_with(end, false));
    let (of_change, of_end) = (count(), count());
    assert_eq!(begins(&change, &of_change), Poll::Pending);
    assert_eq!(begins(&end, &of_end), Poll::Pending);
    // Both are answered past their own time, but the end must be done all the same.
    let mut answered = [rig.answered(), rig.answered()];
    answered.sort();
    assert_eq!(answered, [(libc::ETIMEDOUT, 4), (libc::ETIMEDOUT, 6)]);
    assert_eq!(begins(&change, &of_change), Poll::Ready(false));
    assert_eq!(begins(&end, &of_end), Poll::Pending);
    drop(change);
    let before = of_end.0.load(Ordering::Relaxed);
    drop(late);
    assert!(of_end.0.load(Ordering::Relaxed) > before);
    assert_eq!(begins(&end, &of_end), Poll::Ready(true));
    drop(end);
    assert!(!rig.waits.holds_back(&order(10, 7, &fsync())));
    assert_eq!((rig.waits.waiting(), rig.waits.late()), (0, 0));
    rig.waits.end();
}

#[test]
fn who_asks_the_same_again_and_again_waits_for_the_former() {
    let rig = Rig::new(in_time(60));
    rig.waits.start(true).unwrap();
    let statfs = |unique| order(unique, 1, &Operation::Statfs);
    let mut late = Vec::new();
    for unique in 0..crate::limits::LATE_OF_NODE_MAX as u64 {
        assert!(!rig.waits.holds_back(&statfs(2 * unique)));
        late.push(rig.enter_with(statfs(2 * unique), true));
        assert_eq!(rig.answered().0, libc::ETIMEDOUT);
    }
    assert!(rig.waits.holds_back(&statfs(1000)));
    assert!(!rig.waits.holds_back(&order(1000, 1, &release())));
    late.pop();
    assert!(!rig.waits.holds_back(&statfs(1000)));
    rig.waits.end();
}

fn lock_of(owner: u64) -> op::Lock {
    op::Lock {
        fh: Handle(1),
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
    let rig = Rig::new(in_time(60));
    rig.waits.start(true).unwrap();
    let lock = lock_of(1);
    let _lock = rig.enter_with(order(2, 7, &Operation::Setlkw(lock)), true);
    let _other = rig.enter_with(order(4, 8, &Operation::Setlk(lock)), true);
    assert_eq!(rig.answered(), (libc::ETIMEDOUT, 4));
    assert_eq!(rig.waits.late(), 1);
    rig.waits.end();
}

#[test]
fn nothing_is_locked_before_a_close_that_was_answered_is_done() {
    let rig = Rig::new(in_time(60_000));
    let late = order(2, 7, &fsync());
    rig.waits.late.begins(&late, Duration::ZERO);
    let flush = Operation::Flush(op::Flush {
        fh: Handle(1),
        lock_owner: crate::LockOwner(1),
    });
    let close = order(4, 7, &flush);
    assert!(rig.waits.holds_back(&close));
    let waiting = rig.enter_with(close, false);
    waiting
        .take_ticket_of_close()
        .unwrap()
        .answer(crate::answer::Answer::empty());
    assert_eq!(rig.answered(), (0, 4));
    let lock = order(6, 7, &Operation::Setlk(lock_of(1)));
    let waits = rig.enter_with(lock, false);
    let wakes = count();
    rig.waits.late.ended(&late);
    // What was late is done: the close may begin now, others too, and the lock not yet.
    assert_eq!(begins(&waiting, &wakes), Poll::Ready(true));
    assert_eq!(begins(&waits, &wakes), Poll::Pending);
    assert!(!rig.waits.holds_back(&order(8, 7, &fsync())));
    assert!(
        !rig.waits
            .holds_back(&order(10, 9, &Operation::Setlk(lock_of(1))))
    );
    drop(waiting);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(begins(&waits, &wakes), Poll::Ready(true));
    drop(waits);
    assert_eq!((rig.waits.waiting(), rig.waits.late()), (0, 0));
}
