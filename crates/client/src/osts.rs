//! # osts: one operation of an OST, sent and answered
//!
//! Owns   the route of a request: the peer that serves the target now, and the credentials that it requires.
//! Never  knows what an object belongs to.
//! Enter  at `OstCalls::call`.

use crate::limits::{
    CAPABILITY_RETRY_PAUSE, DEADLINE, RELAY_MESSAGE_MAX, RELAY_MIN, REMOTE_MESSAGE_MAX, SPACE_WAIT,
};
use crate::options::{RelayMode, SessionOptions};
use crate::pending_calls::PendingCalls;
use crate::relay_targets::{RelayTargets, TicketState};
use crate::reply;
use crate::reserved_space::{PendingReservedWrite, ReservedSpace, SentRequest};
use crate::route::Route;
use crate::server_call::CalledServer;
use crate::session::MdsSession;
use crate::write_numbers::WriteNumbers;
use gupfs_platform::{Clock, CurrentCall};
use gupfs_proto::capability::{CapabilityFault, DataCredentials};
use gupfs_proto::data::{
    self, DataOp, DataReply, DataReplyBody, DataRequest, MemberWritten, ObjectExistence,
    OtherMember, RelayOutcome, RelayTicket,
};
use gupfs_proto::limits::{CLIENT_TERM, PAYLOAD_MAX};
use gupfs_proto::{ByteCount, FsError, ObjectId, OstId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member to which a server relays a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayedMember {
    pub ost: OstId,
    pub object: ObjectId,
    pub existence: ObjectExistence,
    pub ticket: RelayTicket,
}

pub struct OstCalls {
    route: Arc<Route>,
    mds: Arc<MdsSession>,
    pending_calls: Arc<PendingCalls>,
    write_numbers: WriteNumbers,
    reserved_space: Arc<ReservedSpace>,
    relay_targets: Arc<RelayTargets>,
    relay_mode: RelayMode,
    clock: Clock,
}

impl OstCalls {
    pub fn new(
        route: Arc<Route>,
        mds: Arc<MdsSession>,
        pending_calls: Arc<PendingCalls>,
        clock: Clock,
        options: &SessionOptions,
    ) -> Arc<OstCalls> {
        Arc::new(OstCalls {
            route,
            mds,
            pending_calls,
            write_numbers: WriteNumbers::default(),
            reserved_space: Arc::default(),
            relay_targets: Arc::default(),
            relay_mode: options.relay,
            clock,
        })
    }

    /// Calls an OST.
    pub async fn call(&self, ost: OstId, op: DataOp) -> DataReply {
        tracing::trace!(target: "walk", file = file!(), "call");
        let pending_call =
            (self.pending_calls).begin(CalledServer::Ost(ost), op.name(), op.first_ino());
        let reply = match op.changes() && self.relay_targets.may_be_late(ost) {
            true => match self.refuse_late_relays(ost).await {
                Ok(()) => self.call_with_credentials(ost, op).await,
                Err(error) => Err(error),
            },
            false => self.call_with_credentials(ost, op).await,
        };
        pending_call.finish(reply.is_ok());
        reply
    }

    /// Whether this target's server can relay a write of so many bytes.
    pub fn can_relay_from(&self, ost: OstId, len: ByteCount) -> bool {
        let is_worthwhile = match self.relay_mode {
            RelayMode::Never => false,
            RelayMode::Always => true,
            RelayMode::Auto => len >= RELAY_MIN && !self.route.is_on_this_host(ost),
        };
        is_worthwhile
            && self.route.uses_map()
            && !self.relay_targets.is_paused(ost, self.clock.boot())
    }

    /// Whether a write can be relayed to this target.
    pub fn relay_ticket(&self, ost: OstId) -> TicketState {
        self.relay_targets
            .ticket(ost, self.mds.id(), self.clock.boot())
    }

    /// Has the target accept relayed writes of this client.
    pub async fn request_relay_ticket(&self, ost: OstId) {
        let accepted = self.accept_relays(ost, |_| true).await;
        self.relay_targets.requested(ost);
        if let Err(error) = accepted {
            tracing::debug!(%ost, %error, "the target accepts no relayed writes");
            self.relay_targets.pause(ost, self.clock.boot());
        }
    }

    /// The caller waits no more for this relay by another target's server: before the next change the member's target refuses it.
    pub fn gave_up_relay(&self, by: OstId, relayed: &RelayedMember) {
        self.relay_targets.gave_up(relayed.ost, relayed.ticket);
        self.relay_targets.pause(by, self.clock.boot());
    }

    /// When this returns, no relayed write that was sent before is being executed at the target, or will be.
    async fn refuse_late_relays(&self, ost: OstId) -> Result<(), FsError> {
        let is_needed = |targets: &RelayTargets| targets.may_be_late(ost);
        self.accept_relays(ost, is_needed).await
    }

    async fn accept_relays(
        &self,
        ost: OstId,
        is_needed: impl Fn(&RelayTargets) -> bool,
    ) -> Result<(), FsError> {
        let targets = &self.relay_targets;
        let accepting = targets.accepting(ost);
        let _accepting = accepting.lock().await;
        if !is_needed(targets) {
            return Ok(());
        }
        let (session, ticket) = (self.mds.id(), targets.next_ticket(ost));
        let accepted = self.call_with_credentials(ost, DataOp::AcceptRelays { ticket });
        match accepted.await {
            Ok(_) => {
                targets.accepted(ost, session, ticket);
                Ok(())
            }
            // A target of a former version executes none.
            Err(FsError::NotSupported) => {
                targets.none_accepted(ost);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Calls an OST for a write that its server relays to these other members; the reply is `WrittenMembers`. The request is sent once, to one
    /// server: what was relayed may arrive after a repetition.
    pub async fn call_relaying(
        &self,
        ost: OstId,
        write: DataOp,
        is_reserved: bool,
        to: &[RelayedMember],
    ) -> DataReply {
        tracing::trace!(target: "walk", file = file!(), "call_relaying");
        let pending_call =
            (self.pending_calls).begin(CalledServer::Ost(ost), write.name(), write.first_ino());
        let mut sent = (self.relay_targets).sent(to.iter().map(|it| (it.ost, it.ticket)));
        let begin_write = |ost| (ost, self.reserved_space.begin_write(ost));
        let osts = std::iter::once(ost).chain(to.iter().map(|it| it.ost));
        let pending_writes = osts.filter(|_| is_reserved).map(begin_write);
        let mut pending_writes: BTreeMap<OstId, PendingReservedWrite> = pending_writes.collect();
        let sent_at = self.sent_now();
        let reply = match self.mirrored_request(ost, write, is_reserved, to).await {
            Ok(request) => self.call_once(request).await,
            Err(error) => Err(error),
        };
        let mut written_at = |ost: OstId, written: &MemberWritten| {
            if let (Some(pending), Some(left)) = (pending_writes.remove(&ost), written.reservation)
            {
                pending.answered(sent_at, left);
            }
        };
        pending_call.finish(reply.is_ok());
        let now = self.clock.boot();
        match &reply {
            Ok(DataReplyBody::WrittenMembers { own, others }) if others.len() == to.len() => {
                if let Ok(written) = own {
                    written_at(ost, written);
                }
                for (member, outcome) in to.iter().zip(others) {
                    match outcome {
                        RelayOutcome::Written(written) => {
                            sent.ended(member.ost);
                            written_at(member.ost, written);
                        }
                        RelayOutcome::Refused(error) => {
                            sent.ended(member.ost);
                            match error {
                                FsError::Stale => self.relay_targets.refused(member.ost),
                                FsError::TimedOut(_) => self.relay_targets.pause(member.ost, now),
                                _ => {}
                            }
                        }
                        RelayOutcome::Unknown => self.relay_targets.pause(member.ost, now),
                    }
                }
            }
            // The server has not begun: it refuses the credentials, is of a former version, or has no such target.
            Err(FsError::Capability(_) | FsError::TargetDown { .. }) => sent.all_ended(),
            Err(FsError::NotSupported) => {
                sent.all_ended();
                self.relay_targets.pause(ost, now);
            }
            _ => self.relay_targets.pause(ost, now),
        }
        reply
    }

    async fn mirrored_request(
        &self,
        ost: OstId,
        write: DataOp,
        is_reserved: bool,
        to: &[RelayedMember],
    ) -> Result<DataRequest, FsError> {
        let session = self.mds.id();
        let credentials = self.mds.credentials_for(ost, &write).await?;
        let mut others = Vec::new();
        for member in to {
            others.push(OtherMember {
                ost: member.ost,
                object: member.object,
                existence: member.existence,
                credentials: self.mds.credentials_for(member.ost, &write).await?,
                ticket: member.ticket,
            });
        }
        Ok(DataRequest {
            session,
            map_epoch: self.mds.map_epoch(),
            job: CurrentCall::get().job,
            ost,
            credentials,
            op: write.relayed_to(others, is_reserved),
        })
    }

    async fn call_once(&self, request: DataRequest) -> DataReply {
        let (ost, newest) = (request.ost, || self.mds.map_epoch());
        let peer = self.route.peer(ost, newest()).await?;
        tokio::select! {
            biased;
            reply = peer.call(request) => reply,
            () = self.route.wait_until_moved(ost, newest) => {
                Err(FsError::TimedOut(format!("ost{ost}, which has moved to another server")))
            }
        }
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
    /// request, until `DEADLINE` is over.
    async fn call_with_credentials(&self, ost: OstId, op: DataOp) -> DataReply {
        let mut request = DataRequest {
            session: self.mds.id(),
            map_epoch: self.mds.map_epoch(),
            job: CurrentCall::get().job,
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
                return Err(FsError::TimedOut(format!(
                    "ost{ost}, whose server takes new credentials for expired: it may be cut off from the metadata server"
                )));
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

    /// The same for a message that a server may relay.
    pub fn mirrored_bytes_max(&self) -> ByteCount {
        let is_relayed = match self.relay_mode {
            RelayMode::Never => false,
            RelayMode::Always => true,
            RelayMode::Auto => !self.route.are_all_on_this_host(),
        };
        match is_relayed && self.route.uses_map() {
            true => RELAY_MESSAGE_MAX,
            false => self.message_bytes_max(),
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
