//! The handler of metadata requests of other processes.

use super::root_squash::squash_root;
use super::session_owners::{SessionOwners, add_client_key};
use crate::join;
use crate::limits::OST_CALLS;
use crate::mds::Mds;
use gupfs_proto::FsError;
use gupfs_proto::callback::CallbackRequest;
use gupfs_proto::meta::{MetaOp, MetaReply, MetaReplyBody, MetaRequest};
use gupfs_proto::wire::{MessageKind, ReplyMessage as _, decode_outcome};
use gupfs_rpc::{ClientKeyId, ConnectedPeer, ConnectionObserver, PeerHandler, Service};
use std::sync::Arc;

/// Checks and changes each request by its sender, then passes it to the server. It also observes connections: a session whose
/// connection ends gets no callbacks until its process uses it again.
pub struct MetaHandler {
    mds: Arc<Mds>,
    /// Squash root of hosts, unless their key says otherwise.
    squash: bool,
    owners: SessionOwners,
}

impl MetaHandler {
    /// With `squash` the handler squashes root of each host whose key does not trust it.
    pub fn new(mds: Arc<Mds>, squash: bool) -> Arc<MetaHandler> {
        Arc::new(MetaHandler {
            mds,
            squash,
            owners: SessionOwners::default(),
        })
    }

    /// Whether root of the peer's host is squashed. Depends only on the peer, never on the request.
    fn squashes_root_of(&self, from: &ConnectedPeer) -> bool {
        self.squash && !from.identity().key.is_root_trusted()
    }

    /// Ends the sessions of hosts with revoked keys; their connections are closed already.
    pub async fn end_revoked_sessions(&self, is_revoked: &(dyn Fn(&ClientKeyId) -> bool + Sync)) {
        let sessions = self.owners.take_revoked(is_revoked).into_iter();
        // At once: the cleanup of one may wait for the end of its term, and the others must be fenced before.
        let ends = sessions.map(|session| {
            tracing::warn!(%session, "session ended: the key of its host is revoked");
            self.mds.end_session(session)
        });
        join::all(ends.collect(), OST_CALLS).await;
    }
}

impl PeerHandler<MetaRequest, MetaReply> for MetaHandler {
    async fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        mut request: MetaRequest,
    ) -> MetaReply {
        let opens = matches!(request.op, MetaOp::OpenSession { .. });
        let closes = matches!(request.op, MetaOp::CloseSession);
        let session = request.session;
        let admitted = match opens {
            true => self.owners.reserve(&self.mds, &from).map(Some),
            false => (self.owners.check(&self.mds, &from, session)).map(|()| None),
        };
        let _opening = match admitted {
            Ok(opening) => opening,
            Err(error) => return MetaReply::from_error(error),
        };
        if self.squashes_root_of(&from) {
            squash_root(&mut request);
        }
        if let MetaOp::OpenSession { client } = &mut request.op {
            add_client_key(client, &from);
        }
        if let MetaOp::AcceptLeases = &request.op
            && !from.accepts_version(MessageKind::CALLBACK, CallbackRequest::REVOKE_LEASES_SINCE)
        {
            // The process could not be asked to give them up.
            return MetaReply::from_error(FsError::NotSupported);
        }
        let mut reply = self.mds.clone().handle(request).await;
        if let Ok(MetaReplyBody::LeasesAccepted { root_squashed }) = &mut reply.result {
            *root_squashed = self.squashes_root_of(&from);
        }
        if !from.accepts_version(MessageKind::META, MetaReplyBody::MIRRORS_SINCE)
            && matches!(&reply.result, Ok(body) if has_mirrored_layout(body))
        {
            tracing::warn!(%session, client = from.identity().name, "a client of a former version opens a mirrored file: refused");
            return MetaReply::from_error(FsError::NotSupported);
        }
        match &reply.result {
            Ok(MetaReplyBody::Session { session, .. }) => {
                self.owners.attach(&self.mds, &from, *session);
            }
            Err(FsError::SessionEnded) => self.owners.forget(session),
            Ok(_) if closes => self.owners.forget(session),
            _ => {}
        }
        reply
    }
}

/// Whether the reply has a layout that peers of former versions do not know.
fn has_mirrored_layout(body: &MetaReplyBody) -> bool {
    match body {
        MetaReplyBody::Opened(opened) | MetaReplyBody::WriteBegun { opened, .. } => {
            opened.layout.is_mirrored()
        }
        MetaReplyBody::LeaseReply(reply) => {
            let outcome = decode_outcome(&reply.outcome);
            // It contains no other `LeaseReply`.
            matches!(outcome, Ok(Ok(inner)) if has_mirrored_layout(&inner))
        }
        _ => false,
    }
}

impl ConnectionObserver for MetaHandler {
    fn disconnected(&self, peer: &Arc<ConnectedPeer>) {
        self.owners.detach_all(&self.mds, peer);
    }
}
