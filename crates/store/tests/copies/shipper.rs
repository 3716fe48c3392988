//! The owner's view of its copies: sends them each group, strikes those that fail, and brings others up to date.

use super::cluster::{Cluster, pause};
use super::host::Host;
use gupfs_store::kv::KvCopy;
use gupfs_store::log::{AppendError, CopyFuture, LogCopies, LogError, RecordGroup};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone)]
pub struct Shipper {
    cluster: Arc<Cluster>,
    owner: usize,
    epoch: u64,
    /// The other copies that count, each with the run of its process, as far as this owner knows: it asks the register only to change it.
    counting: Arc<Mutex<BTreeMap<usize, u64>>>,
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

    // The process ends when a task finds its log closed.
    fn failed(&self, _why: &LogError) {}
}

impl Shipper {
    pub fn new(cluster: Arc<Cluster>) -> Shipper {
        let register = cluster.register.lock().clone();
        let mut counting = register.counting;
        counting.remove(&register.owner);
        Shipper {
            owner: register.owner,
            epoch: register.epoch,
            counting: Arc::new(Mutex::new(counting)),
            cluster,
        }
    }

    /// The copies in an order that differs.
    fn counting(&self) -> Vec<(usize, u64)> {
        let counting = self.counting.lock();
        let mut counting: Vec<(usize, u64)> = counting.iter().map(|(k, v)| (*k, *v)).collect();
        if self.cluster.random.one_in(2) {
            counting.reverse();
        }
        counting
    }

    fn strike(&self, host: usize) -> Result<(), String> {
        self.cluster.strike(self.epoch, host)?;
        self.counting.lock().remove(&host);
        Ok(())
    }

    /// The copy on a host that can be reached.
    fn copy_on(&self, host: usize) -> Option<Arc<KvCopy>> {
        let can_reach = self.cluster.can_reach(self.owner, host);
        self.host(host).copy().filter(|_| can_reach)
    }

    fn host(&self, host: usize) -> &Host {
        &self.cluster.hosts[host]
    }

    async fn append_everywhere(&self, group: RecordGroup) -> Result<(), String> {
        for (host, run) in self.counting() {
            pause(&self.cluster.random, 3).await;
            let appended = match self.copy_on(host).filter(|_| self.host(host).run() == run) {
                Some(copy) => {
                    let append = self.host(host).while_it_runs(copy.append(&group)).await;
                    append.is_some_and(|appended| appended.is_ok())
                }
                None => false,
            };
            if !appended {
                self.strike(host)?;
            }
        }
        let joining = self.cluster.joining(self.epoch);
        for host in joining {
            pause(&self.cluster.random, 3).await;
            let join = self.join(host, &group);
            if self
                .host(host)
                .while_it_runs(join)
                .await
                .flatten()
                .is_none()
            {
                self.strike(host)?;
            }
        }
        Ok(())
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
        self.counting.lock().insert(host, run);
        self.host(host).may_be_torn.store(false, SeqCst);
        self.cluster.seen.lock().joined += 1;
        Some(())
    }

    async fn sync_everywhere(&self) -> Result<(), String> {
        for (host, run) in self.counting() {
            pause(&self.cluster.random, 3).await;
            let synced = match self.copy_on(host).filter(|_| self.host(host).run() == run) {
                Some(copy) => {
                    let sync = self.host(host).while_it_runs(copy.make_durable()).await;
                    sync.is_some_and(|synced| synced.is_ok())
                }
                None => false,
            };
            if !synced {
                self.strike(host)?;
            }
        }
        Ok(())
    }
}
