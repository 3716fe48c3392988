//! What a metadata server is started with.

use crate::limits::{REBUILD_AFTER, SCRUB_PERIOD};
use crate::osts::TargetHandle;
use crate::successor::Successor;
use crate::survey::SurveyedTarget;
use gupfs_platform::{Disk, Platform};
use gupfs_proto::limits::VIRTUAL_SHARDS_DEFAULT;
use gupfs_proto::{ClusterId, DomainName, Incarnation, VirtualShards};
use gupfs_rpc::{ClusterKey, DialOss};
use gupfs_store::kv::{Kv, KvRecovery};
use std::sync::Arc;
use std::time::Duration;

/// What a server is started with.
pub struct MdsOptions {
    /// The open store, which nothing else changes, and what recovery found in it.
    pub kv: Arc<Kv>,
    pub found: KvRecovery,
    /// The disk that holds the store; used only to ask for its free space.
    pub disk: Disk,
    pub platform: Platform,
    pub cluster: ClusterId,
    /// For formatting an empty store: its incarnation and its number of virtual shards.
    pub incarnation: Incarnation,
    pub shards: VirtualShards,
    pub targets: Vec<TargetHandle>,
    /// The failure domain of these targets, if it has a name.
    pub domain: Option<DomainName>,
    /// How to reach the servers of remote targets; None when there are none.
    pub dial: Option<Arc<dyn DialOss>>,
    /// The cluster's key: one half of the key material of capabilities, where there are remote servers.
    pub key: Option<ClusterKey>,
    /// Start although the store is an older copy, and accept targets whose identity changed: the operator knows that
    /// everything they lack is lost.
    pub accept_loss: bool,
    /// What remote servers reported of their targets before the start (`TargetSurvey`), if loss is accepted.
    pub surveyed: Vec<SurveyedTarget>,
    /// After so long the stale members on an OST that is down get other OSTs; None: they wait for it.
    pub rebuild_after: Option<Duration>,
    /// Bytes that the resync may copy a second; None: any number.
    pub resync_rate: Option<u64>,
    /// All objects are verified once in so long; None: only if an administrator asks for it.
    pub scrub_period: Option<Duration>,
    /// Sessions outlive this server: a client that reports in time after a start keeps its session. Otherwise every start
    /// ends all sessions.
    pub keep_sessions: bool,
    /// Another server goes on at once when this one stops: programs wait for the stop, so it leaves to the other one what takes long.
    pub hands_over: bool,
    /// Who owns the metadata instead when this server's disk has only its reserve left; None: no other server can.
    pub successor: Option<Arc<dyn Successor>>,
    /// Everything that the former owner answered is in the store, although it may not have stopped in order: no client has to replay a change.
    pub kept_memory: bool,
}

impl MdsOptions {
    pub fn new(
        (kv, found): (impl Into<Arc<Kv>>, KvRecovery),
        disk: Disk,
        platform: Platform,
        cluster: ClusterId,
        incarnation: Incarnation,
    ) -> MdsOptions {
        MdsOptions {
            kv: kv.into(),
            found,
            disk,
            platform,
            cluster,
            incarnation,
            shards: VirtualShards(VIRTUAL_SHARDS_DEFAULT),
            targets: Vec::new(),
            domain: None,
            dial: None,
            key: None,
            accept_loss: false,
            surveyed: Vec::new(),
            rebuild_after: Some(REBUILD_AFTER),
            resync_rate: None,
            scrub_period: Some(SCRUB_PERIOD),
            keep_sessions: false,
            hands_over: false,
            successor: None,
            kept_memory: false,
        }
    }
}
