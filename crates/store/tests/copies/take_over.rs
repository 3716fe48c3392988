//! A copy becomes the owner, and a host that was away becomes a copy again.

use super::cluster::{Cluster, pause};
use super::host::is_disk_error;
use super::shipper::Shipper;
use gupfs_proto::OwnerEpoch;
use gupfs_store::kv::{KvCopy, KvError};
use gupfs_store::log::{AppendError, CopySet, LogError};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

impl Cluster {
    /// Makes the host the owner, which has a copy: one that counts, or the longest one if none has kept its memory. Returns its last
    /// batch.
    pub async fn take_over(self: &Arc<Self>, host: usize) -> Result<u64, KvError> {
        let epoch = {
            let mut register = self.register.lock();
            register.epoch += 1;
            register.owner = host;
            register.joining.clear();
            register.epoch
        };
        let copy = self.hosts[host].copy().expect("a copy takes over");
        copy.refuse_before(OwnerEpoch(epoch));
        // Records of a group whose caller gave up may not be written yet.
        copy.make_durable().await?;
        let mut others = self.register.lock().counting.clone();
        others.remove(&host);
        for other in others.into_keys() {
            pause(&self.random, 6).await;
            let theirs = self.hosts[other].copy();
            let theirs = theirs.filter(|_| self.can_reach(host, other) && self.has_memory(other));
            let is_equal = match theirs {
                Some(theirs) => self.make_equal(epoch, &copy, other, &theirs).await,
                None => false,
            };
            if !is_equal {
                self.strike(epoch, other).expect("the newest owner");
            }
        }
        drop(copy);
        pause(&self.random, 6).await;
        self.hosts[host].stop_copy().await?;
        let copies = CopySet::new(Arc::new(Shipper::new(self.clone())));
        let becoming = self.hosts[host].become_owner(epoch, copies);
        // Another host may fail at this moment, too.
        let failing = async {
            pause(&self.random, 40).await;
            let other = self.random.below(self.hosts.len() as u64) as usize;
            if other != host && self.random.one_in(4) {
                self.hosts[other].kill(self.random.one_in(2));
                self.seen.lock().killed_meanwhile += 1;
            }
        };
        let (last, ()) = tokio::join!(becoming, failing);
        let last = last?;
        self.seen.lock().take_overs += 1;
        Ok(last.0)
    }

    /// Gives another copy the new owner's records, no more and no fewer.
    async fn make_equal(&self, epoch: u64, ours: &KvCopy, other: usize, theirs: &KvCopy) -> bool {
        theirs.refuse_before(OwnerEpoch(epoch));
        let end = ours.end();
        if theirs.end() == end {
            return true;
        }
        if theirs.has(end) {
            // Nothing behind this place was answered.
            self.seen.lock().tails_cut += 1;
            let host = &self.hosts[other];
            if host.stop_copy().await.is_err() {
                return false;
            }
            match host.open_copy(Some(end)).await {
                Ok(()) => {}
                Err(error) if is_disk_error(&error) => return false,
                Err(error) => panic!("host {other} does not drop its end: {error}"),
            }
            let again = host.copy().expect("just opened");
            again.refuse_before(OwnerEpoch(epoch));
            return again.end() == end;
        }
        while let Some(missed) = ours.records_after(theirs.end()).await.unwrap() {
            match theirs.append(&missed).await {
                Ok(_) => {}
                Err(AppendError::Log(_)) => return false,
                Err(error) => panic!("host {other} does not get its end: {error}"),
            }
        }
        assert_eq!(theirs.end(), end);
        self.seen.lock().tails_filled += 1;
        true
    }

    /// Starts a copy on a host that is down. It keeps what all later owners have, and the owner brings it up to date.
    pub async fn rejoin(&self, host: usize) {
        let opened = self.reopen(host).await;
        match opened {
            Ok(()) => {
                self.hosts[host].may_be_torn.store(true, SeqCst);
                self.register.lock().joining.insert(host);
            }
            // Records that it was given as durable, while it was brought up to date, were not synced: it begins anew.
            Err(KvError::Log(LogError::Damage { .. }))
                if self.hosts[host].may_be_torn.load(SeqCst) =>
            {
                self.hosts[host].wipe();
            }
            Err(error) if is_disk_error(&error) => {}
            Err(error) => panic!("host {host} does not rejoin: {error}"),
        }
    }

    async fn reopen(&self, host: usize) -> Result<(), KvError> {
        let host = &self.hosts[host];
        host.open_copy(None).await?;
        let decided = host.copy().expect("just opened").decided();
        host.stop_copy().await?;
        host.open_copy(Some(decided)).await
    }
}
