//! Handles requests of other processes: authorizes each one before the object server handles it.

use crate::Oss;
use crate::authorization::AuthorizedRequest;
use gupfs_platform::Clock;
use gupfs_proto::FsError;
use gupfs_proto::capability::{CapabilityFault, DataCredentials};
use gupfs_proto::data::{DataReply, DataRequest};
use gupfs_rpc::{ConnectedPeer, PeerHandler, Service};
use std::sync::Arc;

/// Requests from within the process bypass it and go to `Oss`.
pub struct DataHandler {
    oss: Arc<Oss>,
    clock: Clock,
}

impl DataHandler {
    /// The handler of requests to this object server's targets.
    pub fn new(oss: &Arc<Oss>, clock: &Clock) -> Arc<DataHandler> {
        Arc::new(DataHandler {
            oss: oss.clone(),
            clock: clock.clone(),
        })
    }
}

impl PeerHandler<DataRequest, DataReply> for DataHandler {
    async fn handle(self: Arc<Self>, from: Arc<ConnectedPeer>, request: DataRequest) -> DataReply {
        let authorized = tokio::select! {
            biased;
            authorized = self.authorize(&request) => authorized,
            // The server accepts the client's next fenced connection only when no request of this one is running.
            () = from.wait_closed() => return Err(FsError::TimedOut("the requester disconnected".into())),
        };
        // Held until the reply is ready: a fence of the session waits for it.
        let _authorized = match authorized {
            Ok(authorized) => authorized,
            Err(fault) => {
                if let Some(down) = self.target_error(&request, fault) {
                    return Err(down);
                }
                self.log_refused(&from, &request, fault);
                return Err(FsError::Capability(fault));
            }
        };
        self.oss.clone().handle(request).await
    }
}

impl DataHandler {
    /// Authorizes a request, after the metadata server's verdict on the target has arrived. Before that the authorizer may have
    /// no keys and would refuse valid requests: the metadata server and its clients know that a target serves before the object
    /// server does, while the reply to its report is still in flight.
    ///
    /// # Errors
    /// As of `Authorizer::authorize`.
    pub(crate) async fn authorize(
        &self,
        request: &DataRequest,
    ) -> Result<AuthorizedRequest, CapabilityFault> {
        self.oss.wait_for_verdict(request.ost).await;
        self.oss.authorizer().authorize(request, self.clock.boot())
    }

    /// The error of a target that does not serve here, instead of `Expired`: the authorizer has no key of it, so every client
    /// capability looks expired, and the client would get new capabilities and retry. The metadata server does get `Expired` and
    /// retries: it may know of the target before this server has received the reply to its report.
    fn target_error(&self, request: &DataRequest, fault: CapabilityFault) -> Option<FsError> {
        let by_client = matches!(request.credentials, DataCredentials::Client { .. });
        match fault {
            CapabilityFault::Expired if by_client => self.oss.objects(request.ost).err(),
            _ => None,
        }
    }

    fn log_refused(&self, peer: &ConnectedPeer, request: &DataRequest, fault: CapabilityFault) {
        let (op, ost, session) = (request.op.name(), request.ost, request.session);
        let (name, at) = (&peer.identity().name, peer.address());
        if fault == CapabilityFault::Expired {
            // Not an attack: a client that was disconnected for a while renews its capability.
            tracing::info!(%ost, %session, op, name, at, %fault, "data request refused");
            return;
        }
        tracing::warn!(%ost, %session, op, name, at, %fault, "data request refused");
        let last = format!("{name} at {at}, session {session}, {op} on ost{ost}: {fault}");
        self.oss.authorizer().set_last_refused(last);
    }
}
