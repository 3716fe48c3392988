//! Orphans that nobody knows any more, on their way to the server in batches.

use crate::answer;
use crate::ledger::Gone;
use crate::limits::{FORGET_BATCH, FORGET_DELAY};
use crate::service::Client;
use gupfs_proto::meta::Op;
use gupfs_proto::{Caller, InodeId, Refusal};
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Default)]
pub struct Forgets(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    gone: Vec<InodeId>,
    /// A task is about to send them.
    awaited: bool,
}

impl Forgets {
    /// The session that held them has ended, and they are given up with it.
    pub fn lose(&self) {
        self.0.lock().gone.clear();
    }
}

impl Client {
    /// The kernel (or another user) gives back entries it was given.
    pub fn forget(self: &Arc<Self>, given_back: impl IntoIterator<Item = (InodeId, u64)>) {
        let gone: Vec<Gone> = {
            let mut ledger = self.ledger.lock();
            let verdicts = given_back
                .into_iter()
                .map(|(ino, count)| ledger.forgot(ino, count));
            verdicts.flatten().collect()
        };
        self.tell_gone(gone);
    }

    /// Counts entries as given that were not counted yet: those of `readdir` with attributes that reached their reader.
    pub fn gave(&self, inodes: impl IntoIterator<Item = InodeId>) {
        let mut ledger = self.ledger.lock();
        inodes.into_iter().for_each(|ino| ledger.gave(ino));
    }

    /// Queues what is gone, and sees to it that it is sent soon.
    pub(crate) fn tell_gone(self: &Arc<Self>, gone: impl IntoIterator<Item = Gone>) {
        let start = {
            let mut queue = self.forgets.0.lock();
            queue.gone.extend(gone.into_iter().map(|gone| gone.0));
            let start = !queue.gone.is_empty() && !queue.awaited;
            queue.awaited |= start;
            start
        };
        if start {
            let client = self.clone();
            self.platform.tasks.spawn("tell forgotten inodes", async move {
                client.platform.clock.sleep(FORGET_DELAY).await;
                client.forgets.0.lock().awaited = false;
                if let Err(refusal) = client.send_gone().await {
                    tracing::warn!(%refusal, "removed files could not be given up; tried again with the next");
                }
            });
        }
    }

    /// Sends all that is queued; what is refused stays queued.
    pub(crate) async fn send_gone(&self) -> Result<(), Refusal> {
        loop {
            let batch: Vec<InodeId> = {
                let mut queue = self.forgets.0.lock();
                let take = queue.gone.len().min(FORGET_BATCH);
                queue.gone.drain(..take).collect()
            };
            if batch.is_empty() {
                return Ok(());
            }
            self.table.left.lock().forget(&batch);
            let op = Op::Forgotten {
                inodes: batch.clone(),
            };
            let told = self.ask(&Caller::root(), op).await;
            if let Err(refusal) = told.and_then(|answer| answer::done("forgotten", answer)) {
                self.forgets.0.lock().gone.extend(batch);
                return Err(refusal);
            }
        }
    }
}
