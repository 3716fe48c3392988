//! The waits of requests: every wait has a deadline, and `status` shows what it waits for.
//!
//! A wait that is over at once costs nothing but its first poll: it is neither listed nor timed.

use crate::limits::DEADLINE;
use crate::origin::RequestOrigin;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::{FsError, InodeId, Seq, SessionId, VirtualShard};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitReason {
    Commit(Seq),
    Durable(Seq),
    Records(usize),
    IndexCatchUp,
    /// The first report of a target with free space.
    Targets,
    Numbers(VirtualShard),
    /// A pending truncate of this file at its OSTs.
    Truncate(InodeId),
    /// The attributes of a file whose write lease this session holds.
    Glimpse(SessionId, InodeId),
    Revoke(SessionId, InodeId),
    Downgrade(SessionId, InodeId),
    /// A session to drop what it knows by leases that a change revokes.
    RevokeLeases(SessionId),
    /// A session from before a take-over, which may have leases on what this operation changes, to reconnect.
    SessionReturn(SessionId),
    /// A session from before the start, which may have locks on the file, to reconnect.
    LockReclaim(SessionId),
    /// Earlier requests that need the same write lease released.
    LeaseQueue(InodeId),
    /// Which removed files a session has open.
    OpenFiles(SessionId),
    /// The replay of so many sessions from before the start.
    SessionReplays(usize),
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitReason::Commit(seq) => write!(f, "the commit of change {seq}"),
            WaitReason::Durable(seq) => write!(f, "the log's sync up to change {seq}"),
            WaitReason::Targets => write!(f, "an OST with known free space"),
            WaitReason::IndexCatchUp => write!(f, "the index to catch up with the log"),
            WaitReason::Records(n) => write!(f, "{n} records from the index"),
            WaitReason::Numbers(shard) => write!(f, "a block of inode numbers for shard {shard}"),
            WaitReason::Truncate(ino) => write!(f, "the truncate of inode {:x} at its OSTs", ino.0),
            WaitReason::Glimpse(session, ino) => {
                write!(
                    f,
                    "session {session} to report the attributes of inode {:x}",
                    ino.0
                )
            }
            WaitReason::Revoke(session, ino) => {
                write!(
                    f,
                    "session {session} to release its write lease on inode {:x}",
                    ino.0
                )
            }
            WaitReason::Downgrade(session, ino) => {
                write!(
                    f,
                    "session {session} to let others write inode {:x} beside it",
                    ino.0
                )
            }
            WaitReason::RevokeLeases(session) => write!(
                f,
                "session {session} to drop what it remembers of what this operation changes"
            ),
            WaitReason::SessionReturn(session) => write!(
                f,
                "session {session} to reconnect after a take-over: it may remember what this operation changes"
            ),
            WaitReason::LockReclaim(session) => write!(
                f,
                "session {session} to reconnect: it may have locks on this file"
            ),
            WaitReason::LeaseQueue(ino) => {
                write!(
                    f,
                    "earlier requests for the write lease on inode {:x}",
                    ino.0
                )
            }
            WaitReason::SessionReplays(sessions) => write!(
                f,
                "{sessions} sessions to reconnect after the start, and the replay of all sessions' changes"
            ),
            WaitReason::OpenFiles(session) => write!(
                f,
                "session {session} to report which removed files it has open"
            ),
        }
    }
}

/// One waiting request, as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WaitStatus {
    pub session: SessionId,
    pub op: &'static str,
    pub waits_for: String,
    pub millis: u64,
}

/// The requests that wait now.
pub struct WaitList {
    clock: Clock,
    open: Mutex<OpenWaits>,
}

#[derive(Default)]
struct OpenWaits {
    next: u64,
    list: BTreeMap<u64, (RequestOrigin, WaitReason, BootTime)>,
}

impl WaitList {
    pub fn new(clock: Clock) -> WaitList {
        WaitList {
            clock,
            open: Mutex::default(),
        }
    }

    /// Awaits `future`, listed as waiting if it is not done at once.
    ///
    /// # Errors
    /// `TimedOut` after `DEADLINE`, with the reason of the wait; `future` is dropped then.
    pub async fn wait<F: Future>(
        &self,
        origin: RequestOrigin,
        awaited: WaitReason,
        future: F,
    ) -> Result<F::Output, FsError> {
        let mut future = pin!(future);
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Ok(output);
        }
        let _listed = self.enter(origin, awaited);
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.clock.sleep(DEADLINE) => Err(FsError::TimedOut(awaited.to_string())),
        }
    }

    fn enter(&self, origin: RequestOrigin, awaited: WaitReason) -> WaitEntry<'_> {
        let mut open = self.open.lock();
        open.next += 1;
        let number = open.next;
        open.list
            .insert(number, (origin, awaited, self.clock.boot()));
        WaitEntry {
            waits: self,
            number,
        }
    }

    /// The number of waits for such a reason.
    pub fn count(&self, is_counted: impl Fn(&WaitReason) -> bool) -> usize {
        let open = self.open.lock();
        let reasons = open.list.values().map(|(_, reason, _)| reason);
        reasons.filter(|reason| is_counted(reason)).count()
    }

    /// The waits, longest first.
    pub fn status(&self) -> Vec<WaitStatus> {
        let now = self.clock.boot();
        let open = self.open.lock();
        open.list
            .values()
            .map(|(origin, awaited, since)| WaitStatus {
                session: origin.session,
                op: origin.op,
                waits_for: awaited.to_string(),
                millis: now.since(*since).as_millis() as u64,
            })
            .collect()
    }
}

/// Removes the wait from the list when it ends, however it ends.
struct WaitEntry<'a> {
    waits: &'a WaitList,
    number: u64,
}

impl Drop for WaitEntry<'_> {
    fn drop(&mut self) {
        self.waits.open.lock().list.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakePlatform;
    use std::future::{pending, ready};

    const ORIGIN: RequestOrigin = RequestOrigin {
        session: SessionId(3),
        op: "mkdir",
    };

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_listed_while_it_lasts_and_ends_at_its_deadline() {
        let waits = WaitList::new(FakePlatform::new(1).platform().clock);
        let stuck = waits.wait(ORIGIN, WaitReason::Commit(Seq(7)), pending::<()>());
        let look = async {
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            waits.status()
        };
        let (ended, seen) = tokio::join!(stuck, look);
        assert_eq!(
            seen,
            [WaitStatus {
                session: SessionId(3),
                op: "mkdir",
                waits_for: "the commit of change 7".into(),
                millis: 2_000
            }]
        );
        assert_eq!(
            ended,
            Err(FsError::TimedOut("the commit of change 7".into()))
        );
        assert_eq!(waits.status(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_over_at_once_is_not_listed() {
        let waits = WaitList::new(FakePlatform::new(1).platform().clock);
        assert_eq!(
            waits.wait(ORIGIN, WaitReason::Records(1), ready(5)).await,
            Ok(5)
        );
        assert_eq!(waits.open.lock().next, 0);
    }
}
