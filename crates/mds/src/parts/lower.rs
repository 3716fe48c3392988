//! The parts below the driver of the state machine.

use super::MdsPartsInput;
use crate::callback::CallbackTable;
use crate::grace::Grace;
use crate::locks::{LockService, LockServiceParts};
use crate::metadata_leases::{LeaseService, LeaseServiceParts};
use crate::placement::Placement;
use crate::reserve::MetadataReserve;
use crate::serving::ServingState;
use crate::session_registry::SessionRegistry;
use crate::shard::{SessionTable, Shard};
use crate::stats::MdsStats;
use crate::store::MetadataStore;
use crate::waits::WaitList;
use parking_lot::Mutex;
use std::sync::Arc;

pub struct LowerParts {
    pub serving: Arc<ServingState>,
    pub waits: Arc<WaitList>,
    pub stats: Arc<MdsStats>,
    pub store: Arc<MetadataStore>,
    pub shard: Arc<Mutex<Shard>>,
    pub sessions: SessionTable,
    pub callbacks: Arc<CallbackTable>,
    pub locks: Arc<LockService>,
    pub leases: Arc<LeaseService>,
    pub grace: Arc<Grace>,
    pub registry: Arc<SessionRegistry>,
    pub placement: Arc<Placement>,
    pub reserve: Arc<MetadataReserve>,
}

impl LowerParts {
    pub fn new(input: &MdsPartsInput) -> LowerParts {
        let clock = &input.platform.clock;
        let serving = Arc::new(ServingState::default());
        let waits = Arc::new(WaitList::new(clock.clone()));
        let stats = Arc::new(MdsStats::default());
        let store = Arc::new(MetadataStore::new(
            input.kv.clone(),
            &input.platform,
            input.shards,
            serving.clone(),
            waits.clone(),
            stats.clone(),
        ));
        let shard = Arc::new(Mutex::new(Shard::new(&input.platform)));
        let sessions = SessionTable::new(shard.clone());
        let callbacks = Arc::new(CallbackTable::new(sessions.clone(), clock.clone()));
        let locks = Arc::new(LockService::new(LockServiceParts {
            sessions: sessions.clone(),
            callbacks: callbacks.clone(),
            waits: waits.clone(),
            store: store.clone(),
            serving: serving.clone(),
            platform: input.platform.clone(),
            owner_epoch: input.owner_epoch,
        }));
        let leases = Arc::new(LeaseService::new(LeaseServiceParts {
            shard: shard.clone(),
            callbacks: callbacks.clone(),
            waits: waits.clone(),
            clock: clock.clone(),
            owner_epoch: input.owner_epoch,
            sessions_expire: input.keeps_sessions,
        }));
        let grace = Arc::new(Grace::new(waits.clone()));
        let registry = Arc::new(SessionRegistry::new(
            shard.clone(),
            store.clone(),
            callbacks.clone(),
            locks.clone(),
            grace.clone(),
            input.issuer.clone(),
            clock.clone(),
        ));
        LowerParts {
            placement: Arc::new(Placement::new(shard.clone(), input.targets.clone())),
            reserve: Arc::new(MetadataReserve::default()),
            serving,
            waits,
            stats,
            store,
            shard,
            sessions,
            callbacks,
            locks,
            leases,
            grace,
            registry,
        }
    }
}
