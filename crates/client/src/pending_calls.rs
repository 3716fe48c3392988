//! Calls to servers that are not answered yet: what each waits for and since when, so that `gupfs status` explains an operation
//! that hangs.

use crate::status::PendingCallStatus;
use gupfs_platform::BootTime;
use gupfs_proto::{InodeId, OstId};
use parking_lot::Mutex;

/// The server that a call went to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalledServer {
    Mds,
    Ost(OstId),
}

/// One call to a server: listed while it is pending, reported to the observer when it ends.
#[derive(Clone, Copy, Debug)]
pub struct ServerCall {
    pub server: CalledServer,
    pub operation: &'static str,
    /// The inode that the call is about; None for sessions, space and the like.
    pub ino: Option<InodeId>,
    pub since: BootTime,
}

#[derive(Default)]
pub struct PendingCalls(Mutex<CallTable>);

#[derive(Default)]
struct CallTable {
    calls: Vec<Option<ServerCall>>,
    free: Vec<usize>,
}

impl PendingCalls {
    pub fn begin(&self, call: ServerCall) -> PendingCall<'_> {
        let mut table = self.0.lock();
        let index = match table.free.pop() {
            Some(index) => {
                table.calls[index] = Some(call);
                index
            }
            None => {
                table.calls.push(Some(call));
                table.calls.len() - 1
            }
        };
        PendingCall { calls: self, index }
    }

    /// Oldest first.
    pub fn pending(&self, now: BootTime) -> Vec<PendingCallStatus> {
        let mut calls: Vec<ServerCall> = self.0.lock().calls.iter().flatten().copied().collect();
        calls.sort_by_key(|call| call.since);
        calls
            .into_iter()
            .map(|call| PendingCallStatus::of(&call, now))
            .collect()
    }
}

/// A call that is listed as pending until this is dropped.
pub struct PendingCall<'a> {
    calls: &'a PendingCalls,
    index: usize,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let mut table = self.calls.0.lock();
        table.calls[self.index] = None;
        table.free.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_listed_while_it_is_pending() {
        let calls = PendingCalls::default();
        let call = |since| ServerCall {
            server: CalledServer::Ost(OstId(2)),
            operation: "write",
            ino: Some(InodeId(5)),
            since: BootTime(since),
        };
        let young = calls.begin(call(2_000_000));
        let old = calls.begin(call(1_000_000));
        let pending = calls.pending(BootTime(3_000_000));
        let ages: Vec<u64> = pending.iter().map(|w| w.for_ms).collect();
        assert_eq!(ages, [2, 1]);
        assert_eq!(pending[0].server, "ost2");
        drop(young);
        drop(old);
        assert!(calls.pending(BootTime(9)).is_empty());
    }
}
