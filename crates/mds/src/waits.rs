//! What calls wait for: every wait has a deadline, and says in `status` what it waits for.
//!
//! A wait that is over at once costs nothing but its first poll: it is neither listed nor timed.

use crate::limits::DEADLINE;
use crate::targets::MDS_SESSION;
use gupfs_platform::{BootTime, Clock};
use gupfs_proto::{InodeId, Refusal, Seq, SessionId, VirtualShard};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Who waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    pub session: SessionId,
    pub op: &'static str,
}

impl Who {
    /// The server's own work.
    pub fn own(op: &'static str) -> Who {
        Who {
            session: MDS_SESSION,
            op,
        }
    }
}

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    Commit(Seq),
    Durable(Seq),
    Records(usize),
    Room,
    /// The first report on any target that has room.
    Targets,
    Numbers(VirtualShard),
    /// A cut of this file at its OSTs.
    Cut(InodeId),
    /// What a session wrote to a file that it holds.
    Tell(SessionId, InodeId),
    GiveBack(SessionId, InodeId),
    /// Others came before for this file to be given back.
    Turn(InodeId),
    /// Which removed files a session has open.
    Opens(SessionId),
    /// So many sessions of the time before the start.
    Returns(usize),
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Commit(seq) => write!(f, "the commit of change {seq}"),
            Awaited::Durable(seq) => write!(f, "the log's sync up to change {seq}"),
            Awaited::Targets => write!(f, "an OST that is known to have room"),
            Awaited::Room => write!(f, "the index to catch up"),
            Awaited::Records(n) => write!(f, "{n} records from the index"),
            Awaited::Numbers(shard) => write!(f, "a block of inode numbers for shard {shard}"),
            Awaited::Cut(ino) => write!(f, "the cut of inode {:x} at its OSTs", ino.0),
            Awaited::Tell(session, ino) => {
                write!(f, "session {session} to tell of inode {:x}", ino.0)
            }
            Awaited::GiveBack(session, ino) => {
                write!(f, "session {session} to give back inode {:x}", ino.0)
            }
            Awaited::Turn(ino) => {
                write!(f, "others who wait for inode {:x} to be given back", ino.0)
            }
            Awaited::Returns(sessions) => write!(
                f,
                "{sessions} sessions to come back after the start, and what all have kept to be done again"
            ),
            Awaited::Opens(session) => write!(
                f,
                "session {session} to say which removed files it has open"
            ),
        }
    }
}

/// One waiting call, as `status` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WaitStatus {
    pub session: SessionId,
    pub op: &'static str,
    pub waits_for: String,
    pub millis: u64,
}

/// The calls that wait now.
pub struct Waits {
    clock: Clock,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    list: BTreeMap<u64, (Who, Awaited, BootTime)>,
}

impl Waits {
    pub fn new(clock: Clock) -> Waits {
        Waits {
            clock,
            open: Mutex::default(),
        }
    }

    /// Awaits `future`, listed as waiting if it is not done at once.
    ///
    /// # Errors
    /// `TimedOut` after `DEADLINE`, with what was waited for; `future` is dropped then.
    pub async fn wait<F: Future>(
        &self,
        who: Who,
        awaited: Awaited,
        future: F,
    ) -> Result<F::Output, Refusal> {
        let mut future = pin!(future);
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Ok(output);
        }
        let _listed = self.enter(who, awaited);
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = self.clock.sleep(DEADLINE) => Err(Refusal::TimedOut(awaited.to_string())),
        }
    }

    fn enter(&self, who: Who, awaited: Awaited) -> Listed<'_> {
        let mut open = self.open.lock();
        open.next += 1;
        let number = open.next;
        open.list.insert(number, (who, awaited, self.clock.boot()));
        Listed {
            waits: self,
            number,
        }
    }

    /// Longest first.
    pub fn status(&self) -> Vec<WaitStatus> {
        let now = self.clock.boot();
        let open = self.open.lock();
        open.list
            .values()
            .map(|(who, awaited, since)| WaitStatus {
                session: who.session,
                op: who.op,
                waits_for: awaited.to_string(),
                millis: now.since(*since).as_millis() as u64,
            })
            .collect()
    }
}

/// Leaves the list when the wait ends, however it ends.
struct Listed<'a> {
    waits: &'a Waits,
    number: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.waits.open.lock().list.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::fake::FakeWorld;
    use std::future::{pending, ready};

    const WHO: Who = Who {
        session: SessionId(3),
        op: "mkdir",
    };

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_listed_while_it_lasts_and_ends_at_its_deadline() {
        let waits = Waits::new(FakeWorld::new(1).platform().clock);
        let stuck = waits.wait(WHO, Awaited::Commit(Seq(7)), pending::<()>());
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
            Err(Refusal::TimedOut("the commit of change 7".into()))
        );
        assert_eq!(waits.status(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_at_once_is_not_listed() {
        let waits = Waits::new(FakeWorld::new(1).platform().clock);
        assert_eq!(waits.wait(WHO, Awaited::Records(1), ready(5)).await, Ok(5));
        assert_eq!(waits.open.lock().next, 0);
    }
}
