//! The services of a process that has a copy: clients and object servers wait until it owns the metadata, or go to the owner, as in
//! `gupfs mds`.

use crate::cluster::request_monitor::MonitoredMeta;
use futures_util::future::BoxFuture;
use gupfs_copies::MetadataCopy;
use gupfs_mds::Mds;
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use gupfs_proto::cluster::{ClusterReply, ClusterRequest};
use gupfs_proto::meta::{MetaReply, MetaRequest};
use gupfs_proto::wire::ReplyMessage as _;
use gupfs_rpc::{
    Admission, Admitted, ConnectedPeer, ConnectionObserver, PeerHandler, PeerIdentity, Role,
    Service,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// As long as `gupfs mds` lets a connection wait.
const HOLD: Duration = Duration::from_secs(3);

pub struct Standby {
    shared: Arc<Shared>,
    copy: Arc<MetadataCopy>,
}

struct Shared {
    owner: OnceLock<(Arc<MonitoredMeta>, Arc<Mds>)>,
    /// Notified when this process owns the metadata.
    owns: Notify,
    clock: Clock,
}

impl Standby {
    pub fn new(copy: &Arc<MetadataCopy>, clock: Clock) -> Arc<Standby> {
        Arc::new(Standby {
            shared: Arc::new(Shared {
                owner: OnceLock::new(),
                owns: Notify::new(),
                clock,
            }),
            copy: copy.clone(),
        })
    }

    /// This process owns the metadata from now on.
    pub fn own(&self, monitored: MonitoredMeta, mds: &Arc<Mds>) {
        let owner = (Arc::new(monitored), mds.clone());
        assert!(self.shared.owner.set(owner).is_ok(), "it owns once");
        self.shared.owns.notify_waiters();
    }
}

impl Shared {
    async fn wait_owner(&self) {
        loop {
            let mut owns = std::pin::pin!(self.owns.notified());
            owns.as_mut().enable();
            if self.owner.get().is_some() {
                return;
            }
            owns.await;
        }
    }
}

impl Admission for Standby {
    fn admit(&self, peer: &PeerIdentity) -> BoxFuture<'static, Admitted> {
        if matches!(peer.role, Role::Mds | Role::Visitor) {
            return Box::pin(std::future::ready(Admitted::Welcome));
        }
        let shared = self.shared.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = shared.wait_owner() => Admitted::Welcome,
                () = shared.clock.sleep(HOLD) => Admitted::Rejected {
                    why: "this host has a copy of the metadata, and does not own it".into(),
                },
            }
        })
    }

    fn addresses(&self) -> Vec<String> {
        let register = self.copy.register();
        register
            .map(|register| register.addresses())
            .unwrap_or_default()
    }
}

impl PeerHandler<MetaRequest, MetaReply> for Standby {
    async fn handle(self: Arc<Self>, from: Arc<ConnectedPeer>, request: MetaRequest) -> MetaReply {
        match self.shared.owner.get() {
            Some((monitored, _)) => monitored.clone().handle(from, request).await,
            None => MetaReply::from_error(FsError::NotSupported),
        }
    }
}

impl Service<ClusterRequest, ClusterReply> for Standby {
    async fn handle(self: Arc<Self>, request: ClusterRequest) -> ClusterReply {
        match self.shared.owner.get() {
            Some((_, mds)) => mds.clone().handle(request).await,
            None => Err(FsError::NotSupported),
        }
    }
}

impl ConnectionObserver for Standby {
    fn connected(&self, caller: &Arc<ConnectedPeer>) {
        if let Some((monitored, _)) = self.shared.owner.get() {
            monitored.handler.connected(caller);
        }
    }

    fn disconnected(&self, caller: &Arc<ConnectedPeer>) {
        if let Some((monitored, _)) = self.shared.owner.get() {
            monitored.handler.disconnected(caller);
        }
    }
}
