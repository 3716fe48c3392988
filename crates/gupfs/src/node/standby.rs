//! A process that has a copy of the metadata: clients and object servers wait until it owns the metadata, or go to the owner.

use futures_util::future::BoxFuture;
use gupfs_copies::MetadataCopy;
use gupfs_mds::MetaHandler;
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use gupfs_proto::meta::{MetaReply, MetaRequest};
use gupfs_proto::wire::ReplyMessage as _;
use gupfs_rpc::{
    Admission, Admitted, ConnectedPeer, ConnectionObserver, PeerHandler, PeerIdentity, Role,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a connection waits for this process to own the metadata. Then its peer asks again, and learns the addresses of new copies.
const HOLD: Duration = Duration::from_secs(3);

/// The part of a process that serves requests once it owns the metadata.
pub struct Standby {
    shared: Arc<Shared>,
    copy: Arc<MetadataCopy>,
}

struct Shared {
    owner: OnceLock<Arc<MetaHandler>>,
    /// Notified when this process owns the metadata.
    owns: Notify,
    clock: Clock,
}

impl Standby {
    pub fn new(copy: Arc<MetadataCopy>, clock: Clock) -> Arc<Standby> {
        Arc::new(Standby {
            shared: Arc::new(Shared {
                owner: OnceLock::new(),
                owns: Notify::new(),
                clock,
            }),
            copy,
        })
    }

    /// This process owns the metadata from now on.
    pub fn own(&self, handler: Arc<MetaHandler>) {
        // Set once: a process that loses the ownership ends.
        let _ = self.shared.owner.set(handler);
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
        // Other copies, and commands that ask for the state of this process, are served in any case.
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
            Some(handler) => handler.clone().handle(from, request).await,
            None => MetaReply::from_error(FsError::NotSupported),
        }
    }
}

impl ConnectionObserver for Standby {
    fn connected(&self, caller: &Arc<ConnectedPeer>) {
        if let Some(handler) = self.shared.owner.get() {
            handler.connected(caller);
        }
    }

    fn disconnected(&self, caller: &Arc<ConnectedPeer>) {
        if let Some(handler) = self.shared.owner.get() {
            handler.disconnected(caller);
        }
    }
}
