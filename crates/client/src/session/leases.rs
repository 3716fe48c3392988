//! Leases on metadata: asking for them, answering by them, and what comes with a reply.

use super::MdsSession;
use gupfs_proto::lease::{LeaseReply, LeaseRevocation};
use gupfs_proto::meta::{self, MetaOp, MetaReplyBody};
use gupfs_proto::operations::AccessRule;
use gupfs_proto::{Caller, FsError, wire};

impl MdsSession {
    /// Asks the server for leases if it has not answered yet: once for each session, instance of the server and connection, and again after
    /// a refusal for now. Without leases the client sends every operation to the server.
    pub(super) async fn accept_leases(&self) {
        let Some(asked) = self.lease_cache.ask() else {
            return;
        };
        let (instance, last_seen) = self.replay_log.position();
        let request = meta::MetaRequest {
            session: self.id(),
            slot_seq: None,
            caller: Caller::root(),
            job: self.options.job,
            instance,
            last_seen,
            op: MetaOp::AcceptLeases,
        };
        match self.route.mds.call(request).await.result {
            Ok(MetaReplyBody::LeasesAccepted { root_squashed }) => {
                self.lease_cache.accepted(asked, root_squashed);
            }
            Ok(_) => {
                tracing::info!(
                    "the metadata server's reply to 'accept_leases' has an unexpected type: this client caches no metadata"
                );
            }
            Err(FsError::NotSupported) => {
                tracing::info!(
                    "the metadata server grants no leases: this client caches no metadata"
                );
            }
            Err(error) => {
                tracing::info!(%error, "the metadata server grants no leases now: this client asks again with the next renewal");
                self.lease_cache.refused(asked);
            }
        }
    }

    /// The reply that leases tell, without a request to the server.
    pub(super) fn answer_by_leases(
        &self,
        caller: &Caller,
        op: &MetaOp,
    ) -> Option<Result<MetaReplyBody, FsError>> {
        if !self.is_shared() {
            return None;
        }
        if !self.current.is_valid() {
            self.lease_cache.clear();
            return None;
        }
        let answer = self
            .lease_cache
            .answer(caller, op, || self.is_open_for(op))?;
        if let Ok(MetaReplyBody::Opened(opened)) = &answer {
            self.capabilities
                .put_missing_file(opened.attr.ino, opened.capability.as_ref());
        }
        Some(answer)
    }

    /// Whether an open capability of this session allows the operation.
    fn is_open_for(&self, op: &MetaOp) -> bool {
        let AccessRule::Open(ino, access) = op.operation().rule else {
            return false;
        };
        let open_capability = self.state.open_capability(self.id(), ino);
        open_capability.is_some_and(|given| given.rights.allows(access))
    }

    /// The server revokes leases of this session. When this returns, this client answers nothing by them any more.
    pub fn revoke_leases(&self, revocation: &LeaseRevocation) {
        self.lease_cache.revoke(revocation);
    }
}

/// Takes the leases out of a reply, which has the plain outcome of the operation then.
pub(super) fn take_leases(reply: &mut meta::MetaReply) -> LeaseReply {
    let Ok(MetaReplyBody::LeaseReply(leases)) = &mut reply.result else {
        return LeaseReply::default();
    };
    let leases = std::mem::take(leases);
    reply.result = match wire::decode_outcome(&leases.outcome) {
        Ok(outcome) => outcome,
        Err(error) => Err(FsError::Malformed(error.to_string())),
    };
    leases
}
