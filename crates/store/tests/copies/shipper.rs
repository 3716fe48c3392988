//! The owner's view of its copies: sends them each group, strikes those that fail, and brings others up to date.

use super::cluster::{Cluster, pause};
use super::host::Host;
use gupfs_store::kv::KvCopy;
use gupfs_store::log::{AppendError, CopyFuture, LogCopies, RecordGroup};
use std::sync::Arc;

#[derive(Clone)]
pub struct Shipper {
    pub cluster: Arc<Cluster>,
    pub owner: usize,
    pub epoch: u64,
}

impl LogCopies for Shipper {
    fn append(&self, group: RecordGroup) -> CopyFuture {
        let shipper = self.clone();
        Box::pin(async move { shipper.append_everywhere(group).await })
    }

    fn sync(&self, _last: gupfs_proto::Seq) -> CopyFuture {
        let shipper = self.clone();
        Box::pin(async move { shipper.sync_everywhere().await })
    }
}

impl Shipper {
    /// The copy on a host that can be reached.
    fn copy_on(&self, host: usize) -> Option<Arc<KvCopy>> {
        let can_reach = self.cluster.can_reach(self.owner, host);
        self.host(host).copy().filter(|_| can_reach)
    }

    fn host(&self, host: usize) -> &Host {
        &self.cluster.hosts[host]
    }

    async fn append_everywhere(&self, group: RecordGroup) -> Result<(), String> {
        for host in self.cluster.counting(self.epoch, self.owner)? {
            pause(&self.cluster.random, 3).await;
            let appended = match self.copy_on(host).filter(|_| self.cluster.has_memory(host)) {
                Some(copy) => copy.append(&group).await.is_ok(),
                None => false,
            };
            if !appended {
                self.cluster.strike(self.epoch, host)?;
            }
        }
        let joining = self.cluster.register.lock().joining.clone();
        for host in joining {
            pause(&self.cluster.random, 3).await;
            if self.join(host, &group).await.is_none() {
                self.cluster.strike(self.epoch, host)?;
            }
        }
        // A copy that was struck may be an owner by now: the records do not count then.
        self.cluster.counting(self.epoch, self.owner).map(|_| ())
    }

    /// Brings a copy up to date, with this group as its last step, and counts it from then on. None if it fails.
    async fn join(&self, host: usize, group: &RecordGroup) -> Option<()> {
        let run = self.host(host).run();
        let copy = self.copy_on(host)?;
        while let Err(error) = copy.append(group).await {
            let AppendError::NotContinuous { has } = error else {
                return None;
            };
            let kv = self.host(self.owner).kv()?;
            let missed = kv.records_after(has).await.ok()??;
            copy.append(&missed).await.ok()?;
        }
        copy.make_durable().await.ok()?;
        let joined = self.cluster.change(self.epoch, |register| {
            register.joining.remove(&host);
            register.counting.insert(host, run);
        });
        joined.ok()?;
        self.cluster.seen.lock().joined += 1;
        Some(())
    }

    async fn sync_everywhere(&self) -> Result<(), String> {
        for host in self.cluster.counting(self.epoch, self.owner)? {
            pause(&self.cluster.random, 3).await;
            let synced = match self.copy_on(host).filter(|_| self.cluster.has_memory(host)) {
                Some(copy) => copy.make_durable().await.is_ok(),
                None => false,
            };
            if !synced {
                self.cluster.strike(self.epoch, host)?;
            }
        }
        self.cluster.counting(self.epoch, self.owner).map(|_| ())
    }
}
