//! Calls under way: what each waits for and since when. An operation that hangs can so be asked why.

use crate::status::Waiting;
use gupfs_platform::BootTime;
use gupfs_proto::{InodeId, OstId};
use parking_lot::Mutex;

/// Whom a call went to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whom {
    Mds,
    Ost(OstId),
}

/// One call, as it is remembered while it is under way and reported when it is over.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub whom: Whom,
    pub what: &'static str,
    /// The inode in question; None for sessions, space and the like.
    pub ino: Option<InodeId>,
    pub since: BootTime,
}

#[derive(Default)]
pub struct Calls(Mutex<Table>);

#[derive(Default)]
struct Table {
    calls: Vec<Option<Call>>,
    free: Vec<usize>,
}

impl Calls {
    pub fn begin(&self, call: Call) -> Underway<'_> {
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
        Underway { calls: self, index }
    }

    /// Oldest first.
    pub fn waiting(&self, now: BootTime) -> Vec<Waiting> {
        let mut calls: Vec<Call> = self.0.lock().calls.iter().flatten().copied().collect();
        calls.sort_by_key(|call| call.since);
        calls
            .into_iter()
            .map(|call| Waiting::of(&call, now))
            .collect()
    }
}

/// A call that is under way until this is dropped.
pub struct Underway<'a> {
    calls: &'a Calls,
    index: usize,
}

impl Drop for Underway<'_> {
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
    fn a_call_is_listed_while_it_is_under_way() {
        let calls = Calls::default();
        let call = |since| Call {
            whom: Whom::Ost(OstId(2)),
            what: "write",
            ino: Some(InodeId(5)),
            since: BootTime(since),
        };
        let young = calls.begin(call(2_000_000));
        let old = calls.begin(call(1_000_000));
        let waiting = calls.waiting(BootTime(3_000_000));
        let ages: Vec<u64> = waiting.iter().map(|w| w.for_ms).collect();
        assert_eq!(ages, [2, 1]);
        assert_eq!(waiting[0].whom, "ost2");
        drop(young);
        drop(old);
        assert!(calls.waiting(BootTime(9)).is_empty());
    }
}
