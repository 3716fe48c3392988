//! Connections to the hosts of the other copies.

use gupfs_platform::Clock;
use gupfs_proto::copy::{
    CopyOp, CopyRefusal, CopyReply, CopyReplyBody, CopyRequest, CopyState, LogPosition,
};
use gupfs_proto::{CopyId, CopyRun, FsError};
use gupfs_rpc::{
    ClientConnection, Handlers, LocalIdentity, Peer, ProcessIdentity, ServerAddresses,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Connections to copies, by address; made at first use.
pub struct CopyPeers {
    identity: ProcessIdentity,
    local: LocalIdentity,
    clock: Clock,
    connections: Mutex<BTreeMap<String, Arc<ClientConnection>>>,
}

/// Why a copy did not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CopyCallError {
    #[error("{0}")]
    Refused(CopyRefusal),
    #[error("it does not answer")]
    TimedOut,
    #[error("{0}")]
    Failed(FsError),
    #[error("its reply does not belong to the request")]
    Malformed,
}

/// One process of a copy on another host.
#[derive(Clone)]
pub struct CopyPeer {
    pub id: CopyId,
    /// None: whichever process runs there.
    pub run: Option<CopyRun>,
    peer: Peer<CopyRequest, CopyReply>,
    clock: Clock,
    /// Clones share it. The same process may be struck and count again: then it is another one.
    identity: Arc<()>,
}

impl CopyPeers {
    pub fn new(identity: &ProcessIdentity, local: &LocalIdentity) -> CopyPeers {
        CopyPeers {
            identity: identity.clone(),
            local: local.clone(),
            clock: identity.platform.clock.clone(),
            connections: Mutex::default(),
        }
    }

    pub fn copy_at(&self, address: &str, id: CopyId, run: Option<CopyRun>) -> CopyPeer {
        let mut connections = self.connections.lock();
        let connection = connections.entry(address.to_string()).or_insert_with(|| {
            let addresses = ServerAddresses::fixed(address);
            let mut options =
                self.identity
                    .mds_connection_options(&addresses, &self.local, Handlers::none());
            options.peer_name = "a copy of the metadata".into();
            ClientConnection::connect(options)
        });
        CopyPeer {
            id,
            run,
            peer: connection.peer(),
            clock: self.clock.clone(),
            identity: Arc::default(),
        }
    }

    /// Closes the connections to all other addresses.
    pub fn retain(&self, addresses: &[String]) {
        let mut connections = self.connections.lock();
        connections.retain(|address, _| addresses.contains(address));
    }
}

impl CopyPeer {
    /// Whether one is a clone of the other.
    pub fn is(&self, other: &CopyPeer) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }

    /// Asks the copy to do something; returns where its log ends then.
    ///
    /// # Errors
    /// As `CopyCallError` says; after `TimedOut` and `Failed` it may have done it.
    pub async fn call(&self, op: CopyOp, timeout: Duration) -> Result<LogPosition, CopyCallError> {
        match self.request(op, timeout).await? {
            CopyReplyBody::End(end) => Ok(end),
            _ => Err(CopyCallError::Malformed),
        }
    }

    /// Asks the copy for its state, with `State` or `Obey`.
    ///
    /// # Errors
    /// As of `call`.
    pub async fn state(&self, op: CopyOp, timeout: Duration) -> Result<CopyState, CopyCallError> {
        match self.request(op, timeout).await? {
            CopyReplyBody::State(state) => Ok(state),
            _ => Err(CopyCallError::Malformed),
        }
    }

    /// Whether the copy says that its disk has room. A process of a former version does not say it.
    pub async fn has_room(&self, timeout: Duration) -> bool {
        let reply = self.request(CopyOp::HasRoom, timeout).await;
        matches!(reply, Ok(CopyReplyBody::HasRoom(true)))
    }

    async fn request(&self, op: CopyOp, timeout: Duration) -> Result<CopyReplyBody, CopyCallError> {
        let request = CopyRequest {
            to: Some(self.id),
            run: self.run,
            op,
        };
        let reply = tokio::select! {
            biased;
            reply = self.peer.call(request) => reply,
            () = self.clock.sleep(timeout) => return Err(CopyCallError::TimedOut),
        };
        match reply {
            Ok(CopyReplyBody::Refused(refusal)) => Err(CopyCallError::Refused(refusal)),
            Ok(body) => Ok(body),
            Err(error) => Err(CopyCallError::Failed(error)),
        }
    }
}
