//! Opens under way: who is asked whether a file is open answers when it is known.

use gupfs_proto::InodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::Notify;

#[derive(Default)]
pub struct Opening {
    table: Mutex<Table>,
    ended: Notify,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// Of which file; None while only its name is known.
    under_way: BTreeMap<u64, Option<InodeId>>,
}

impl Opening {
    /// Before the question is sent. Ends when the file is listed as open, or will not be.
    pub fn begin(&self, ino: Option<InodeId>) -> Underway<'_> {
        let mut table = self.table.lock();
        table.next += 1;
        let number = table.next;
        table.under_way.insert(number, ino);
        Underway {
            opening: self,
            number,
        }
    }

    /// Waits for the opens of these files that are under way now, and for no later ones.
    pub async fn settled(&self, inodes: &[InodeId]) {
        let last = self.table.lock().next;
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            let waits = {
                let table = self.table.lock();
                let mut earlier = table.under_way.range(..=last);
                earlier.any(|(_, ino)| ino.is_none_or(|ino| inodes.contains(&ino)))
            };
            if !waits {
                return;
            }
            ended.await;
        }
    }
}

/// An open that is under way until this is dropped.
pub struct Underway<'a> {
    opening: &'a Opening,
    number: u64,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.opening.table.lock().under_way.remove(&self.number);
        self.opening.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn only_opens_of_these_files_that_began_before_are_waited_for() {
        let (one, two) = (InodeId(1), InodeId(2));
        let opening = Opening::default();
        let _other = opening.begin(Some(two));
        opening.settled(&[one]).await;
        let first = opening.begin(Some(one));
        let by_name = opening.begin(None);
        let these = [one];
        let mut settled = Box::pin(opening.settled(&these));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(settled.as_mut().poll(&mut cx).is_pending());
        let _later = opening.begin(Some(one));
        drop(first);
        assert!(settled.as_mut().poll(&mut cx).is_pending());
        drop(by_name);
        assert!(settled.as_mut().poll(&mut cx).is_ready());
    }
}
