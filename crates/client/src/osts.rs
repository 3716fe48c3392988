//! # osts: one operation of an OST, sent and answered
//!
//! Owns   the route of a request: the peer that serves the target now, and the credentials that it requires.
//! Never  knows what an object belongs to.
//! Enter  at `OstCalls::call`.

use crate::limits::{CAPABILITY_RETRY_PAUSE, DEADLINE, REMOTE_MESSAGE_MAX, SPACE_WAIT};
use crate::pending_calls::PendingCalls;
use crate::reply;
use crate::reserved_space::{ReservedSpace, SentRequest};
use crate::route::Route;
use crate::server_call::CalledServer;
use crate::session::MdsSession;
use crate::write_numbers::WriteNumbers;
use gupfs_platform::Clock;
use gupfs_proto::capability::{CapabilityFault, DataCredentials};
use gupfs_proto::data::{self, DataOp, DataReply, DataReplyBody, DataRequest};
use gupfs_proto::limits::{CLIENT_TERM, PAYLOAD_MAX};
use gupfs_proto::{ByteCount, FsError, ObjectId, OstId};
use std::sync::Arc;

pub struct OstCalls {
    route: Arc<Route>,
    mds: Arc<MdsSession>,
    pending_calls: Arc<PendingCalls>,
    write_numbers: WriteNumbers,
    reserved_space: Arc<ReservedSpace>,
    clock: Clock,
    /// The site's number of the job, for the OSTs' accounting.
    job: u64,
}

impl OstCalls {
    pub fn new(
        route: Arc<Route>,
        mds: Arc<MdsSession>,
        pending_calls: Arc<PendingCalls>,
        clock: Clock,
        job: u64,
    ) -> Arc<OstCalls> {
        Arc::new(OstCalls {
            route,
            mds,
            pending_calls,
            write_numbers: WriteNumbers::default(),
            reserved_space: Arc::default(),
            clock,
            job,
        })
    }

    /// Calls an OST.
    pub async fn call(&self, ost: OstId, op: DataOp) -> DataReply {
        tracing::trace!(target: "walk", file = file!(), "call");
        let pending_call =
            (self.pending_calls).begin(CalledServer::Ost(ost), op.name(), op.first_ino());
        let reply = self.call_with_credentials(ost, op).await;
        pending_call.finish(reply.is_ok());
        reply
    }

    /// Calls an OST for a write of a file that other clients write at the same time: however often the request is sent, it does not
    /// overwrite a write that began after it took effect.
    pub async fn call_numbered(&self, ost: OstId, write: DataOp) -> DataReply {
        tracing::trace!(target: "walk", file = file!(), "call_numbered");
        // A request to an OST in this process is never repeated.
        if !self.route.uses_map() {
            return self.call(ost, write).await;
        }
        let numbered = self.write_numbers.begin_write(ost).await;
        let op = write.clone().with_number(numbered.number);
        match self.call(ost, op).await {
            // The OST has a former version, which does not know numbers.
            Err(FsError::NotSupported) => self.call(ost, write).await,
            reply => reply,
        }
    }

    /// What the targets keep for the unsent bytes of this client.
    pub fn reserved_space(&self) -> &Arc<ReservedSpace> {
        &self.reserved_space
    }

    /// Asks a target to keep `bytes` in all for this client; `reserved_space` has the answer.
    pub async fn reserve(&self, ost: OstId, bytes: u64) {
        let pending = self.reserved_space.begin_reserve(ost);
        let sent = self.sent_now();
        let reply = self.call(ost, DataOp::Reserve { bytes }).await;
        match reply {
            Ok(DataReplyBody::Reserved(reservation)) => pending.answered(sent, reservation),
            // A target of a former version does not know reservations.
            reply => tracing::debug!(%ost, ?reply, "the target reserves no space"),
        }
    }

    /// Gives back the space at a target that no unsent byte needs: another write has found no other. Returns whether there was some.
    pub async fn return_spare_space(&self, ost: OstId) -> bool {
        let Some((bytes, pending)) = self.reserved_space.begin_return(ost).await else {
            return false;
        };
        let sent = self.sent_now();
        match self.call(ost, DataOp::Reserve { bytes }).await {
            Ok(DataReplyBody::Reserved(reservation)) => {
                pending.answered(sent, reservation);
                true
            }
            _ => false,
        }
    }

    fn sent_now(&self) -> SentRequest {
        SentRequest {
            session: self.mds.id(),
            at: self.clock.boot(),
        }
    }

    /// Calls an OST for a write into the space that it keeps for this client.
    pub async fn call_reserved(&self, ost: OstId, write: DataOp) -> DataReply {
        tracing::trace!(target: "walk", file = file!(), "call_reserved");
        let pending = self.reserved_space.begin_write(ost);
        let sent = self.sent_now();
        match self.call(ost, write.clone().into_reserved()).await {
            Ok(DataReplyBody::WrittenReserved(stat, verifier, left)) => {
                pending.answered(sent, left);
                Ok(DataReplyBody::Written(stat, verifier))
            }
            // The target has moved to an OST of a former version.
            Err(FsError::NotSupported) => self.call(ost, write).await,
            reply => reply,
        }
    }

    /// Sends the request with credentials. If the OST answers that they have expired, the client fetches new ones and repeats the
    /// request.
    async fn call_with_credentials(&self, ost: OstId, op: DataOp) -> DataReply {
        let mut request = DataRequest {
            session: self.mds.id(),
            map_epoch: self.mds.map_epoch(),
            job: self.job,
            ost,
            credentials: DataCredentials::None,
            op,
        };
        if !self.route.uses_map() {
            let peer = self.route.peer(ost, request.map_epoch).await?;
            return peer.call(request).await;
        }
        let clock = &self.clock;
        let mut given_up = clock.boot() + DEADLINE;
        loop {
            request.credentials = self.mds.credentials_for(ost, &request.op).await?;
            let presented_at = clock.boot();
            let reply = self.call_at_current_address(&request).await;
            if reply != Err(FsError::Capability(CapabilityFault::Expired)) {
                return reply;
            }
            if clock.boot().since(presented_at) >= CLIENT_TERM {
                // The OST was down while the request waited, so the credentials had expired when they arrived.
                given_up = clock.boot() + DEADLINE;
            }
            if clock.boot() >= given_up {
                return reply;
            }
            tracing::debug!(%ost, op = request.op.name(), "the credentials have expired; the client fetches new ones");
            self.mds.refresh_credentials(&request.op).await?;
            if self.mds.id() != request.session {
                return Err(FsError::Stale);
            }
            // The OST may learn of a new metadata server instance later than this client: within a second or two.
            clock.sleep(CAPABILITY_RETRY_PAUSE).await;
        }
    }

    /// Sends the request again if the target moves to another address meanwhile.
    async fn call_at_current_address(&self, request: &DataRequest) -> DataReply {
        let (ost, newest) = (request.ost, || self.mds.map_epoch());
        loop {
            let peer = self.route.peer(ost, newest()).await?;
            let was = self.route.address(ost);
            let reply = tokio::select! {
                biased;
                reply = peer.call(request.clone()) => reply,
                () = self.route.wait_until_moved(ost, newest) => continue,
            };
            let is_down = matches!(reply, Err(FsError::TargetDown { .. }));
            // The target may have moved to another server before this client received the new map.
            if !is_down || !self.route.has_moved(ost, was.as_deref()).await {
                return reply;
            }
        }
    }

    /// Whether the target was declared lost: it will not come back.
    pub fn is_gone(&self, ost: OstId) -> bool {
        self.route.is_gone(ost)
    }

    /// The other targets of this target's server.
    pub fn others_on_server(&self, ost: OstId) -> Vec<OstId> {
        self.route.others_on_server(ost)
    }

    /// Returns when the session is valid for certain.
    ///
    /// # Errors
    /// `Stale` if it was lost; `TimedOut`.
    pub fn wait_for_valid_session(&self) -> impl Future<Output = Result<(), FsError>> {
        self.mds.wait_for_valid_session()
    }

    /// Bytes of one message to a target; a target in this process gets the largest.
    pub fn message_bytes_max(&self) -> ByteCount {
        match self.route.uses_map() {
            true => REMOTE_MESSAGE_MAX,
            false => PAYLOAD_MAX,
        }
    }

    /// Every target.
    pub async fn all(&self) -> Result<Vec<OstId>, FsError> {
        self.route.all(self.mds.map_epoch()).await
    }

    /// Size, blocks and mtime of one object; None if it does not exist.
    pub async fn stat(
        &self,
        ost: OstId,
        object: ObjectId,
    ) -> Result<Option<data::ObjectStat>, FsError> {
        match self.call(ost, DataOp::Stat { object }).await? {
            DataReplyBody::Stat(stat) => Ok(stat),
            _ => reply::unexpected("stat"),
        }
    }

    /// One target's space. A target that does not reply does not block the others: operators run df(1) when something is wrong.
    pub async fn space(&self, ost: OstId) -> Result<data::TargetCapacity, FsError> {
        let reply = tokio::select! {
            biased;
            reply = self.call(ost, DataOp::Space) => reply?,
            () = self.clock.sleep(SPACE_WAIT) => {
                return Err(FsError::TimedOut(format!("the space of ost{ost}")));
            }
        };
        match reply {
            DataReplyBody::Space(space) => Ok(space),
            _ => reply::unexpected("space"),
        }
    }
}
