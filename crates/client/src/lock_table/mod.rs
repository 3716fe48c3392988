//! The locks held here: a copy of the server's locks of this session.
//!
//! Each change that the server makes to a session's locks has a grant sequence. Replies and grants may arrive in another order;
//! the client applies them in the order of their grant sequences, by the server's rules, so that both tables are equal. The table
//! is reclaimed from a restarted server, and shows what a close has to free.

mod state;

use gupfs_namespace::locks::FileLocks;
use gupfs_proto::lock::{AdvisoryLock, LockHolder, LockOutcome, LockRequest, LockSeq};
use gupfs_proto::meta::{MetaOp, MetaReplyBody};
use gupfs_proto::{FsError, OwnerEpoch, SessionId};
use parking_lot::Mutex;
use state::{LockChange, LockTable, LockWaiter};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Notify;

/// Range of request numbers that may be pending at a time: the server stores more replies than this.
const PENDING_REQUESTS_MAX: u64 = 512;
const _: () = assert!(PENDING_REQUESTS_MAX < gupfs_namespace::locks::limits::REPLIES_KEPT as u64);

#[derive(Default)]
pub struct ClientLocks {
    table: Mutex<LockTable>,
    /// Notified when a waiter was granted its lock or must request it again, and when a request was answered.
    pub changed: Notify,
    /// A close has waited for its unlock in vain, and no lock request was answered since.
    server_is_slow: AtomicBool,
}

/// The status of a waiting lock request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWaitStatus {
    Waiting,
    Granted,
    /// The server was restarted, and has lost the request.
    Retry,
    Lost,
}

impl ClientLocks {
    /// A session was opened at this server instance: it holds no locks.
    pub fn start(&self, session: SessionId, instance: OwnerEpoch) {
        let mut table = self.table.lock();
        *table = LockTable {
            session,
            instance,
            last_request: table.last_request,
            ..LockTable::default()
        };
        drop(table);
        self.changed.notify_waiters();
    }

    /// The session has ended, and with it all its locks.
    pub fn clear(&self) {
        self.start(SessionId(0), OwnerEpoch(0));
    }

    /// The locks to reclaim. From here on the table does not change until `restart`.
    ///
    /// The server may have done a request that is not answered yet, and granted the locks that it frees to another client. Those
    /// are not reclaimed; the request is sent again.
    pub fn freeze(&self) -> Vec<AdvisoryLock> {
        let mut table = self.table.lock();
        let table = &mut *table;
        table.frozen = true;
        for (_, change) in std::mem::take(&mut table.out_of_order) {
            table.apply(change);
        }
        let session = table.session;
        for request in table.pending.values() {
            let (ino, change): (_, &dyn Fn(&mut FileLocks)) = match request {
                LockRequest::Acquire { lock, .. } => (lock.holder.ino, &|locks: &mut FileLocks| {
                    locks.weaken(session, *lock)
                }),
                LockRequest::Release { holder, range, .. } => {
                    (holder.ino, &|locks: &mut FileLocks| {
                        locks.release(session, *holder, *range)
                    })
                }
                LockRequest::Cancel { .. } | LockRequest::Test { .. } => continue,
            };
            if let Some(locks) = table.files.get_mut(&ino) {
                change(locks);
            }
        }
        table.files.retain(|_, locks| !locks.is_empty());
        let all = table.files.values().flat_map(FileLocks::all);
        all.map(|granted| granted.lock).collect()
    }

    /// The locks are reclaimed. Waiters request theirs again.
    pub fn restart(&self, instance: OwnerEpoch) {
        let mut table = self.table.lock();
        let table = &mut *table;
        (table.instance, table.frozen, table.grant_seq) = (instance, false, 0);
        let pending = &table.pending;
        table
            .waiters
            .retain(|acquire, waiting| waiting.granted || pending.contains_key(acquire));
        self.changed.notify_waiters();
    }

    /// Registers a new request. Waits until fewer than `PENDING_REQUESTS_MAX` numbers are pending, and until no pending request
    /// frees locks of this holder in the range: the server may process two pending requests in either order, and a close may
    /// return before its locks are freed.
    pub async fn register(&self, request: impl Fn(LockSeq) -> LockRequest) -> (u64, LockRequest) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut table = self.table.lock();
                let number = table.last_request + 1;
                let replied_below = table.pending.keys().next().copied().unwrap_or(number);
                let request = request(LockSeq {
                    number,
                    replied_below,
                });
                if number - replied_below < PENDING_REQUESTS_MAX && !table.is_being_freed(&request)
                {
                    table.last_request = number;
                    table.pending.insert(number, request);
                    if let LockRequest::Acquire {
                        lock, wait: true, ..
                    } = request
                    {
                        let granted = false;
                        table.waiters.insert(number, LockWaiter { lock, granted });
                    }
                    return (number, request);
                }
            }
            changed.await;
        }
    }

    /// The request was answered, or never will be.
    pub fn finish(&self, number: u64) {
        self.table.lock().pending.remove(&number);
        self.server_is_slow.store(false, Relaxed);
        self.changed.notify_waiters();
    }

    pub fn server_is_slow(&self) -> bool {
        self.server_is_slow.load(Relaxed)
    }

    pub fn set_server_slow(&self) {
        self.server_is_slow.store(true, Relaxed);
    }

    /// Whether the request is of this session and not answered yet.
    pub fn is_pending(&self, number: u64) -> bool {
        self.table.lock().pending.contains_key(&number)
    }

    /// Applies the server's reply to `op`. False if the reply is of an instance that has ended.
    pub fn apply_reply(
        &self,
        session: SessionId,
        instance: OwnerEpoch,
        op: &MetaOp,
        result: &Result<MetaReplyBody, FsError>,
    ) -> bool {
        let (MetaOp::Lock(request), Ok(MetaReplyBody::Lock(reply))) = (op, result) else {
            return true;
        };
        let mut table = self.table.lock();
        if !table.is_current(session, instance) {
            return false;
        }
        match (request, &reply.outcome) {
            (LockRequest::Cancel { acquire, .. }, Ok(LockOutcome::WasGranted(grant_seq))) => {
                table.record_grant(*acquire, *grant_seq);
            }
            // A request sent in another session than the one it was registered for is not listed.
            (LockRequest::Acquire { seq, lock, .. }, Ok(LockOutcome::Queued)) => {
                table.pending.remove(&seq.number);
                let (lock, granted) = (*lock, false);
                let waiting = table.waiters.entry(seq.number);
                waiting.or_insert(LockWaiter { lock, granted });
            }
            _ => {}
        }
        if reply.grant_seq > 0 {
            table.apply_in_order(reply.grant_seq, LockChange::of(request, reply));
        }
        true
    }

    /// Applies a grant callback. Does nothing if the grant is already applied or of another instance.
    pub fn apply_grant(
        &self,
        session: SessionId,
        instance: OwnerEpoch,
        acquire: u64,
        grant_seq: u64,
    ) {
        let mut table = self.table.lock();
        if table.is_current(session, instance) {
            table.record_grant(acquire, grant_seq);
            drop(table);
            self.changed.notify_waiters();
        }
    }

    pub fn wait_status(&self, session: SessionId, acquire: u64) -> LockWaitStatus {
        let table = self.table.lock();
        match table.waiters.get(&acquire) {
            _ if table.session != session => LockWaitStatus::Lost,
            Some(waiting) if waiting.granted => LockWaitStatus::Granted,
            Some(_) => LockWaitStatus::Waiting,
            None => LockWaitStatus::Retry,
        }
    }

    pub fn is_granted(&self, acquire: u64) -> bool {
        let table = self.table.lock();
        table
            .waiters
            .get(&acquire)
            .is_some_and(|waiting| waiting.granted)
    }

    /// The caller has ended its wait.
    pub fn remove_waiter(&self, acquire: u64) {
        self.table.lock().waiters.remove(&acquire);
    }

    /// Whether another program of this mount holds a conflicting lock.
    pub fn has_local_conflict(&self, lock: AdvisoryLock) -> bool {
        let table = self.table.lock();
        let locks = table.files.get(&lock.holder.ino);
        locks.is_some_and(|locks| locks.conflict(table.session, lock).is_some())
    }

    /// False if this holder has no lock for certain.
    pub fn may_hold(&self, holder: LockHolder) -> bool {
        let table = self.table.lock();
        let session = table.session;
        let locks = table.files.get(&holder.ino);
        locks.is_some_and(|locks| locks.has_any(session, holder))
            || table
                .out_of_order
                .values()
                .any(|change| change.concerns(holder))
    }

    /// Records that this holder takes a lock through this open file.
    pub fn add_file_holder(&self, file: u64, holder: LockHolder) {
        let mut table = self.table.lock();
        table
            .holders_by_file
            .entry(file)
            .or_default()
            .insert(holder);
    }

    /// Removes and returns the holders that took locks through this open file.
    pub fn take_file_holders(&self, file: u64) -> BTreeSet<LockHolder> {
        self.table
            .lock()
            .holders_by_file
            .remove(&file)
            .unwrap_or_default()
    }

    /// This holder frees all its locks, through all open files.
    pub fn remove_holder(&self, holder: LockHolder) {
        self.table.lock().holders_by_file.retain(|_, holders| {
            holders.remove(&holder);
            !holders.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_proto::InodeId;
    use gupfs_proto::lock::{LockFamily, LockMode, LockRange, LockReply};

    const INSTANCE: OwnerEpoch = OwnerEpoch(4);
    const US: SessionId = SessionId(7);

    fn lock(first: u64, last: u64, mode: LockMode) -> AdvisoryLock {
        AdvisoryLock {
            holder: LockHolder {
                ino: InodeId(5),
                family: LockFamily::Record,
                owner: 1,
            },
            range: LockRange { first, last },
            mode,
            pid: 1,
        }
    }

    async fn acquire(locks: &ClientLocks, lock: AdvisoryLock, wait: bool) -> (u64, MetaOp) {
        let asked = locks.register(|seq| LockRequest::Acquire { seq, lock, wait });
        let (number, request) = asked.await;
        (number, MetaOp::Lock(request))
    }

    async fn free(locks: &ClientLocks, lock: AdvisoryLock) -> (u64, MetaOp) {
        let (holder, range) = (lock.holder, lock.range);
        let free = |seq| LockRequest::Release { seq, holder, range };
        let (number, request) = locks.register(free).await;
        (number, MetaOp::Lock(request))
    }

    fn receive(
        locks: &ClientLocks,
        (number, op): &(u64, MetaOp),
        grant_seq: u64,
        outcome: LockOutcome,
    ) -> bool {
        let reply = LockReply {
            grant_seq,
            outcome: Ok(outcome),
        };
        let was_applied = locks.apply_reply(US, INSTANCE, op, &Ok(MetaReplyBody::Lock(reply)));
        locks.finish(*number);
        was_applied
    }

    fn new_locks() -> ClientLocks {
        let locks = ClientLocks::default();
        locks.start(US, INSTANCE);
        locks
    }

    #[tokio::test]
    async fn changes_are_applied_in_the_order_of_their_grant_sequences() {
        let (locks, all) = (new_locks(), lock(0, 9, LockMode::Exclusive));
        let first = acquire(&locks, all, false).await;
        let second = free(&locks, lock(4, 9, LockMode::Shared)).await;
        let third = acquire(&locks, lock(0, 3, LockMode::Shared), true).await;
        assert!(receive(&locks, &third, 2, LockOutcome::Queued));
        locks.apply_grant(US, INSTANCE, third.0, 4);
        assert!(receive(&locks, &second, 3, LockOutcome::Done));
        assert_eq!(locks.wait_status(US, third.0), LockWaitStatus::Granted);
        assert!(locks.may_hold(all.holder));
        assert!(receive(&locks, &first, 1, LockOutcome::Done));
        // A repeated grant changes nothing.
        locks.apply_grant(US, INSTANCE, third.0, 4);
        assert_eq!(locks.freeze(), [lock(0, 3, LockMode::Shared)]);
    }

    #[tokio::test]
    async fn locks_that_may_have_been_freed_are_not_reclaimed() {
        let (locks, all) = (new_locks(), lock(0, 9, LockMode::Exclusive));
        let first = acquire(&locks, all, false).await;
        assert!(receive(&locks, &first, 1, LockOutcome::Done));
        let freed = free(&locks, lock(0, 1, LockMode::Shared)).await;
        let shared = acquire(&locks, lock(8, 20, LockMode::Shared), false).await;
        let wait = acquire(&locks, lock(30, 40, LockMode::Shared), true).await;
        assert!(receive(&locks, &wait, 4, LockOutcome::Queued));
        let reclaimed = locks.freeze();
        assert_eq!(
            reclaimed,
            [
                lock(2, 7, LockMode::Exclusive),
                lock(8, 9, LockMode::Shared)
            ]
        );
        // Replies of the former instance are ignored.
        assert!(!receive(&locks, &freed, 2, LockOutcome::Done));
        locks.apply_grant(US, INSTANCE, wait.0, 5);
        locks.restart(OwnerEpoch(5));
        assert!(!receive(&locks, &shared, 3, LockOutcome::Done));
        assert_eq!(locks.wait_status(US, wait.0), LockWaitStatus::Retry);
        assert_eq!(locks.freeze(), reclaimed);
        locks.clear();
        assert_eq!(locks.wait_status(US, wait.0), LockWaitStatus::Lost);
        assert_eq!(locks.freeze(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_being_freed_is_taken_only_after_the_free() {
        let (locks, all) = (new_locks(), lock(0, 9, LockMode::Exclusive));
        let freed = free(&locks, lock(4, 9, LockMode::Shared)).await;
        // A request for other bytes need not wait; these bytes could be freed after they were taken.
        acquire(&locks, lock(0, 3, LockMode::Shared), false).await;
        let soon = std::time::Duration::from_secs(1);
        let out_of_order = tokio::time::timeout(soon, acquire(&locks, all, false)).await;
        assert!(out_of_order.is_err());
        let (done, _) = tokio::join!(acquire(&locks, all, false), async {
            receive(&locks, &freed, 1, LockOutcome::Done)
        });
        assert!(done.0 > freed.0);
    }
}
