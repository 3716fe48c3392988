//! Calls to servers that are not answered yet: what each waits for and since when, so that `gupfs status` explains an operation
//! that hangs.

use crate::metrics::Observer;
use crate::server_call::{CalledServer, ServerCall};
use gupfs_platform::Clock;
use gupfs_proto::InodeId;
use parking_lot::Mutex;
use std::sync::Arc;

pub struct PendingCalls {
    clock: Clock,
    observer: Option<Arc<dyn Observer>>,
    table: Mutex<CallTable>,
}

#[derive(Default)]
struct CallTable {
    calls: Vec<Option<ServerCall>>,
    free: Vec<usize>,
}

impl PendingCalls {
    pub fn new(clock: Clock, observer: Option<Arc<dyn Observer>>) -> PendingCalls {
        PendingCalls {
            clock,
            observer,
            table: Mutex::default(),
        }
    }

    pub fn begin(
        &self,
        server: CalledServer,
        operation: &'static str,
        ino: Option<InodeId>,
    ) -> PendingCall<'_> {
        self.list(ServerCall {
            server,
            operation,
            ino,
            since: self.clock.boot(),
        })
    }

    fn list(&self, call: ServerCall) -> PendingCall<'_> {
        PendingCall {
            calls: self,
            index: self.table.lock().add(call),
            call,
        }
    }

    /// Oldest first.
    pub fn pending(&self) -> Vec<ServerCall> {
        let mut calls: Vec<ServerCall> =
            (self.table.lock().calls.iter().flatten().copied()).collect();
        calls.sort_by_key(|call| call.since);
        calls
    }
}

impl CallTable {
    fn add(&mut self, call: ServerCall) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.calls[index] = Some(call);
                index
            }
            None => {
                self.calls.push(Some(call));
                self.calls.len() - 1
            }
        }
    }
}

/// A call that is listed as pending until this is dropped.
pub struct PendingCall<'a> {
    calls: &'a PendingCalls,
    index: usize,
    call: ServerCall,
}

impl PendingCall<'_> {
    /// The call has ended: removes it from the list, then reports it to the observer.
    pub fn finish(self, succeeded: bool) {
        let (calls, call) = (self.calls, self.call);
        drop(self);
        if let Some(observer) = &calls.observer {
            let took = calls.clock.boot().since(call.since);
            observer.call_finished(&call, took, succeeded);
        }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        let mut table = self.calls.table.lock();
        table.calls[self.index] = None;
        table.free.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_platform::{BootTime, Platform};
    use gupfs_proto::OstId;

    #[test]
    fn a_call_is_listed_while_it_is_pending() {
        let calls = PendingCalls::new(Platform::real().clock, None);
        let call = |since| ServerCall {
            server: CalledServer::Ost(OstId(2)),
            operation: "write",
            ino: Some(InodeId(5)),
            since: BootTime(since),
        };
        let young = calls.list(call(2_000_000));
        let old = calls.list(call(1_000_000));
        let since: Vec<u64> = calls.pending().iter().map(|call| call.since.0).collect();
        assert_eq!(since, [1_000_000, 2_000_000]);
        drop(young);
        old.finish(true);
        assert!(calls.pending().is_empty());
    }
}
