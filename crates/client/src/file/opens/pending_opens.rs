//! Opens that are not answered yet: the client answers the server's question whether a file is open only when they have ended.

use gupfs_proto::InodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::Notify;

#[derive(Default)]
pub struct PendingOpens {
    table: Mutex<PendingOpenTable>,
    ended: Notify,
}

#[derive(Default)]
struct PendingOpenTable {
    last_number: u64,
    /// The inode of each pending open; None while only its name is known.
    inodes: BTreeMap<u64, Option<InodeId>>,
}

impl PendingOpens {
    /// Called before the open is sent. It ends when the file is listed as open, or the open has failed.
    pub fn begin(&self, ino: Option<InodeId>) -> PendingOpen<'_> {
        let mut table = self.table.lock();
        table.last_number += 1;
        let number = table.last_number;
        table.inodes.insert(number, ino);
        PendingOpen {
            opens: self,
            number,
        }
    }

    /// Waits for the opens of these files that are pending now, and for no later ones.
    pub async fn wait_for(&self, inodes: &[InodeId]) {
        self.wait_while(|ino| ino.is_none_or(|ino| inodes.contains(&ino)))
            .await;
    }

    /// The same for opens that may create a file, but no longer than until `is_over`: another of them may wait for a client that waits for the
    /// caller.
    pub async fn wait_for_creates(&self, is_over: impl Fn() -> bool) {
        self.wait_while(|ino| ino.is_none() && !is_over()).await;
    }

    async fn wait_while(&self, is_awaited: impl Fn(Option<InodeId>) -> bool) {
        let last = self.table.lock().last_number;
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            let waits = {
                let table = self.table.lock();
                let mut earlier = table.inodes.range(..=last);
                earlier.any(|(_, ino)| is_awaited(*ino))
            };
            if !waits {
                return;
            }
            ended.await;
        }
    }
}

/// An open that is pending until this is dropped.
pub struct PendingOpen<'a> {
    opens: &'a PendingOpens,
    number: u64,
}

impl Drop for PendingOpen<'_> {
    fn drop(&mut self) {
        self.opens.table.lock().inodes.remove(&self.number);
        self.opens.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn a_wait_for_creates_ends_with_the_one_that_is_awaited() {
        let opening = PendingOpens::default();
        let is_over = std::cell::Cell::new(false);
        opening.wait_for_creates(|| is_over.get()).await;
        let first = opening.begin(None);
        let _second = opening.begin(None);
        let mut waiting = Box::pin(opening.wait_for_creates(|| is_over.get()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        is_over.set(true);
        drop(first);
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }

    #[tokio::test]
    async fn wait_for_waits_only_for_earlier_opens_of_these_files() {
        let (one, two) = (InodeId(1), InodeId(2));
        let opening = PendingOpens::default();
        let _other = opening.begin(Some(two));
        opening.wait_for(&[one]).await;
        let first = opening.begin(Some(one));
        let by_name = opening.begin(None);
        let these = [one];
        let mut settled = Box::pin(opening.wait_for(&these));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(settled.as_mut().poll(&mut cx).is_pending());
        let _later = opening.begin(Some(one));
        drop(first);
        assert!(settled.as_mut().poll(&mut cx).is_pending());
        drop(by_name);
        assert!(settled.as_mut().poll(&mut cx).is_ready());
    }
}
