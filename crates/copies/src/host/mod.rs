//! # host: this host's copy of the metadata, for the owner and for copies that take over
//!
//! Owns   the open copy of the store, which owner it obeys, until when it has promised to let the owner serve.
//! Never  asks another host, reads the register.
//! Enter  at `CopyHost::open`; a request of another host at `Service::handle`.

mod promise;
mod requests;
mod snapshot;
mod store;

use crate::options::CopyOptions;
use gupfs_platform::Platform;
use gupfs_proto::copy::{CopyLogState, CopyState};
use gupfs_proto::{CopyId, CopyRun, OwnerEpoch};
use gupfs_store::kv::{KvCopy, KvOptions};
use gupfs_store::log::LogError;
use parking_lot::Mutex;
use promise::Promise;
use std::sync::Arc;
use store::HostStore;
pub use store::text_of;
use tokio::sync::Notify;

/// This host's copy of the metadata.
pub struct CopyHost {
    platform: Platform,
    id: CopyId,
    run: CopyRun,
    shards: gupfs_proto::VirtualShards,
    files: Arc<dyn crate::files::CopyFiles>,
    kv: KvOptions,
    store: Mutex<HostStore>,
    /// A request that closes the store and opens it again holds this; other requests get an error meanwhile.
    reopening: tokio::sync::Mutex<()>,
    /// Requests of owners before this one are refused.
    obeys: Mutex<OwnerEpoch>,
    promise: Mutex<Promise>,
    /// Why the open copy takes no more records: it stays so until it is opened again.
    failure: Mutex<Option<LogError>>,
    failure_notify: Notify,
}

impl CopyHost {
    pub fn new(options: &CopyOptions) -> CopyHost {
        CopyHost {
            platform: options.platform.clone(),
            id: options.id,
            run: options.run,
            shards: options.shards,
            files: options.files.clone(),
            kv: options.kv.clone(),
            store: Mutex::new(HostStore::Unusable("it is not open yet".into())),
            reopening: tokio::sync::Mutex::new(()),
            obeys: Mutex::new(OwnerEpoch(0)),
            promise: Mutex::new(Promise::default()),
            failure: Mutex::new(None),
            failure_notify: Notify::new(),
        }
    }

    /// The newest owner that this host has heard of.
    pub fn epoch(&self) -> OwnerEpoch {
        *self.obeys.lock()
    }

    /// From now on requests of owners before this one, and of owners of other shard groups, are refused.
    ///
    /// # Errors
    /// The newest owner that the host obeys, if this one does not follow it.
    pub fn obey(&self, owner: OwnerEpoch) -> Result<(), OwnerEpoch> {
        let mut obeys = self.obeys.lock();
        if !owner.may_follow(*obeys) {
            return Err(*obeys);
        }
        *obeys = owner;
        if let HostStore::Open(copy) = &*self.store.lock() {
            copy.refuse_before(owner);
        }
        Ok(())
    }

    /// A request to this copy failed. If the copy is open, its disk has failed, or its index.
    fn note_failure(&self, copy: &Arc<KvCopy>, error: &LogError) {
        let is_current = self.copy().is_some_and(|open| Arc::ptr_eq(&open, copy));
        if is_current {
            self.failure.lock().get_or_insert_with(|| error.clone());
            self.failure_notify.notify_waiters();
        }
    }

    /// Returns the error as soon as the open copy has failed. The process must end: only a copy that is opened again can be brought up to
    /// date.
    pub async fn failed(&self) -> LogError {
        loop {
            let mut fails = std::pin::pin!(self.failure_notify.notified());
            fails.as_mut().enable();
            if let Some(error) = &*self.failure.lock() {
                return error.clone();
            }
            fails.await;
        }
    }

    pub fn state(&self) -> CopyState {
        CopyState {
            copy: self.id,
            run: self.run,
            cluster: self.kv.log.store.cluster,
            incarnation: self.kv.log.store.incarnation,
            shards: self.shards,
            epoch: self.epoch(),
            log: self.log_state(),
        }
    }

    fn log_state(&self) -> CopyLogState {
        match &*self.store.lock() {
            HostStore::Owner => CopyLogState::Owner,
            HostStore::Open(copy) => CopyLogState::Open {
                end: copy.end(),
                newest: copy.epoch(),
                decided: copy.decided(),
                applied: copy.applied(),
            },
            HostStore::Loading(_) => CopyLogState::Unusable("it gets a snapshot".into()),
            HostStore::Unusable(why) => CopyLogState::Unusable(why.clone()),
        }
    }
}
